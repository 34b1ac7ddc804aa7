// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package hypervisor

import "errors"

var (
	// ErrNotFound says that the host knows no such volume or domain.
	ErrNotFound = errors.New("not found")
	// ErrPoolNotFound says that the host has no storage pool of that name.
	ErrPoolNotFound = errors.New("storage pool not found")
	// ErrNameTaken says that another domain has the name that a new one asks for.
	ErrNameTaken = errors.New("name is taken by another domain")
	// ErrUnreachable says that the host does not answer, or stopped answering in the middle of a call. Whether that call
	// took effect is not known: look before acting again.
	ErrUnreachable = errors.New("host does not answer")
)

// Reasons why there is no connection. They are fit for a condition.
const (
	// ReasonUnreachable: nothing answers at the host's address. Every such error wraps [ErrUnreachable].
	ReasonUnreachable = "HostUnreachable"
	// ReasonInvalidURI: the URI has a form that we do not know.
	ReasonInvalidURI = "InvalidURI"
	// ReasonInvalidCredentials: the private key, the known hosts or the fingerprint cannot be read.
	ReasonInvalidCredentials = "InvalidCredentials"
	// ReasonHostKeyRefused: the host showed another key than the one that was promised, or none was promised.
	ReasonHostKeyRefused = "HostKeyRefused"
	// ReasonLoginRefused: the host did not accept the user's key.
	ReasonLoginRefused = "LoginRefused"
	// ReasonSocketRefused: SSH works, but the way to libvirt's socket is closed: forwarding is forbidden, the daemon is
	// down, or the user is not in libvirt's group.
	ReasonSocketRefused = "SocketRefused"
	// ReasonLibvirtRefused: libvirt answered and did not let us open its driver.
	ReasonLibvirtRefused = "LibvirtRefused"
)

// ConnectError is why a host could not be connected to.
type ConnectError struct {
	// Reason is one of the constants above.
	Reason string
	// Message says what was tried and what to do, without secrets, and in the same words at every attempt.
	Message string
	// Err is the cause. It belongs into a log, not into a status: its words may change from one attempt to the next.
	Err error
}

func (e *ConnectError) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *ConnectError) Unwrap() error { return e.Err }

// Is lets errors.Is find [ErrUnreachable] in errors of that reason.
func (e *ConnectError) Is(target error) bool {
	return target == ErrUnreachable && e.Reason == ReasonUnreachable
}
