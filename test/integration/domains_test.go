// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"

	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/hypervisor/rpc"
	"github.com/finos/caplv/test/stand"
)

// guest is a domain with an overlay for a disk.
type guest struct {
	name, uuid string
	disk       hypervisor.Volume
}

func (g guest) xml(kind string) string { return qemuXML(kind)(g.name, g.uuid, g.disk.Path, "mark") }

func overlay(t *testing.T, h hypervisor.Host) hypervisor.Volume {
	t.Helper()
	base := hypervisor.Volume{Pool: "default", Name: baseImage}
	v, err := h.CreateOverlay(t.Context(), "default", uuid.NewString()+".qcow2", 0, base)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// newGuest defines a domain that is gone after the test.
func newGuest(t *testing.T, libvirt *stand.Libvirt, h hypervisor.Host) guest {
	t.Helper()
	g := guest{name: "guest", uuid: uuid.NewString(), disk: overlay(t, h)}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(
			h.DestroyDomain(ctx, g.uuid), h.UndefineDomain(ctx, g.uuid), h.DeleteVolume(ctx, "default", g.disk.Name),
		); err != nil {
			t.Error(err)
		}
	})
	if _, err := h.DefineDomain(t.Context(), g.xml(libvirt.DomainType)); err != nil {
		t.Fatal(err)
	}
	return g
}

func strangersKey(t *testing.T) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

func virsh(t *testing.T, libvirt *stand.Libvirt, args ...string) string {
	t.Helper()
	out, err := libvirt.Virsh(context.WithoutCancel(t.Context()), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheHostKnowsItself(t *testing.T) {
	libvirt := libvirtHost(t)
	info, err := connect(t, connector(t, rpc.Options{}), target(libvirt)).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if kvm := libvirt.DomainType == "kvm"; info.KVM != kvm {
		t.Errorf("KVM is %t, want %t", info.KVM, kvm)
	}
	if info.Architecture != "x86_64" && info.Architecture != "aarch64" || info.HypervisorVersion == "" {
		t.Errorf("the host is %+v", info)
	}
	if len(info.Pools) != 1 || info.Pools[0].Name != "default" {
		t.Errorf("the pools are %+v", info.Pools)
	}
	if total := memTotalMiB(t); info.MemoryMiB != total {
		t.Errorf("the host has %d MiB, want the kernel's %d", info.MemoryMiB, total)
	}
}

func memTotalMiB(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	var kib int64
	for _, digit := range strings.Fields(string(text))[1] {
		kib = kib*10 + int64(digit-'0')
	}
	return kib >> 10
}

func TestAnyStateLeadsToRunning(t *testing.T) {
	libvirt := libvirtHost(t)
	h := connect(t, connector(t, rpc.Options{}), target(libvirt))
	g := newGuest(t, libvirt, h)
	for _, before := range [][]string{nil, {"suspend"}, {"destroy"}, {"managedsave"}, {"managedsave", "--paused"}} {
		must(t, h.StartDomain(t.Context(), g.uuid))
		if before != nil {
			virsh(t, libvirt, append([]string{before[0], g.uuid}, before[1:]...)...)
		}
		must(t, h.StartDomain(t.Context(), g.uuid))
		if d, err := h.Domain(t.Context(), g.uuid); err != nil || d.State != hypervisor.StateRunning {
			t.Errorf("after virsh %v the domain is %s (%v)", before, d.State, err)
		}
	}
	// The saved memory goes with the domain.
	virsh(t, libvirt, "managedsave", g.uuid)
}

func TestANVRAMTemplateIsNeverTouched(t *testing.T) {
	libvirt := libvirtHost(t)
	h := connect(t, connector(t, rpc.Options{}), target(libvirt))
	templates := func() (all []string) {
		for _, pattern := range []string{"/usr/share/OVMF/*", "/usr/share/qemu/*.fd"} {
			files, _ := filepath.Glob(pattern) // the patterns are valid
			all = append(all, files...)
		}
		return all
	}
	before := templates()
	g := newGuest(t, libvirt, h)
	must(t, h.StartDomain(t.Context(), g.uuid))
	must(t, h.DestroyDomain(t.Context(), g.uuid))
	must(t, h.UndefineDomain(t.Context(), g.uuid))
	if after := templates(); len(after) != len(before) || len(before) == 0 {
		t.Errorf("firmware before: %v, after: %v", before, after)
	}
}

func TestFilesThatComeAndGoBehindLibvirtsBack(t *testing.T) {
	libvirt := libvirtHost(t)
	h := connect(t, connector(t, rpc.Options{}), target(libvirt))
	path := filepath.Join(libvirt.PoolDir, "copied.raw")
	must(t, os.WriteFile(path, make([]byte, 4096), 0o600))
	v, err := h.Volume(t.Context(), "default", "copied.raw")
	if err != nil || v.Path != path || v.Format != "raw" || v.CapacityBytes != 4096 {
		t.Errorf("a file that was copied into the pool is %+v, %v", v, err)
	}
	must(t, os.Remove(path))
	if v, err := h.Volume(t.Context(), "default", "copied.raw"); !errors.Is(err, hypervisor.ErrNotFound) {
		t.Errorf("a file that was removed is %+v, %v", v, err)
	}
	must(t, os.WriteFile(path, make([]byte, 8192), 0o600))
	must(t, h.DeleteVolume(t.Context(), "default", "copied.raw"))
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a volume that was deleted: %v", err)
	}
}

func TestAPoolThatIsStopped(t *testing.T) {
	libvirt := libvirtHost(t)
	h := connect(t, connector(t, rpc.Options{}), target(libvirt))
	virsh(t, libvirt, "pool-destroy", "default")
	info, err := h.Info(t.Context())
	if err != nil || len(info.Pools) != 1 || info.Pools[0].Active || info.Pools[0].CapacityBytes != 0 {
		t.Errorf("a stopped pool is %+v, %v", info.Pools, err)
	}
	wantAnswer(t, h)
}

func TestAnUploadThatWasCutOff(t *testing.T) {
	libvirt := libvirtHost(t)
	content := []byte(strings.Repeat("ignition ", 4<<20/9))
	gate := newGate(t, libvirt)
	to := target(libvirt)
	to.URI = gate.uri
	c := connector(t, impatient())
	h := connect(t, c, to)
	ctx, giveUp := context.WithCancel(t.Context())
	cut := make(chan error, 1)
	go func() {
		_, err := h.UploadVolume(ctx, "default", "cut.ign", content)
		cut <- err
	}()
	poll(t, "the upload has begun", func() bool {
		_, err := os.Stat(filepath.Join(libvirt.PoolDir, "cut.ign"))
		return err == nil
	})
	gate.shut()
	c.Forget(to.Key)
	if err := <-cut; err != nil { // it may have been faster
		wantUnreachable(t, "uploading", err)
	}
	giveUp()
	gate.open()
	poll(t, "the volume is whole", func() bool {
		_, err := eventually(t, c, to).UploadVolume(t.Context(), "default", "cut.ign", content)
		return err == nil
	})
	if got, err := os.ReadFile(filepath.Join(libvirt.PoolDir, "cut.ign")); err != nil || string(got) != string(content) {
		t.Errorf("the volume holds %d bytes (%v), which are not the %d of the upload", len(got), err, len(content))
	}
	must(t, eventually(t, c, to).DeleteVolume(t.Context(), "default", "cut.ign"))
}
