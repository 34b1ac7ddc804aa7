// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package libvirtmachine

import (
	"context"
	"errors"
	"fmt"
	"path"

	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/finos/caplv/apis/infrastructure/v1alpha1"
	"github.com/finos/caplv/pkg/domain"
	"github.com/finos/caplv/pkg/hypervisor"
	"github.com/finos/caplv/pkg/steps"
)

const (
	// What unset fields of spec.domain and spec.network mean.
	defaultVCPUs     = 2
	defaultMemoryMiB = 4096
	defaultNetwork   = "default"
)

// errForeign says that a domain is not the machine's, whatever its UUID.
var errForeign = errors.New("the domain is not ours")

// ensureDomain looks for the domain, defines it when it is not there, and starts it.
func (c *Controller) ensureDomain(ctx context.Context, s *scope) error {
	_, err := s.findDomain(ctx)
	if errors.Is(err, hypervisor.ErrNotFound) {
		err = c.defineDomain(ctx, s)
	}
	if err != nil {
		return s.domainError("defining the domain", err)
	}
	return c.ensureRunning(ctx, s)
}

func (c *Controller) defineDomain(ctx context.Context, s *scope) error {
	text, err := domain.XML(s.resolve())
	if err != nil {
		return fmt.Errorf("rendering the domain: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("Defining domain", "domain", s.domainName(), "uuid", s.uuid)
	_, err = s.conn.DefineDomain(ctx, text)
	return err
}

// ensureRunning starts the domain when it does not run. That includes one that stopped later, for example because its host
// was restarted: a machine that is there is meant to run.
func (c *Controller) ensureRunning(ctx context.Context, s *scope) error {
	d, err := s.findDomain(ctx)
	if errors.Is(err, hypervisor.ErrNotFound) {
		s.Status.Domain.State = ""
		return &steps.NotYet{
			Reason: infrav1.DomainGoneReason,
			Message: fmt.Sprintf("Domain %s is gone from host %s, and is not made again; delete the Machine",
				s.domainName(), s.Spec.HostRef.Name),
			After: recheckInterval,
		}
	}
	if err != nil {
		return s.domainError("looking for the domain", err)
	}
	if !running(d.State) {
		ctrl.LoggerFrom(ctx).Info("Starting domain", "domain", d.Name, "uuid", s.uuid, "state", d.State)
		if err := s.conn.StartDomain(ctx, s.uuid); err != nil {
			return s.domainError("starting the domain", err)
		}
		c.started(s.LibvirtMachine, d.Name, d.State)
		d.State = hypervisor.StateRunning
	}
	if !s.provisioned() {
		c.warned(s.LibvirtMachine, s.warnings)
	}
	s.Status.Domain = infrav1.DomainStatus{Name: d.Name, UUID: s.uuid, State: string(d.State)}
	s.Status.Initialization.Provisioned = new(true)
	return nil
}

// running includes a domain that shuts down: it is off in a moment, and starting it has to wait until then.
func running(state hypervisor.State) bool {
	switch state {
	case hypervisor.StateRunning, hypervisor.StateBlocked, hypervisor.StateShutdown:
		return true
	default:
		return false
	}
}

// findDomain finds the domain with the machine's UUID. The error wraps errForeign when it carries another mark than ours.
func (s *scope) findDomain(ctx context.Context) (hypervisor.Domain, error) {
	d, err := s.conn.Domain(ctx, s.uuid)
	if err != nil {
		return d, err
	}
	owner, marked, err := domain.OwnerOf(d.XML)
	if err != nil {
		return d, err
	}
	// The UID in the mark is that of the object which made the domain. After a move to another management cluster the object
	// has another one, but its provider ID still holds the first.
	if !marked || owner.UID != s.uuid || owner.Namespace != s.Namespace || owner.Name != s.Name {
		return d, errForeign
	}
	return d, nil
}

func (s *scope) domainError(doing string, err error) error {
	switch {
	case errors.Is(err, errForeign):
		return &steps.NotYet{
			Reason: infrav1.ForeignDomainReason,
			Message: fmt.Sprintf("The domain with UUID %s on host %s belongs to somebody else, and is left alone",
				s.uuid, s.Spec.HostRef.Name),
			After: recheckInterval,
		}
	case errors.Is(err, hypervisor.ErrNameTaken):
		return &steps.NotYet{
			Reason: infrav1.DomainNameTakenReason,
			Message: fmt.Sprintf("Host %s has another domain called %s; rename or remove it",
				s.Spec.HostRef.Name, s.domainName()),
			After: retryInterval,
		}
	}
	return s.hostError(doing, err)
}

func (s *scope) domainName() string { return domain.Name(s.Namespace, s.Name) }

// resolve fills in names, paths and defaults.
func (s *scope) resolve() domain.Machine {
	m := domain.Machine{
		UUID:         s.uuid,
		Name:         s.domainName(),
		VirtType:     string(infrav1.VirtTypeQEMU),
		VCPUs:        defaultVCPUs,
		MemoryMiB:    defaultMemoryMiB,
		Firmware:     domain.Firmware{Path: s.host.Spec.FirmwarePath, NVRAMTemplate: s.host.Spec.NVRAMTemplatePath},
		RootDisk:     domain.Disk{Path: s.files.root.Path, Format: "qcow2"},
		IgnitionPath: s.files.ignition.Path,
		Network:      domain.Network{Name: defaultNetwork, MAC: domain.MAC(s.uuid, 0)},
		SerialLog:    path.Join(path.Dir(s.files.root.Path), domain.SerialLog(s.uuid)),
		Owner: domain.Owner{
			Cluster: s.machine.Spec.ClusterName, Namespace: s.Namespace, Name: s.Name, UID: s.uuid,
		},
	}
	if s.host.Status.VirtType == infrav1.VirtTypeKVM {
		m.VirtType = string(infrav1.VirtTypeKVM)
	}
	if s.Spec.Domain.VCPUs != 0 {
		m.VCPUs = uint(s.Spec.Domain.VCPUs) //nolint:gosec // G115: admission lets through 1 to 512
	}
	if s.Spec.Domain.MemoryMB != 0 {
		m.MemoryMiB = uint(s.Spec.Domain.MemoryMB) //nolint:gosec // G115: admission lets through 64 to 16777216
	}
	if s.Spec.Network.Name != "" {
		m.Network.Name = s.Spec.Network.Name
	}
	if s.Spec.Network.Type == infrav1.NetworkTypeBridge {
		m.Network.Bridge, m.Network.Name = m.Network.Name, ""
	}
	return m
}
