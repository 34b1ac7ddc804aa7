// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package rpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"
	"libvirt.org/go/libvirtxml"

	"github.com/finos/caplv/pkg/hypervisor"
)

// tries is how often a domain is brought nearer to a state before we give up: others may change it meanwhile.
const tries = 3

// lookup finds a domain's handle.
func (h *host) lookup(ctx context.Context, id string) (libvirt.Domain, error) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return libvirt.Domain{}, fmt.Errorf("domain %q: %w", id, err)
	}
	d, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) (libvirt.Domain, error) { return l.DomainLookupByUUID(libvirt.UUID(parsed)) })
	return d, domainError("looking for", id, err)
}

// domainError says what was done to which domain. Nil stays nil.
func domainError(doing, id string, err error) error {
	switch {
	case err == nil:
		return nil
	case says(err, libvirt.ErrNoDomain):
		return fmt.Errorf("%s domain %s: %w", doing, id, hypervisor.ErrNotFound)
	default:
		return fmt.Errorf("%s domain %s: %w", doing, id, err)
	}
}

// Domain implements [hypervisor.Domains].
func (h *host) Domain(ctx context.Context, id string) (hypervisor.Domain, error) {
	d, err := h.lookup(ctx, id)
	if err != nil {
		return hypervisor.Domain{}, err
	}
	return h.read(ctx, d)
}

func (h *host) read(ctx context.Context, d libvirt.Domain) (hypervisor.Domain, error) {
	id := uuid.UUID(d.UUID).String()
	state, err := h.state(ctx, d)
	if err != nil {
		return hypervisor.Domain{}, err
	}
	xml, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) (string, error) { return l.DomainGetXMLDesc(d, libvirt.DomainXMLInactive) })
	if err != nil {
		return hypervisor.Domain{}, domainError("reading", id, err)
	}
	return hypervisor.Domain{UUID: id, Name: d.Name, State: state, XML: xml}, nil
}

func (h *host) state(ctx context.Context, d libvirt.Domain) (hypervisor.State, error) {
	state, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) (int32, error) {
		state, _, err := l.DomainGetState(d, 0)
		return state, err
	})
	if err != nil {
		return "", domainError("looking at", uuid.UUID(d.UUID).String(), err)
	}
	switch libvirt.DomainState(state) {
	case libvirt.DomainRunning:
		return hypervisor.StateRunning, nil
	case libvirt.DomainBlocked:
		return hypervisor.StateBlocked, nil
	case libvirt.DomainPaused:
		return hypervisor.StatePaused, nil
	case libvirt.DomainShutdown:
		return hypervisor.StateShutdown, nil
	case libvirt.DomainShutoff:
		return hypervisor.StateShutoff, nil
	case libvirt.DomainCrashed:
		return hypervisor.StateCrashed, nil
	case libvirt.DomainPmsuspended:
		return hypervisor.StatePMSuspended, nil
	default:
		return hypervisor.StateNoState, nil
	}
}

// DefineDomain implements [hypervisor.Domains].
func (h *host) DefineDomain(ctx context.Context, xml string) (hypervisor.Domain, error) {
	parsed := &libvirtxml.Domain{}
	if err := parsed.Unmarshal(xml); err != nil {
		return hypervisor.Domain{}, fmt.Errorf("reading a domain's definition: %w", err)
	}
	d, err := h.define(ctx, xml, libvirt.DomainDefineValidate)
	if err != nil && unsupported(err) {
		d, err = h.define(ctx, xml, 0)
	}
	if says(err, libvirt.ErrOperationFailed, libvirt.ErrDomExist) { // the code of several things
		err = errors.Join(err, h.nameTaken(ctx, parsed.Name, parsed.UUID))
	}
	if err != nil {
		return hypervisor.Domain{}, fmt.Errorf("defining domain %s: %w", parsed.Name, err)
	}
	return h.read(ctx, d)
}

func (h *host) define(ctx context.Context, xml string, flags libvirt.DomainDefineFlags) (libvirt.Domain, error) {
	return askWithin(ctx, h.conn, h.slow(), func(l *libvirt.Libvirt) (libvirt.Domain, error) { return l.DomainDefineXMLFlags(xml, flags) })
}

// nameTaken is an error when a domain other than id has the name.
func (h *host) nameTaken(ctx context.Context, name, id string) error {
	d, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) (libvirt.Domain, error) { return l.DomainLookupByName(name) })
	if says(err, libvirt.ErrNoDomain) {
		return nil
	}
	if err != nil {
		return err
	}
	if owner := uuid.UUID(d.UUID); owner.String() != id {
		return fmt.Errorf("%w, %s", hypervisor.ErrNameTaken, owner)
	}
	return nil
}

