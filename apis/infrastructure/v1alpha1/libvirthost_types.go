// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HostFinalizer keeps a LibvirtHost until no machine lives on it.
const HostFinalizer = "libvirthost.infrastructure.cluster.x-k8s.io"

// Keys of the Secret that a LibvirtHost names.
const (
	// PrivateKeySecretKey holds the SSH private key of the URI's user, PEM encoded. It is the key of a Secret of type
	// kubernetes.io/ssh-auth.
	PrivateKeySecretKey = "ssh-privatekey"
	// KnownHostsSecretKey holds lines in OpenSSH's known_hosts format. It can stand in for spec.hostKeyFingerprint.
	KnownHostsSecretKey = "known_hosts"
)

// Conditions of a LibvirtHost.
const (
	// ReachableCondition is true while libvirt on the host answers.
	ReachableCondition = "Reachable"

	// SecretNotFoundReason: create the Secret that spec.secretRef names, in the host's namespace.
	SecretNotFoundReason = "SecretNotFound"
	// InvalidCredentialsReason: the Secret has no key ssh-privatekey, or what it holds cannot be read; mend the Secret.
	InvalidCredentialsReason = "InvalidCredentials"
	// InvalidURIReason: correct spec.uri; the message says which forms there are.
	InvalidURIReason = "InvalidURI"
	// HostUnreachableReason: nothing answers at the host's address. It is tried again by itself.
	HostUnreachableReason = "HostUnreachable"
	// HostKeyRefusedReason: the host showed another key than spec.hostKeyFingerprint or known_hosts promise, or neither is
	// set. Find out why before you change the fingerprint: somebody may be in between.
	HostKeyRefusedReason = "HostKeyRefused"
	// LoginRefusedReason: the host does not accept the key; add its public half to the user's authorized_keys.
	LoginRefusedReason = "LoginRefused"
	// SocketRefusedReason: SSH works, and the way to libvirt's socket is closed; the message lists what may close it.
	SocketRefusedReason = "SocketRefused"
	// LibvirtRefusedReason: libvirt answers, but does not open its driver; look at the message and at the daemon's log.
	LibvirtRefusedReason = "LibvirtRefused"

	// WaitingForMachinesOnHostReason: the LibvirtMachines on this host have to go first.
	WaitingForMachinesOnHostReason = "WaitingForMachinesOnHost"
)

// LibvirtHost is a hypervisor host that machines are made on.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=libvirthosts,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move-hierarchy="
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="VCPUs",type="integer",JSONPath=".status.capacity.vcpus",description="Logical processors"
// +kubebuilder:printcolumn:name="Memory (MB)",type="integer",JSONPath=".status.capacity.memoryMB",description="Memory in MiB"
// +kubebuilder:printcolumn:name="Reachable",type="string",JSONPath=".status.conditions[?(@.type=='Reachable')].status",description="Whether libvirt answers"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type=='Reachable')].reason",description="Why it does, or does not"
// +kubebuilder:printcolumn:name="Free (MB)",type="integer",JSONPath=".status.freeMemoryMB",description="Memory that a new machine could take, in MiB",priority=1
// +kubebuilder:printcolumn:name="Virt",type="string",JSONPath=".status.virtType",description="kvm, or qemu where the host can only emulate",priority=1
// +kubebuilder:printcolumn:name="Libvirt",type="string",JSONPath=".status.libvirtVersion",description="Version of libvirt",priority=1
// +kubebuilder:printcolumn:name="URI",type="string",JSONPath=".spec.uri",description="Where it is",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type LibvirtHost struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what is wanted.
	// +required
	Spec LibvirtHostSpec `json:"spec,omitempty,omitzero"`

	// status is what is there.
	// +optional
	Status LibvirtHostStatus `json:"status,omitempty,omitzero"`
}

