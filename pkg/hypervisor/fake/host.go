// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/finos/caplv/pkg/hypervisor"
)

// Host is a libvirt host in memory. It is safe for concurrent use.
type Host struct {
	mu      sync.Mutex
	pools   map[string]*pool
	domains map[string]*domain // by UUID
	info    hypervisor.Info
	before  func(call string) error
	after   func(call string) error
}

type pool struct {
	active  bool
	volumes map[string]*volume
}

type volume struct {
	hypervisor.Volume
	content []byte // of uploads
}

type domain struct {
	hypervisor.Domain
	addresses []netip.Addr
}

var _ hypervisor.Host = (*Host)(nil)

// NewHost returns a host without pools: 16 processors, 32 GiB of memory, 30 of them free, and KVM.
func NewHost() *Host {
	return &Host{
		pools:   map[string]*pool{},
		domains: map[string]*domain{},
		info: hypervisor.Info{
			Hostname: "fake", Architecture: "x86_64", VCPUs: 16, MemoryMiB: 32 << 10, FreeMemoryMiB: 30 << 10,
			LibvirtVersion: "10.0.0", HypervisorVersion: "8.2.2", KVM: true,
		},
	}
}

// Fail makes f decide, before a verb has any effect, whether it fails. It is called with the verb's name, for example
// "StartDomain". Nil ends that.
func (h *Host) Fail(f func(call string) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before = f
}

// FailAfter makes f decide, once a verb took effect, whether its answer is lost: the caller gets the error, as if it had
// crashed or lost the connection in between. Nil ends that.
func (h *Host) FailAfter(f func(call string) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.after = f
}

// AddPool defines and starts an empty storage pool.
func (h *Host) AddPool(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pools[name] = &pool{active: true, volumes: map[string]*volume{}}
}

// StopPool leaves a pool defined, but inactive.
func (h *Host) StopPool(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pools[name].active = false
}

// AddVolume copies a file into a pool, as a person would, and defines the pool when there is none. What v leaves out is
// filled in: the path, the format qcow2, and a capacity of 10 GiB.
func (h *Host) AddVolume(v hypervisor.Volume) hypervisor.Volume {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.pools[v.Pool]
	if !ok {
		p = &pool{active: true, volumes: map[string]*volume{}}
		h.pools[v.Pool] = p
	}
	if v.Path == "" {
		v.Path = path(v.Pool, v.Name)
	}
	if v.Format == "" {
		v.Format = "qcow2"
	}
	if v.CapacityBytes == 0 {
		v.CapacityBytes = 10 << 30
	}
	p.volumes[v.Name] = &volume{Volume: v}
	return v
}

// Content returns what was uploaded into a volume, nil when there is no such volume.
func (h *Host) Content(pool, name string) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p, ok := h.pools[pool]; ok && p.volumes[name] != nil {
		return slices.Clone(p.volumes[name].content)
	}
	return nil
}

// SetInfo changes what Info answers. Its Pools are those of the host, with the sizes of pools that have the same name.
func (h *Host) SetInfo(info hypervisor.Info) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.info = info
}

// SetState puts a domain into a state, as a guest, a person or an accident would.
func (h *Host) SetState(uuid string, state hypervisor.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.domains[uuid].State = state
}

// SetAddresses are what a domain's guest agent knows while the domain runs.
func (h *Host) SetAddresses(uuid string, addresses ...netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.domains[uuid].addresses = addresses
}

// Domains returns all domains, ordered by name.
func (h *Host) Domains() []hypervisor.Domain {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []hypervisor.Domain
	for _, d := range h.domains {
		all = append(all, d.Domain)
	}
	slices.SortFunc(all, func(a, b hypervisor.Domain) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Names lists all that is on the host, sorted: volumes as pool/name, domains by their name.
func (h *Host) Names() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := []string{}
	for pool, p := range h.pools {
		for name := range p.volumes {
			names = append(names, pool+"/"+name)
		}
	}
	for _, d := range h.domains {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return names
}

// Info answers what SetInfo said.
func (h *Host) Info(ctx context.Context) (hypervisor.Info, error) {
	return verb(ctx, h, "Info", func() (hypervisor.Info, error) {
		info := h.info
		info.Pools = nil
		for name, p := range h.pools {
			info.Pools = append(info.Pools, h.poolInfo(name, p))
		}
		slices.SortFunc(info.Pools, func(a, b hypervisor.Pool) int { return strings.Compare(a.Name, b.Name) })
		return info, nil
	})
}

func (h *Host) poolInfo(name string, p *pool) hypervisor.Pool {
	if !p.active {
		return hypervisor.Pool{Name: name}
	}
	for _, told := range h.info.Pools {
		if told.Name == name {
			told.Active = true
			return told
		}
	}
	return hypervisor.Pool{Name: name, Active: true, CapacityBytes: 1 << 40, AvailableBytes: 1 << 39}
}

// verb does one call: alone, and with the faults that a test asked for.
func verb[T any](ctx context.Context, h *Host, name string, effect func() (T, error)) (T, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var none T
	if err := ctx.Err(); err != nil {
		return none, fmt.Errorf("%s: %w", name, err)
	}
	if err := fault(h.before, name); err != nil {
		return none, err
	}
	result, err := effect()
	if lost := fault(h.after, name); lost != nil {
		return none, lost
	}
	return result, err
}

// do is verb for those that only succeed or fail.
func do(ctx context.Context, h *Host, name string, effect func() error) error {
	_, err := verb(ctx, h, name, func() (struct{}, error) { return struct{}{}, effect() })
	return err
}

func fault(f func(string) error, call string) error {
	if f == nil {
		return nil
	}
	return f(call)
}
