// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package domain

import "libvirt.org/go/libvirtxml"

func devices(m Machine) *libvirtxml.DomainDeviceList {
	port := uint(0)
	return &libvirtxml.DomainDeviceList{
		Disks: []libvirtxml.DomainDisk{disk("vda", m.RootDisk)},
		// Nothing here is on USB, and an emulated controller costs processor time.
		Controllers: []libvirtxml.DomainController{{Type: "usb", Model: "none"}},
		Interfaces:  []libvirtxml.DomainInterface{card(m.Network)},
		// virtlogd writes the log: root's, mode 0600, and cut where it grows too long.
		Serials: []libvirtxml.DomainSerial{{
			Source: &libvirtxml.DomainChardevSource{Pty: &libvirtxml.DomainChardevSourcePty{}},
			Log:    &libvirtxml.DomainChardevLog{File: m.SerialLog, Append: "on"},
			Target: &libvirtxml.DomainSerialTarget{Port: &port},
		}},
		Channels: []libvirtxml.DomainChannel{{
			// No path: libvirt chooses one per domain.
			Source: &libvirtxml.DomainChardevSource{UNIX: &libvirtxml.DomainChardevSourceUNIX{Mode: "bind"}},
			Target: &libvirtxml.DomainChannelTarget{VirtIO: &libvirtxml.DomainChannelTargetVirtIO{Name: agentChannel}},
		}},
		MemBalloon: &libvirtxml.DomainMemBalloon{Model: "virtio"},
		RNGs: []libvirtxml.DomainRNG{{
			Model:   "virtio",
			Backend: &libvirtxml.DomainRNGBackend{Random: &libvirtxml.DomainRNGBackendRandom{Device: "/dev/urandom"}},
		}},
	}
}

// disk is of type file: AppArmor's helper lets QEMU read those, and not volumes of a pool.
func disk(target string, d Disk) libvirtxml.DomainDisk {
	return libvirtxml.DomainDisk{
		Device: "disk",
		Driver: &libvirtxml.DomainDiskDriver{Name: "qemu", Type: d.Format, Discard: "unmap"},
		Source: &libvirtxml.DomainDiskSource{File: &libvirtxml.DomainDiskSourceFile{File: d.Path}},
		Target: &libvirtxml.DomainDiskTarget{Dev: target, Bus: "virtio"},
	}
}

// card is pinned to bus 1, slot 0: on a q35 board a guest then calls it enp1s0, whatever else is plugged in.
func card(n Network) libvirtxml.DomainInterface {
	zero, one := uint(0), uint(1)
	i := libvirtxml.DomainInterface{
		MAC:   &libvirtxml.DomainInterfaceMAC{Address: n.MAC},
		Model: &libvirtxml.DomainInterfaceModel{Type: "virtio"},
		Address: &libvirtxml.DomainAddress{PCI: &libvirtxml.DomainAddressPCI{
			Domain: &zero, Bus: &one, Slot: &zero, Function: &zero,
		}},
	}
	if n.Bridge != "" {
		i.Source = &libvirtxml.DomainInterfaceSource{Bridge: &libvirtxml.DomainInterfaceSourceBridge{Bridge: n.Bridge}}
		return i
	}
	i.Source = &libvirtxml.DomainInterfaceSource{Network: &libvirtxml.DomainInterfaceSourceNetwork{Network: n.Name}}
	return i
}