// StartDomain implements [hypervisor.Domains].
func (h *host) StartDomain(ctx context.Context, id string) error {
	d, err := h.lookup(ctx, id)
	if err != nil {
		return err
	}
	var state hypervisor.State
	for range tries {
		if state, err = h.state(ctx, d); err != nil {
			return err
		}
		wake := start(state, d)
		if wake == nil {
			break
		}
		err = tellWithin(ctx, h.conn, h.slow(), wake)
		if err != nil && !says(err, libvirt.ErrOperationInvalid) { // else its state changed in between: look again
			return domainError("starting", id, err)
		}
	}
	if state != hypervisor.StateRunning && state != hypervisor.StateBlocked {
		return domainError("starting", id, errors.Join(fmt.Errorf("it is %s", state), err))
	}
	return nil
}

// start is the call that brings a domain from a state nearer to running. Nil when it runs, or when only time helps.
func start(state hypervisor.State, d libvirt.Domain) func(*libvirt.Libvirt) error {
	switch state {
	case hypervisor.StatePaused:
		return func(l *libvirt.Libvirt) error { return l.DomainResume(d) }
	case hypervisor.StatePMSuspended:
		return func(l *libvirt.Libvirt) error { return l.DomainPmWakeup(d, 0) }
	case hypervisor.StateShutoff, hypervisor.StateNoState:
		return func(l *libvirt.Libvirt) error { return l.DomainCreate(d) }
	case hypervisor.StateCrashed: // its process may be kept for a look at it
		return func(l *libvirt.Libvirt) error {
			if err := l.DomainDestroy(d); err != nil && !says(err, libvirt.ErrOperationInvalid) {
				return err
			}
			return l.DomainCreate(d)
		}
	default:
		return nil
	}
}

// DestroyDomain implements [hypervisor.Domains].
func (h *host) DestroyDomain(ctx context.Context, id string) error {
	var last error
	for range tries {
		// Anew each time: in the first second after its start libvirtd may say that it does not know the domain that it
		// just destroyed.
		d, err := h.lookup(ctx, id)
		if isNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		off, err := h.off(ctx, d)
		if err != nil || off {
			return err
		}
		last = tellWithin(ctx, h.conn, h.slow(), func(l *libvirt.Libvirt) error { return l.DomainDestroy(d) })
		if last != nil && !says(last, libvirt.ErrOperationInvalid, libvirt.ErrNoDomain) {
			return domainError("destroying", id, last)
		}
	}
	return domainError("destroying", id, errors.Join(errors.New("it is not off yet"), last))
}

func (h *host) off(ctx context.Context, d libvirt.Domain) (bool, error) {
	active, err := ask(ctx, h.conn, func(l *libvirt.Libvirt) (int32, error) { return l.DomainIsActive(d) })
	if says(err, libvirt.ErrNoDomain) {
		return true, nil
	}
	return active == 0, domainError("looking at", uuid.UUID(d.UUID).String(), err)
}

// UndefineDomain implements [hypervisor.Domains].
func (h *host) UndefineDomain(ctx context.Context, id string) error {
	d, err := h.lookup(ctx, id)
	if isNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	off, err := h.off(ctx, d)
	if err != nil {
		return err
	}
	if !off { // libvirt would take its NVRAM from under it
		return fmt.Errorf("undefining domain %s: it is not off; destroy it first", id)
	}
	for _, flags := range undefineFlags(h.version) {
		err = tellWithin(ctx, h.conn, h.slow(), func(l *libvirt.Libvirt) error { return l.DomainUndefineFlags(d, flags) })
		if err == nil || !unsupported(err) {
			break
		}
	}
	if says(err, libvirt.ErrNoDomain) {
		return nil
	}
	return domainError("undefining", id, err)
}

// undefineFlags are those that this libvirtd has, and below them what simpler drivers take. The versions that brought them
// are in https://libvirt.org/html/libvirt-libvirt-domain.html#virDomainUndefineFlagsValues and libvirt's news.
func undefineFlags(version uint64) []libvirt.DomainUndefineFlagsValues {
	const basic = libvirt.DomainUndefineManagedSave | libvirt.DomainUndefineSnapshotsMetadata
	all := basic | libvirt.DomainUndefineNvram
	if version >= 5_006_000 {
		all |= libvirt.DomainUndefineCheckpointsMetadata
	}
	if version >= 8_009_000 {
		all |= libvirt.DomainUndefineTpm
	}
	return []libvirt.DomainUndefineFlagsValues{all, basic, 0}
}
