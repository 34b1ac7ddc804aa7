// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/hypervisor/rpc"
	"github.com/finos/caplv/test/stand"
)

// newDomain is a defined domain with a disk of its own. Both are gone after the test.
func newDomain(t *testing.T, libvirt *stand.Libvirt, host hypervisor.Host) hypervisor.Domain {
	t.Helper()
	id := uuid.NewString()
	disk, err := host.CreateOverlay(t.Context(), "default", id, 0, hypervisor.Volume{Pool: "default", Name: baseImage})
	if err != nil {
		t.Fatal(err)
	}
	d, err := host.DefineDomain(t.Context(), qemuXML(libvirt.DomainType)("vm_"+id, id, disk.Path, "m"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		host := connect(t, connector(t, rpc.Options{}), target(libvirt)) // the test may have broken its own
		for _, remove := range []func(context.Context, string) error{host.DestroyDomain, host.UndefineDomain} {
			if err := remove(ctx, id); err != nil {
				t.Error(err)
			}
		}
		if err := host.DeleteVolume(ctx, "default", id); err != nil {
			t.Error(err)
		}
	})
	return d
}

func startDomain(t *testing.T, host hypervisor.Host, d hypervisor.Domain) {
	t.Helper()
	if err := host.StartDomain(t.Context(), d.UUID); err != nil {
		t.Fatal(err)
	}
	wantState(t, host, d, hypervisor.StateRunning)
}

func wantState(t *testing.T, host hypervisor.Host, d hypervisor.Domain, want hypervisor.State) {
	t.Helper()
	now, err := host.Domain(t.Context(), d.UUID)
	if err != nil {
		t.Fatal(err)
	}
	if now.State != want {
		t.Errorf("the domain is %s, want %s", now.State, want)
	}
}

func TestAPausedDomainGoesOn(t *testing.T) {
	libvirt := libvirtHost(t)
	host := connect(t, connector(t, rpc.Options{}), target(libvirt))
	d := newDomain(t, libvirt, host)
	virsh(t, libvirt, "start", d.Name, "--paused")
	wantState(t, host, d, hypervisor.StatePaused)
	startDomain(t, host, d)
}

func TestSavedMemoryGoesWithItsDomain(t *testing.T) {
	libvirt := libvirtHost(t)
	host := connect(t, connector(t, rpc.Options{}), target(libvirt))
	d := newDomain(t, libvirt, host)
	startDomain(t, host, d)
	virsh(t, libvirt, "managedsave", d.Name)
	wantState(t, host, d, hypervisor.StateShutoff)
	if err := host.UndefineDomain(t.Context(), d.UUID); err != nil {
		t.Error(err) // libvirtHost looks for the file
	}
}

func TestADomainIsDestroyedRightAfterItsDaemonCameBack(t *testing.T) {
	libvirt := libvirtHost(t)
	c, to := connector(t, impatient()), target(libvirt)
	host := connect(t, c, to)
	d := newDomain(t, libvirt, host)
	startDomain(t, host, d)
	if err := libvirt.Restart(t.Context(), stand.Libvirtd); err != nil {
		t.Fatal(err)
	}
	host = reconnect(t, c, to)
	if err := host.DestroyDomain(t.Context(), d.UUID); err != nil {
		t.Error(err)
	}
	wantState(t, host, d, hypervisor.StateShutoff)
}

func TestAGuestWithoutAnAgentHasNoAddresses(t *testing.T) {
	libvirt := libvirtHost(t)
	host := connect(t, connector(t, rpc.Options{}), target(libvirt))
	d := newDomain(t, libvirt, host)
	startDomain(t, host, d)
	if got, err := host.Addresses(t.Context(), d.UUID); err != nil || len(got) > 0 {
		t.Errorf("got %v and %v, want none", got, err)
	}
}

// The test driver invents leases, as a network's DHCP server would give them.
func TestALeaseIsAnAddress(t *testing.T) {
	libvirt := libvirtHost(t)
	host := connect(t, connector(t, rpc.Options{}), hypervisor.Target{
		Key: "default/test", URI: "test+unix:///default?socket=" + libvirt.Socket,
	})
	d, err := host.DefineDomain(t.Context(), fmt.Sprintf(`<domain type='test'><name>leased</name><uuid>%s</uuid>
<memory unit='MiB'>64</memory><os><type>hvm</type></os>
<devices><interface type='network'><source network='default'/></interface></devices></domain>`, uuid.NewString()))
	if err != nil {
		t.Fatal(err)
	}
	startDomain(t, host, d)
	got, err := host.Addresses(t.Context(), d.UUID)
	inNetwork := func(a netip.Addr) bool { return netip.MustParsePrefix("192.168.122.0/24").Contains(a) }
	if err != nil || !slices.ContainsFunc(got, inNetwork) {
		t.Errorf("got %v and %v, want an address of the network", got, err)
	}
}

func TestTheDefinitionIsChecked(t *testing.T) {
	libvirt := libvirtHost(t)
	host := connect(t, connector(t, rpc.Options{}), target(libvirt))
	id := uuid.NewString()
	xml := strings.Replace(qemuXML(libvirt.DomainType)("typo", id, "/nobody", "m"), "<vcpu>", "<vcpus>1</vcpus><vcpu>", 1)
	if _, err := host.DefineDomain(t.Context(), xml); err == nil {
		t.Error("a definition with an element that libvirt does not know was taken")
		if err := host.UndefineDomain(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}

func TestTheHostIsDescribed(t *testing.T) {
	libvirt := libvirtHost(t)
	info, err := connect(t, connector(t, rpc.Options{}), target(libvirt)).Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", info)
	nodeinfo := strings.Join(strings.Fields(virsh(t, libvirt, "nodeinfo")), " ")
	if !strings.Contains(nodeinfo, fmt.Sprintf("CPU(s): %d ", info.VCPUs)) {
		t.Errorf("the host has %d processors, and virsh says: %s", info.VCPUs, nodeinfo)
	}
	if info.KVM != (libvirt.DomainType == "kvm") {
		t.Errorf("KVM is %v, and the host starts domains of type %s", info.KVM, libvirt.DomainType)
	}
	if want := memTotalMiB(t); info.MemoryMiB != want {
		t.Errorf("the host has %d MiB of memory, want %d as in /proc/meminfo", info.MemoryMiB, want)
	}
}

func memTotalMiB(t *testing.T) (mib int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &mib); err != nil {
		t.Fatal(err)
	}
	return mib >> 10
}
