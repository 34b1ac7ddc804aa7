// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hypervisor is all that we ask of a libvirt host, in our own words: plain types, a few verbs, sentinel errors.
//
// Every verb looks before it acts and can be repeated: creating what exists returns it, deleting what is gone succeeds.
// No verb asks who owns a thing. Callers decide that from [Domain.XML] and from volume names before they change anything.
package hypervisor

import (
	"context"
	"net/netip"
)

// Connector keeps at most one shared connection per host.
type Connector interface {
	// Connect returns the connection to the target, and dials when there is none, or when the target's URI or credentials
	// differ from those of the connection that is there. A host that refused to answer is not dialed again before its
	// back-off is over: until then the same error is returned at once. The error is a [*ConnectError].
	Connect(ctx context.Context, target Target) (Host, error)

	// Forget closes the connection of that key. It is no error when there is none.
	Forget(key string)
}

// Target is where a host is, and what it takes to be let in.
type Target struct {
	// Key tells hosts apart, for example by namespace and name of the object that describes them.
	Key string
	// URI as libvirt writes it: qemu+ssh://user@host[:port]/system, qemu+unix:///system, test+unix:///default.
	URI string
	// PrivateKey is the SSH key of the URI's user, PEM encoded.
	PrivateKey []byte
	// KnownHosts holds lines in OpenSSH's known_hosts format. Either these or HostKeyFingerprint must match.
	KnownHosts []byte
	// HostKeyFingerprint is the SSH host key's, as ssh-keygen -l prints it: SHA256:….
	HostKeyFingerprint string
}

// Host is an open connection to one libvirt host. It is shared: nobody but its [Connector] closes it.
// An error that wraps [ErrUnreachable] says that the connection is gone, and that [Connector.Connect] makes a new one.
type Host interface {
	Volumes
	Domains

	// Info reads what the host is and what it has left.
	Info(ctx context.Context) (Info, error)
}

// Volumes keeps files in a host's storage pools. A pool that is defined but stopped is started; one that is not defined
// gives [ErrPoolNotFound].
type Volumes interface {
	// Volume finds a volume. One that was copied into the pool by hand is found as well: a miss refreshes the pool once.
	// The error wraps [ErrNotFound] when there is none.
	Volume(ctx context.Context, pool, name string) (Volume, error)

	// ListVolumes returns all volumes of a pool, ordered by name. It refreshes the pool first, so that files which others put
	// there are among them.
	ListVolumes(ctx context.Context, pool string) ([]Volume, error)

	// CreateOverlay creates the qcow2 volume pool/name of at least sizeBytes, and never smaller than base, which it reads
	// through and never changes. One that exists is returned as it is.
	CreateOverlay(ctx context.Context, pool, name string, sizeBytes int64, base Volume) (Volume, error)

	// UploadVolume makes pool/name hold exactly content, readable by the hypervisor alone (mode 0600). A volume of that
	// name is replaced when it holds anything else, for example what an interrupted upload left behind, or when a host cannot
	// tell what it holds; else it is returned as it is.
	UploadVolume(ctx context.Context, pool, name string, content []byte) (Volume, error)

	// DeleteVolume removes a volume and its file.
	DeleteVolume(ctx context.Context, pool, name string) error
}

// Domains keeps virtual machines. They are told apart by UUID, never by name.
type Domains interface {
	// Domain finds a domain. The error wraps [ErrNotFound] when there is none.
	Domain(ctx context.Context, uuid string) (Domain, error)

	// DefineDomain makes the domain that the XML describes persistent, or changes its definition when it is there already,
	// which takes effect at the next cold start. The error wraps [ErrNameTaken] when another domain has its name.
	DefineDomain(ctx context.Context, xml string) (Domain, error)

	// StartDomain brings a domain to [StateRunning]: it starts, resumes or wakes it. The error wraps [ErrNotFound] when there
	// is none; one that is shutting down is an error until it is off.
	StartDomain(ctx context.Context, uuid string) error

	// DestroyDomain cuts a domain's power. It returns when the domain is off.
	DestroyDomain(ctx context.Context, uuid string) error

	// UndefineDomain forgets a domain that is off, with its NVRAM, managed save, TPM state and snapshot metadata.
	UndefineDomain(ctx context.Context, uuid string) error

	// Addresses are those of the domain's own network cards that the guest agent or a DHCP lease knows, without loopback and
	// link-local ones and those of containers inside, in a stable order. Empty when nobody knows any yet.
	Addresses(ctx context.Context, uuid string) ([]netip.Addr, error)
}

// Volume is one file in a storage pool.
type Volume struct {
	Pool, Name string
	// Path is where the hypervisor finds it.
	Path string
	// Format as libvirt names it: qcow2, raw.
	Format string
	// CapacityBytes is the size that a guest sees.
	CapacityBytes int64
	// AllocationBytes is what it takes up in the pool.
	AllocationBytes int64
}

// Domain is one virtual machine.
type Domain struct {
	UUID, Name string
	State      State
	// XML is the persistent definition without secrets, with the metadata that says whose it is.
	XML string
}

// State is what a domain does.
type State string

// The states of a domain. They are libvirt's own, and these are all of them.
const (
	StateNoState     State = "NoState"
	StateRunning     State = "Running"
	StateBlocked     State = "Blocked"
	StatePaused      State = "Paused"
	StateShutdown    State = "ShuttingDown"
	StateShutoff     State = "Shutoff"
	StateCrashed     State = "Crashed"
	StatePMSuspended State = "PMSuspended"
)

// Info is what a host is and has.
type Info struct {
	// Hostname is the host's own name for itself.
	Hostname string
	// Architecture as libvirt names it, for example x86_64.
	Architecture string
	// VCPUs counts the host's logical processors.
	VCPUs int32
	// MemoryMiB is all of its memory, FreeMemoryMiB what a new guest could take: free, buffers and page cache.
	MemoryMiB, FreeMemoryMiB int64
	// LibvirtVersion and HypervisorVersion read like 10.0.0.
	LibvirtVersion, HypervisorVersion string
	// KVM says whether guests can use hardware virtualization. Without it QEMU emulates them, ten to twenty times slower.
	KVM bool
	// Pools are the host's storage pools, ordered by name.
	Pools []Pool
}

// Pool is one storage pool of a host.
type Pool struct {
	Name   string
	Active bool
	// CapacityBytes and AvailableBytes are zero while the pool is inactive.
	CapacityBytes, AvailableBytes int64
}
