// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package overlay says what of a LibvirtMachine goes into its copy of an Ignition config.
package overlay

import (
	"fmt"
	"strconv"
	"strings"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/domain"
	"github.com/finos/caplv/pkg/ignitionmerge"
)

// firstInterface is what a guest calls the card on PCI bus 1, slot 0 of a q35 board, where pkg/domain pins it.
const firstInterface = "enp1s0"

// Machine is a LibvirtMachine with what is decided outside its spec.
type Machine struct {
	// Spec of the LibvirtMachine.
	Spec infrav1.LibvirtMachineSpec
	// Hostname is the machine's name for itself.
	Hostname string
	// UUID of the domain, from which hardware addresses are derived.
	UUID string
	// Secret reads a key of a Secret for a file.
	Secret func(infrav1.SecretKeyReference) ([]byte, error)
}

// Of gathers what makes a machine differ from all others that share its bootstrap data. An error is one of [Machine.Secret], as it
// is.
func Of(m Machine) (ignitionmerge.Overlay, error) {
	files, err := m.files()
	return ignitionmerge.Overlay{
		Hostname:   m.Hostname,
		ProviderID: m.Spec.ProviderID,
		NICs:       []ignitionmerge.NIC{m.nic()},
		Files:      files,
		Units:      m.units(),
	}, err
}

func (m Machine) nic() ignitionmerge.NIC {
	n := m.Spec.Network
	nic := ignitionmerge.NIC{
		Interface:     firstInterface,
		MAC:           domain.MAC(m.UUID, 0),
		Addresses:     n.Addresses,
		Gateways:      n.Gateways,
		Nameservers:   n.Nameservers,
		SearchDomains: n.SearchDomains,
		MTU:           int(n.MTU),
		VLAN:          int(n.VLAN),
	}
	if n.Gateway != "" {
		nic.Gateways = []string{n.Gateway}
	}
	if n.MatchBy == infrav1.NetworkMatchMAC {
		nic.Interface = ""
	}
	for _, r := range n.Routes {
		nic.Routes = append(nic.Routes, ignitionmerge.Route{Destination: r.Destination, Via: r.Via, Metric: int(r.Metric)})
	}
	return nic
}

func (m Machine) files() ([]ignitionmerge.File, error) {
	var files []ignitionmerge.File
	for _, f := range m.Spec.Ignition.Files {
		file := ignitionmerge.File{Path: f.Path}
		file.User, file.Group, _ = strings.Cut(f.Owner, ":")
		if f.Permissions != "" {
			mode, err := strconv.ParseInt(f.Permissions, 8, 32)
			if err != nil {
				return nil, fmt.Errorf("permissions of %s: %w", f.Path, err)
			}
			file.Mode = int(mode)
		}
		if f.Content != nil {
			file.Contents = []byte(*f.Content)
		} else {
			var err error
			if file.Contents, err = m.Secret(f.ContentFrom.Secret); err != nil {
				return nil, err
			}
		}
		files = append(files, file)
	}
	return files, nil
}

func (m Machine) units() []ignitionmerge.Unit {
	var units []ignitionmerge.Unit
	for _, u := range m.Spec.Ignition.Units {
		unit := ignitionmerge.Unit{Name: u.Name, Enabled: u.Enabled, Mask: u.Mask, Contents: u.Contents}
		for _, x := range u.DropIns {
			unit.DropIns = append(unit.DropIns, ignitionmerge.DropIn{Name: x.Name, Contents: x.Contents})
		}
		units = append(units, unit)
	}
	return units
}