// LibvirtHostSpec is where a host is and how to reach it.
// +kubebuilder:validation:XValidation:rule="!self.uri.startsWith('qemu+ssh://') || has(self.secretRef)",message="secretRef is required for a qemu+ssh URI"
// +kubebuilder:validation:XValidation:rule="!has(self.nvramTemplatePath) || has(self.firmwarePath)",message="nvramTemplatePath needs firmwarePath: they are a pair"
type LibvirtHostSpec struct {
	// uri is where libvirt answers, as libvirt writes it: qemu+ssh://user@host[:port]/system, or, for a daemon on the
	// controller's own machine, qemu+unix:///system. A socket in another place than usual is named with ?socket=/path.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^(qemu[+]ssh://[^@/:?#]+@[^/?#]+/(system|session)|qemu[+]unix:///(system|session)|test[+]unix:///default)([?]socket=/[^&#]+)?$')",message="must be qemu+ssh://user@host[:port]/system or /session, qemu+unix:///system or /session, or test+unix:///default, each with an optional ?socket=/path"
	URI string `json:"uri,omitempty"`

	// secretRef names a Secret in the same namespace whose key ssh-privatekey is the private key of the URI's user. Its
	// key known_hosts can stand in for hostKeyFingerprint.
	// +optional
	SecretRef LocalSecretReference `json:"secretRef,omitempty,omitzero"`

	// hostKeyFingerprint is that of the host's SSH key, as "ssh-keygen -l" prints it. Without it, and without known_hosts
	// in the Secret, no connection is made: there is no insecure default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:Pattern=`^SHA256:[A-Za-z0-9+/]{43}$`
	HostKeyFingerprint string `json:"hostKeyFingerprint,omitempty"`

	// firmwarePath is the UEFI firmware on the host. When unset, libvirt chooses one of those that it knows.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^/`
	FirmwarePath string `json:"firmwarePath,omitempty"`

	// nvramTemplatePath is the file that each machine's UEFI variables are copied from. It has to match firmwarePath.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^/`
	NVRAMTemplatePath string `json:"nvramTemplatePath,omitempty"`

	// healthCheckIntervalSeconds is how often the host is looked at, in seconds. When unset, every 300 seconds.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	HealthCheckIntervalSeconds int32 `json:"healthCheckIntervalSeconds,omitempty"`
}

// LocalSecretReference names a Secret in the same namespace.
type LocalSecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// LibvirtHostStatus is what a host is and has.
// +kubebuilder:validation:MinProperties=1
type LibvirtHostStatus struct {
	// conditions are Ready, Reachable, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// hostname is the host's own name for itself.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Hostname string `json:"hostname,omitempty"`

	// architecture of the host, as libvirt names it, for example x86_64.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	Architecture string `json:"architecture,omitempty"`

	// virtType is kvm where guests run on the processor itself, and qemu where it has to be emulated, which is slow.
	// +optional
	VirtType VirtType `json:"virtType,omitempty"`

	// libvirtVersion is that of the host's libvirt.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	LibvirtVersion string `json:"libvirtVersion,omitempty"`

	// hypervisorVersion is that of the host's QEMU.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	HypervisorVersion string `json:"hypervisorVersion,omitempty"`

	// capacity is all that the host has.
	// +optional
	Capacity HostResources `json:"capacity,omitempty,omitzero"`

	// freeMemoryMB is the memory in MiB that a new machine could take, page cache included, rounded down to 256 MiB so
	// that it does not change all the time.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FreeMemoryMB *int64 `json:"freeMemoryMB,omitempty"`

	// pools are the host's storage pools.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Pools []StoragePoolStatus `json:"pools,omitempty"`
}

// VirtType is how a host runs its guests.
// +kubebuilder:validation:Enum=kvm;qemu
type VirtType string

const (
	// VirtTypeKVM uses the processor's own virtualization.
	VirtTypeKVM VirtType = "kvm"
	// VirtTypeQEMU emulates the processor.
	VirtTypeQEMU VirtType = "qemu"
)

// HostResources are processors and memory.
// +kubebuilder:validation:MinProperties=1
type HostResources struct {
	// vcpus counts logical processors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	VCPUs int32 `json:"vcpus,omitempty"`

	// memoryMB is memory in MiB.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MemoryMB int64 `json:"memoryMB,omitempty"`
}

// StoragePoolStatus is one storage pool of a host.
type StoragePoolStatus struct {
	// name of the pool.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name,omitempty"`

	// state is Active, or Inactive for a pool that is defined but not started.
	// +required
	State StoragePoolState `json:"state,omitempty"`

	// capacityGB is the size of the pool in GiB.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CapacityGB *int64 `json:"capacityGB,omitempty"`

	// availableGB is what is free of it, in GiB.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AvailableGB *int64 `json:"availableGB,omitempty"`
}

// StoragePoolState is whether a pool can be used.
// +kubebuilder:validation:Enum=Active;Inactive
type StoragePoolState string

const (
	// StoragePoolActive says: the pool can be used.
	StoragePoolActive StoragePoolState = "Active"
	// StoragePoolInactive says: the pool is defined and not started. It is started when a machine needs it.
	StoragePoolInactive StoragePoolState = "Inactive"
)

// GetConditions returns the conditions, for Cluster API's helpers.
func (h *LibvirtHost) GetConditions() []metav1.Condition { return h.Status.Conditions }

// SetConditions replaces the conditions, for Cluster API's helpers.
func (h *LibvirtHost) SetConditions(conditions []metav1.Condition) { h.Status.Conditions = conditions }

// LibvirtHostList is a list of LibvirtHosts.
// +kubebuilder:object:root=true
type LibvirtHostList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the LibvirtHosts.
	Items []LibvirtHost `json:"items"`
}
