// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"github.com/finos/caplv/pkg/hypervisor"
)

// Info implements [hypervisor.Host].
func (h *host) Info(ctx context.Context) (hypervisor.Info, error) {
	info := hypervisor.Info{LibvirtVersion: version(h.version)}
	steps := []func(context.Context, *hypervisor.Info) error{h.nameHost, h.readCapabilities, h.readNode, h.readMemory, h.readPools}
	for _, step := range steps {
		if err := step(ctx, &info); err != nil {
			return hypervisor.Info{}, fmt.Errorf("reading what the host is: %w", err)
		}
	}
	return info, nil
}

func (h *host) nameHost(ctx context.Context, info *hypervisor.Info) (err error) {
	info.Hostname, err = ask(ctx, h.conn, func(l *libvirt.Libvirt) (string, error) { return l.ConnectGetHostname() })
	if err != nil {
		return err
	}
	hypervisorVersion, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) (uint64, error) { return l.ConnectGetVersion() })
	if answered(err) { // QEMU is not installed
		return nil
	}
	info.HypervisorVersion = version(hypervisorVersion)
	return err
}

// version writes libvirt's number for major.minor.release.
func version(n uint64) string { return fmt.Sprintf("%d.%d.%d", n/1_000_000, n/1000%1000, n%1000) }

func (h *host) readCapabilities(ctx context.Context, info *hypervisor.Info) error {
	text, err := askWithin(ctx, h.conn, h.slow(), func(l *libvirt.Libvirt) (string, error) { return l.ConnectGetCapabilities() })
	if err != nil {
		return err
	}
	parsed := &libvirtxml.Caps{}
	if err := parsed.Unmarshal(text); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if parsed.Host.CPU != nil {
		info.Architecture = parsed.Host.CPU.Arch
	}
	for _, guest := range parsed.Guests {
		kvm := func(d libvirtxml.CapsGuestDomain) bool { return d.Type == "kvm" }
		if guest.Arch.Name == info.Architecture && slices.ContainsFunc(guest.Arch.Domains, kvm) {
			info.KVM = true
		}
	}
	return nil
}

// readNode counts processors by the sum that libvirt gives, because its sockets are per NUMA node.
func (h *host) readNode(ctx context.Context, info *hypervisor.Info) error {
	type node struct {
		cpus int32
		kib  uint64
	}
	n, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) (n node, err error) {
		_, n.kib, n.cpus, _, _, _, _, _, err = l.NodeGetInfo()
		return n, err
	})
	info.VCPUs, info.MemoryMiB = n.cpus, int64(n.kib>>10)
	return err
}

// readMemory replaces what NodeGetInfo said, which can be wrong; NodeGetFreeMemory leaves out the page cache, most of the
// memory of a busy host. Drivers without statistics count all memory as free.
func (h *host) readMemory(ctx context.Context, info *hypervisor.Info) error {
	stats, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) ([]libvirt.NodeGetMemoryStats, error) {
		const allNodes = -1
		_, count, err := l.NodeGetMemoryStats(0, allNodes, 0)
		if err != nil {
			return nil, err
		}
		stats, _, err := l.NodeGetMemoryStats(count, allNodes, 0)
		return stats, err
	})
	if answered(err) {
		info.FreeMemoryMiB = info.MemoryMiB
		return nil
	}
	var total, free uint64 // KiB
	for _, s := range stats {
		switch s.Field {
		case "total":
			total = s.Value
		case "free", "buffers", "cached":
			free += s.Value
		}
	}
	info.MemoryMiB, info.FreeMemoryMiB = int64(total>>10), int64(free>>10)
	return err
}

func (h *host) readPools(ctx context.Context, info *hypervisor.Info) error {
	pools, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) ([]libvirt.StoragePool, error) {
		pools, _, err := l.ConnectListAllStoragePools(1, 0)
		return pools, err
	})
	if err != nil {
		return err
	}
	for _, pool := range pools {
		p, err := h.readPool(ctx, pool)
		if answered(err) { // it went meanwhile
			continue
		}
		if err != nil {
			return err
		}
		info.Pools = append(info.Pools, p)
	}
	slices.SortFunc(info.Pools, func(a, b hypervisor.Pool) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

func (h *host) readPool(ctx context.Context, pool libvirt.StoragePool) (hypervisor.Pool, error) {
	return ask(ctx, h.conn, func(l *libvirt.Libvirt) (hypervisor.Pool, error) {
		state, capacity, _, available, err := l.StoragePoolGetInfo(pool)
		if err != nil || libvirt.StoragePoolState(state) != libvirt.StoragePoolRunning {
			return hypervisor.Pool{Name: pool.Name}, err
		}
		return hypervisor.Pool{
			Name: pool.Name, Active: true,
			CapacityBytes: int64(capacity), AvailableBytes: int64(available), //nolint:gosec // G115: no disk is that large
		}, nil
	})
}
