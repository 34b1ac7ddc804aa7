// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package domain_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/finos/caplv/pkg/domain"
)

var update = flag.Bool("update", false, "write the golden files anew; then read the difference")

const id = "6f1d2c3b-4a59-4b6c-8d7e-0f1a2b3c4d5e"

// worker is a complete machine, changed by each of the given functions.
func worker(change ...func(*domain.Machine)) domain.Machine {
	m := domain.Machine{
		UUID: id, Name: domain.Name("default", "spot-worker-01"),
		VirtType: "kvm", VCPUs: 2, MemoryMiB: 8192,
		Firmware: domain.Firmware{
			Path: "/usr/share/OVMF/OVMF_CODE.fd", NVRAMTemplate: "/usr/share/OVMF/OVMF_VARS.fd",
		},
		RootDisk:     domain.Disk{Path: "/var/lib/libvirt/images/" + domain.RootVolume(id), Format: "qcow2"},
		IgnitionPath: "/var/lib/libvirt/images/" + domain.IgnitionVolume(id),
		Network:      domain.Network{Name: "default", MAC: domain.MAC(id, 0)},
		SerialLog:    "/var/lib/libvirt/images/" + domain.SerialLog(id),
		Owner:        domain.Owner{Cluster: "spot", Namespace: "default", Name: "spot-worker-01", UID: id},
	}
	for _, f := range change {
		f(&m)
	}
	return m
}

func render(t *testing.T, m domain.Machine) string {
	t.Helper()
	text, err := domain.XML(m)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestXML(t *testing.T) {
	for name, m := range map[string]domain.Machine{
		"kvm": worker(),
		"emulated-with-libvirts-firmware": worker(func(m *domain.Machine) {
			m.VirtType, m.Firmware = "qemu", domain.Firmware{}
		}),
		"bridge-without-ignition": worker(func(m *domain.Machine) {
			m.Network = domain.Network{Bridge: "br0", MAC: domain.MAC(id, 0)}
			m.IgnitionPath = ""
		}),
	} {
		t.Run(name, func(t *testing.T) {
			got := render(t, m)
			golden := filepath.Join("testdata", name+".xml")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

func TestEveryFieldReachesTheXML(t *testing.T) {
	before := render(t, worker())
	for name, change := range map[string]func(*domain.Machine){
		"UUID":           func(m *domain.Machine) { m.UUID = "00000000-0000-4000-8000-000000000000" },
		"name":           func(m *domain.Machine) { m.Name = "other" },
		"virt type":      func(m *domain.Machine) { m.VirtType = "qemu" },
		"vCPUs":          func(m *domain.Machine) { m.VCPUs++ },
		"memory":         func(m *domain.Machine) { m.MemoryMiB++ },
		"firmware":       func(m *domain.Machine) { m.Firmware.Path = "/other.fd" },
		"NVRAM template": func(m *domain.Machine) { m.Firmware.NVRAMTemplate = "/other.fd" },
		"disk":           func(m *domain.Machine) { m.RootDisk.Path = "/other.qcow2" },
		"format":         func(m *domain.Machine) { m.RootDisk.Format = "raw" },
		"ignition":       func(m *domain.Machine) { m.IgnitionPath = "/other.json" },
		"network":        func(m *domain.Machine) { m.Network.Name = "other" },
		"bridge":         func(m *domain.Machine) { m.Network.Bridge = "br0" },
		"MAC":            func(m *domain.Machine) { m.Network.MAC = "52:54:00:00:00:01" },
		"serial log":     func(m *domain.Machine) { m.SerialLog = "/other.log" },
		"cluster":        func(m *domain.Machine) { m.Owner.Cluster = "other" },
		"namespace":      func(m *domain.Machine) { m.Owner.Namespace = "other" },
		"owner":          func(m *domain.Machine) { m.Owner.Name = "other" },
		"UID":            func(m *domain.Machine) { m.Owner.UID = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			if render(t, worker(change)) == before {
				t.Error("the XML is the same as before")
			}
		})
	}
}

func TestOwnerOf(t *testing.T) {
	owner, marked, err := domain.OwnerOf(render(t, worker()))
	if err != nil || !marked {
		t.Fatalf("marked is %t, error %v", marked, err)
	}
	owner.XMLName.Space, owner.XMLName.Local = "", ""
	want := domain.Owner{Cluster: "spot", Namespace: "default", Name: "spot-worker-01", UID: id}
	if diff := cmp.Diff(want, owner); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
	for name, text := range map[string]string{
		"no metadata": `<domain type="kvm"><name>x</name></domain>`,
		"another's mark": `<domain type="kvm"><metadata><o:owner xmlns:o="https://example.com/1" uid="` + id + `"/>` +
			`</metadata></domain>`,
		"our mark inside another's": `<domain type="kvm"><metadata><o:x xmlns:o="https://example.com/1">` +
			`<owner xmlns="https://5spot.finos.org/caplv/domain/1" uid="` + id + `"/></o:x></metadata></domain>`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, marked, err := domain.OwnerOf(text); marked || err != nil {
				t.Errorf("marked is %t, error %v", marked, err)
			}
		})
	}
	t.Run("beside another's mark", func(t *testing.T) {
		text := strings.Replace(render(t, worker()), "<metadata>", `<metadata><o:x xmlns:o="https://example.com/1"/>`, 1)
		if _, marked, err := domain.OwnerOf(text); !marked || err != nil {
			t.Errorf("marked is %t, error %v", marked, err)
		}
	})
	if _, _, err := domain.OwnerOf("no XML"); err == nil {
		t.Error("text that is no XML was read")
	}
}
