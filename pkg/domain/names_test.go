// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package domain_test

import (
	"net"
	"strings"
	"testing"

	"github.com/finos/caplv/pkg/domain"
)

func TestNamesAreUnambiguous(t *testing.T) {
	if domain.Name("a-b", "c") == domain.Name("a", "b-c") {
		t.Error("two machines share a name")
	}
	long := strings.Repeat("n", 63)
	one, other := domain.Name(long, strings.Repeat("m", 252)+"1"), domain.Name(long, strings.Repeat("m", 252)+"2")
	if one == other {
		t.Error("two machines with long names share a shortened name")
	}
	if len(one) > 200 {
		t.Errorf("a name has %d characters", len(one))
	}
}

func TestProviderIDs(t *testing.T) {
	host, uuid, err := domain.ParseProviderID(domain.ProviderID("laptop", id))
	if err != nil || host != "laptop" || uuid != id {
		t.Errorf("got %q, %q, %v", host, uuid, err)
	}
	for _, wrong := range []string{
		"", "libvirt://laptop", "libvirt:///" + id, "qemu://laptop/" + id, "libvirt://laptop/" + strings.ToUpper(id),
		"libvirt://laptop/" + id + "/", "libvirt://laptop/worker-1",
	} {
		if _, _, err := domain.ParseProviderID(wrong); err == nil {
			t.Errorf("%q was taken for a provider ID", wrong)
		}
	}
}

func TestVolumesBelongToOneDomain(t *testing.T) {
	const other = "6f1d2c3b-4a59-4b6c-8d7e-0f1a2b3c4d5f"
	for _, volume := range []string{domain.RootVolume(id), domain.IgnitionVolume(id), domain.SerialLog(id)} {
		if !domain.OwnsVolume(id, volume) || domain.OwnsVolume(other, volume) {
			t.Errorf("%s belongs to the wrong domain", volume)
		}
	}
	if domain.OwnsVolume(id, "rhcos.qcow2") {
		t.Error("the base image belongs to a domain")
	}
}

func TestMACs(t *testing.T) {
	mac, err := net.ParseMAC(domain.MAC(id, 0))
	if err != nil || !strings.HasPrefix(mac.String(), "52:54:00:") {
		t.Errorf("%s is no address of QEMU's range: %v", mac, err)
	}
	if mac.String() != "52:54:00:75:2f:15" {
		t.Errorf("the address of a card that exists changed to %s", mac)
	}
	if domain.MAC(id, 0) == domain.MAC(id, 1) {
		t.Error("two cards share an address")
	}
}

func TestUUIDIsThatOfTheObject(t *testing.T) {
	if got, err := domain.UUID(strings.ToUpper(id)); err != nil || got != id {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := domain.UUID("no-uuid"); err == nil {
		t.Error("text that is no UUID was taken for one")
	}
}
