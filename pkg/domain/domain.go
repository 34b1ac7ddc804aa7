// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package domain renders a machine, with everything resolved, to libvirt's XML, and names what belongs to it on its host.
package domain

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"libvirt.org/go/libvirtxml"
)

const (
	// namespace is that of our mark in a domain's metadata.
	namespace = "https://5spot.finos.org/caplv/domain/1"

	// ignitionKey is where Ignition looks on QEMU (its platform documentation names the key).
	ignitionKey = "opt/com.coreos/config"

	// agentChannel is where the guest agent listens.
	agentChannel = "org.qemu.guest_agent.0"
)

// Machine is all that the XML depends on: names resolved, defaults filled in.
type Machine struct {
	UUID, Name string
	// VirtType is kvm or qemu.
	VirtType  string
	VCPUs     uint
	MemoryMiB uint
	Firmware  Firmware
	RootDisk  Disk
	// IgnitionPath is the file on the host that holds the Ignition config. Empty: the machine has none any more.
	IgnitionPath string
	Network      Network
	// SerialLog is the file on the host that takes what the machine prints on its serial console.
	SerialLog string
	Owner     Owner
}

// Firmware is the UEFI firmware. Both empty: libvirt chooses one without secure boot.
type Firmware struct {
	// Path of the firmware on the host, and of the file that the machine's own variables are copied from.
	Path, NVRAMTemplate string
}

// Disk is a file on the host.
type Disk struct {
	Path string
	// Format is qcow2 or raw.
	Format string
}

// Network is what the network card is plugged into.
type Network struct {
	// Bridge on the host, or Name of a libvirt network: exactly one is set.
	Bridge, Name string
	MAC          string
}

// Owner is whose a domain is. It is written into the domain, so that nobody else's is ever touched.
type Owner struct {
	XMLName xml.Name `xml:"https://5spot.finos.org/caplv/domain/1 owner"`
	Cluster string   `xml:"cluster,attr"`
	// Namespace, Name and UID of the LibvirtMachine.
	Namespace string `xml:"namespace,attr"`
	Name      string `xml:"name,attr"`
	UID       string `xml:"uid,attr"`
}

// XML is the same text for the same machine, always.
func XML(m Machine) (string, error) {
	mark, err := xml.Marshal(m.Owner)
	if err != nil {
		return "", fmt.Errorf("marking the domain's owner: %w", err)
	}
	d := libvirtxml.Domain{
		Type:       m.VirtType,
		Name:       m.Name,
		UUID:       m.UUID,
		Metadata:   &libvirtxml.DomainMetadata{XML: string(mark)},
		Memory:     &libvirtxml.DomainMemory{Value: m.MemoryMiB, Unit: "MiB"},
		VCPU:       &libvirtxml.DomainVCPU{Value: m.VCPUs},
		SysInfo:    sysinfo(m.IgnitionPath),
		OS:         firmware(m.Firmware),
		Features:   &libvirtxml.DomainFeatureList{ACPI: &libvirtxml.DomainFeature{}, APIC: &libvirtxml.DomainFeatureAPIC{}},
		CPU:        cpu(m.VirtType),
		Clock:      &libvirtxml.DomainClock{Offset: "utc"},
		OnPoweroff: "destroy",
		OnReboot:   "restart",
		OnCrash:    "destroy",
		Devices:    devices(m),
	}
	return d.Marshal()
}

// OwnerOf reads whose a domain is from its XML. The second result is false when it carries no mark of ours.
func OwnerOf(text string) (Owner, bool, error) {
	var d libvirtxml.Domain
	if err := d.Unmarshal(text); err != nil {
		return Owner{}, false, fmt.Errorf("reading a domain's XML: %w", err)
	}
	if d.Metadata == nil {
		return Owner{}, false, nil
	}
	// The metadata may hold marks of others as well.
	decoder := xml.NewDecoder(strings.NewReader(d.Metadata.XML))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return Owner{}, false, nil
		}
		if err != nil {
			return Owner{}, false, fmt.Errorf("reading a domain's metadata: %w", err)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if start.Name.Space != namespace || start.Name.Local != "owner" {
			if err := decoder.Skip(); err != nil {
				return Owner{}, false, fmt.Errorf("reading a domain's metadata: %w", err)
			}
			continue
		}
		var owner Owner
		if err := decoder.DecodeElement(&owner, &start); err != nil {
			return Owner{}, false, fmt.Errorf("reading the mark of a domain's owner: %w", err)
		}
		return owner, true, nil
	}
}

// sysinfo hands the Ignition config over as a fw_cfg file. libvirt lets the hypervisor read it, and labels it, only when it
// stands here; on QEMU's own command line it would not.
func sysinfo(path string) []libvirtxml.DomainSysInfo {
	if path == "" {
		return nil
	}
	return []libvirtxml.DomainSysInfo{{FWCfg: &libvirtxml.DomainSysInfoFWCfg{
		Entry: []libvirtxml.DomainSysInfoEntry{{Name: ignitionKey, File: path}},
	}}}
}

// firmware names the firmware's files where the user gave them, and else asks libvirt to choose: never both, which newer
// versions refuse.
func firmware(f Firmware) *libvirtxml.DomainOS {
	os := &libvirtxml.DomainOS{
		Type:        &libvirtxml.DomainOSType{Arch: "x86_64", Machine: "q35", Type: "hvm"},
		BootDevices: []libvirtxml.DomainBootDevice{{Dev: "hd"}},
	}
	if f.Path == "" {
		os.Firmware = "efi"
		os.FirmwareInfo = &libvirtxml.DomainOSFirmwareInfo{
			Features: []libvirtxml.DomainOSFirmwareFeature{{Enabled: "no", Name: "secure-boot"}},
		}
		return os
	}
	os.Loader = &libvirtxml.DomainLoader{Path: f.Path, Readonly: "yes", Type: "pflash"}
	if f.NVRAMTemplate != "" {
		os.NVRam = &libvirtxml.DomainNVRam{Template: f.NVRAMTemplate}
	}
	return os
}

// cpu is the host's own where it runs guests itself. Emulation has a model that knows all that it can emulate.
func cpu(virtType string) *libvirtxml.DomainCPU {
	if virtType == "kvm" {
		return &libvirtxml.DomainCPU{Mode: "host-passthrough", Migratable: "on"}
	}
	return &libvirtxml.DomainCPU{Mode: "maximum"}
}
