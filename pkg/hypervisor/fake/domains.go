// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package fake

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"

	"github.com/finos/caplv/pkg/hypervisor"
)

func (h *Host) domain(id string) (*domain, error) {
	d, ok := h.domains[id]
	if !ok {
		return nil, fmt.Errorf("domain %s: %w", id, hypervisor.ErrNotFound)
	}
	return d, nil
}

// Domain finds a domain.
func (h *Host) Domain(ctx context.Context, uuid string) (hypervisor.Domain, error) {
	return verb(ctx, h, "Domain", func() (hypervisor.Domain, error) {
		d, err := h.domain(uuid)
		if err != nil {
			return hypervisor.Domain{}, err
		}
		return d.Domain, nil
	})
}

// DefineDomain makes a domain, or changes the definition of the one with the same UUID.
func (h *Host) DefineDomain(ctx context.Context, xml string) (hypervisor.Domain, error) {
	return verb(ctx, h, "DefineDomain", func() (hypervisor.Domain, error) {
		name, id, err := identity(xml)
		if err != nil {
			return hypervisor.Domain{}, err
		}
		for _, d := range h.domains {
			if d.Name == name && d.UUID != id {
				return hypervisor.Domain{}, fmt.Errorf("domain %s has UUID %s: %w", name, d.UUID, hypervisor.ErrNameTaken)
			}
		}
		d, ok := h.domains[id]
		if ok && d.Name != name {
			return hypervisor.Domain{}, fmt.Errorf("domain %s is called %s and cannot be renamed to %s", id, d.Name, name)
		}
		if !ok {
			d = &domain{Domain: hypervisor.Domain{UUID: id, Name: name, State: hypervisor.StateShutoff}}
			h.domains[id] = d
		}
		d.XML = xml
		return d.Domain, nil
	})
}

// identity reads who a definition is about. Libvirt invents a UUID when there is none.
func identity(xml string) (name, id string, err error) {
	parsed := &libvirtxml.Domain{}
	if err := parsed.Unmarshal(xml); err != nil {
		return "", "", fmt.Errorf("domain XML: %w", err)
	}
	if parsed.Name == "" {
		return "", "", fmt.Errorf("domain XML has no name")
	}
	if parsed.UUID == "" {
		return parsed.Name, uuid.NewString(), nil
	}
	u, err := uuid.Parse(parsed.UUID)
	return parsed.Name, u.String(), err
}

// StartDomain brings a domain to Running. A cold start needs the files of all disks and of all fw_cfg entries to be there.
func (h *Host) StartDomain(ctx context.Context, uuid string) error {
	return do(ctx, h, "StartDomain", func() error {
		d, err := h.domain(uuid)
		if err != nil {
			return err
		}
		switch d.State {
		case hypervisor.StateRunning, hypervisor.StateBlocked, hypervisor.StatePaused, hypervisor.StatePMSuspended:
		case hypervisor.StateShutdown:
			return fmt.Errorf("domain %s is shutting down", d.Name)
		case hypervisor.StateNoState, hypervisor.StateShutoff, hypervisor.StateCrashed:
			if err := h.filesExist(d.XML); err != nil {
				return fmt.Errorf("starting domain %s: %w", d.Name, err)
			}
		}
		d.State = hypervisor.StateRunning
		return nil
	})
}

func (h *Host) filesExist(xml string) error {
	parsed := &libvirtxml.Domain{}
	if err := parsed.Unmarshal(xml); err != nil {
		return err
	}
	for _, file := range files(parsed) {
		if !h.hasFile(file) {
			return fmt.Errorf("cannot access %s: no such file", file)
		}
	}
	return nil
}

func files(d *libvirtxml.Domain) []string {
	var paths []string
	if d.Devices != nil {
		for _, disk := range d.Devices.Disks {
			if disk.Source != nil && disk.Source.File != nil {
				paths = append(paths, disk.Source.File.File)
			}
		}
	}
	for _, info := range d.SysInfo {
		if info.FWCfg == nil {
			continue
		}
		for _, entry := range info.FWCfg.Entry {
			if entry.File != "" {
				paths = append(paths, entry.File)
			}
		}
	}
	return paths
}

func (h *Host) hasFile(path string) bool {
	for _, p := range h.pools {
		for _, v := range p.volumes {
			if v.Path == path {
				return true
			}
		}
	}
	return false
}

// DestroyDomain cuts a domain's power.
func (h *Host) DestroyDomain(ctx context.Context, uuid string) error {
	return do(ctx, h, "DestroyDomain", func() error {
		if d, ok := h.domains[uuid]; ok {
			d.State = hypervisor.StateShutoff
		}
		return nil
	})
}

// UndefineDomain forgets a domain that is off.
func (h *Host) UndefineDomain(ctx context.Context, uuid string) error {
	return do(ctx, h, "UndefineDomain", func() error {
		d, ok := h.domains[uuid]
		if !ok {
			return nil
		}
		if d.State != hypervisor.StateShutoff && d.State != hypervisor.StateCrashed {
			return fmt.Errorf("domain %s is %s, not off", d.Name, d.State)
		}
		delete(h.domains, uuid)
		return nil
	})
}

// Addresses answers what SetAddresses said, while the domain runs.
func (h *Host) Addresses(ctx context.Context, uuid string) ([]netip.Addr, error) {
	return verb(ctx, h, "Addresses", func() ([]netip.Addr, error) {
		d, err := h.domain(uuid)
		if err != nil {
			return nil, err
		}
		if d.State != hypervisor.StateRunning {
			return nil, nil
		}
		return slices.Clone(d.addresses), nil
	})
}
