// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package fake_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/hypervisor/fake"
	"github.com/finos/caplv/pkg/hypervisor/hypervisortest"
)

const uuid = "5d5d7aa7-5a11-4a5f-8ab9-2f6a5b1c7e01"

func xml(name, uuid, disk, mark string) string {
	return fmt.Sprintf(`<domain type='qemu'><name>%s</name><uuid>%s</uuid>
<metadata><test:mark xmlns:test='https://example.org/test'>%s</test:mark></metadata>
<memory unit='MiB'>64</memory><os><type>hvm</type></os>
<devices><disk type='file'><source file='%s'/><target dev='vda'/></disk></devices></domain>`, name, uuid, mark, disk)
}

func TestTheContract(t *testing.T) {
	host := fake.NewHost()
	base := host.AddVolume(hypervisor.Volume{Pool: "default", Name: "base.qcow2"})
	hypervisortest.TestHost(t, host, hypervisortest.Options{
		Base:      base,
		DomainXML: xml,
		ReadVolume: func(t *testing.T, v hypervisor.Volume) []byte {
			t.Helper()
			return host.Content(v.Pool, v.Name)
		},
	})
	if names := host.Names(); !slices.Equal(names, []string{"default/base.qcow2"}) {
		t.Errorf("left behind: %v", names)
	}
}

func TestAStoppedPoolIsStarted(t *testing.T) {
	host := fake.NewHost()
	host.AddVolume(hypervisor.Volume{Pool: "default", Name: "base.qcow2"})
	host.StopPool("default")
	if _, err := host.Volume(t.Context(), "default", "base.qcow2"); err != nil {
		t.Error(err)
	}
}

func TestFaultsHappenBeforeOrAfterTheEffect(t *testing.T) {
	host, lost := fake.NewHost(), errors.New("lost")
	disk := host.AddVolume(hypervisor.Volume{Pool: "default", Name: "disk"})
	if _, err := host.DefineDomain(t.Context(), xml("vm", uuid, disk.Path, "m")); err != nil {
		t.Fatal(err)
	}
	fail := func(call string) error {
		if call == "StartDomain" {
			return lost
		}
		return nil
	}
	for _, tc := range []struct {
		inject func(func(string) error)
		want   hypervisor.State
	}{{host.Fail, hypervisor.StateShutoff}, {host.FailAfter, hypervisor.StateRunning}} {
		tc.inject(fail)
		if err := host.StartDomain(t.Context(), uuid); !errors.Is(err, lost) {
			t.Errorf("got %v, want the fault", err)
		}
		tc.inject(nil)
		if d, err := host.Domain(t.Context(), uuid); err != nil || d.State != tc.want {
			t.Errorf("got %s and %v, want %s", d.State, err, tc.want)
		}
	}
	address := netip.MustParseAddr("192.168.122.100")
	host.SetAddresses(uuid, address)
	if got, err := host.Addresses(t.Context(), uuid); err != nil || !slices.Equal(got, []netip.Addr{address}) {
		t.Errorf("got %v and %v, want %s", got, err, address)
	}
}

func TestConnections(t *testing.T) {
	connector := fake.New()
	host := connector.AddHost("qemu:///a")
	target := hypervisor.Target{Key: "default/a", URI: "qemu:///a"}
	if got, err := connector.Connect(t.Context(), target); err != nil || got != host {
		t.Errorf("got %v and %v, want the host that was added", got, err)
	}
	_, err := connector.Connect(t.Context(), hypervisor.Target{Key: "default/b", URI: "qemu:///b"})
	if !errors.Is(err, hypervisor.ErrUnreachable) {
		t.Errorf("got %v, want nobody there", err)
	}
	if keys := connector.Connected(); !slices.Equal(keys, []string{"default/a"}) {
		t.Errorf("connected to %v", keys)
	}
	connector.Forget("default/a")
	refusal := &hypervisor.ConnectError{Reason: hypervisor.ReasonLoginRefused, Message: "no"}
	connector.Refuse("qemu:///a", refusal)
	if _, err := connector.Connect(t.Context(), target); !errors.Is(err, refusal) {
		t.Errorf("got %v, want the refusal", err)
	}
	if keys := connector.Connected(); len(keys) != 0 {
		t.Errorf("connected to %v", keys)
	}
}
