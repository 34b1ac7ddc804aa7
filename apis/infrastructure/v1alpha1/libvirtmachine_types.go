// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MachineFinalizer keeps a LibvirtMachine until its domain and volumes are gone from the host.
const MachineFinalizer = "libvirtmachine.infrastructure.cluster.x-k8s.io"

// Conditions of a LibvirtMachine, in the order in which they become true.
const (
	// BootstrapDataReadyCondition is true once the machine's cluster is provisioned and its bootstrap data can be used.
	BootstrapDataReadyCondition = "BootstrapDataReady"
	// HostReadyCondition is true once the machine's host answers.
	HostReadyCondition = "HostReady"
	// VolumesReadyCondition is true once root disk and Ignition config lie on the host.
	VolumesReadyCondition = "VolumesReady"
	// DomainRunningCondition is true while the domain runs.
	DomainRunningCondition = "DomainRunning"

	// WaitingForClusterReason: the Cluster's infrastructure is not provisioned yet.
	WaitingForClusterReason = "WaitingForCluster"
	// WaitingForBootstrapDataReason: the bootstrap provider has not made its Secret yet; look at the bootstrap object.
	WaitingForBootstrapDataReason = "WaitingForBootstrapData"
	// InvalidBootstrapDataReason: no machine can be made from the bootstrap data; mend what the message names, and make
	// the machine anew.
	InvalidBootstrapDataReason = "InvalidBootstrapData"
	// HostNotFoundReason: create the LibvirtHost that spec.hostRef names.
	HostNotFoundReason = "HostNotFound"
	// WaitingForHostReason: the host is not reachable; its own conditions say why.
	WaitingForHostReason = "WaitingForHost"
	// HostDeletingReason: the host is being deleted, and takes no new machine.
	HostDeletingReason = "HostDeleting"
	// StoragePoolNotFoundReason: define the storage pool on the host. It is looked for again every minute.
	StoragePoolNotFoundReason = "StoragePoolNotFound"
	// BaseImageNotFoundReason: put the image into the storage pool. It is looked for again every minute.
	BaseImageNotFoundReason = "BaseImageNotFound"
	// DomainNameTakenReason: a domain that is not ours has the machine's name; rename or remove it.
	DomainNameTakenReason = "DomainNameTaken"
	// ForeignDomainReason: the domain with the machine's UUID carries no mark of ours, and is left alone.
	ForeignDomainReason = "ForeignDomain"
	// DomainGoneReason: the domain was removed from the host behind our back. A machine is never made twice: delete the Machine.
	DomainGoneReason = "DomainGone"
	// HostErrorReason: the host refused a step; the message tells which, and what it said. It is tried again.
	HostErrorReason = "HostError"
	// RemovingReason: the machine is being taken off its host.
	RemovingReason = "Removing"
)

// LibvirtMachine is one machine: a domain on a libvirt host.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=libvirtmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster it belongs to"
// +kubebuilder:printcolumn:name="Host",type="string",JSONPath=".spec.hostRef.name",description="LibvirtHost it lives on"
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".status.domain.state",description="What the domain does"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether all of it is as wanted"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].reason",description="Why it is, or is not"
// +kubebuilder:printcolumn:name="Addresses",type="string",JSONPath=".status.addresses[?(@.type=='InternalIP')].address",description="Addresses of the machine",priority=1
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID",description="Provider ID",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type LibvirtMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what is wanted.
	// +required
	Spec LibvirtMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what is there.
	// +optional
	Status LibvirtMachineStatus `json:"status,omitempty,omitzero"`
}

// LibvirtMachineSpec is what is wanted of a machine. A machine is never changed in place: only providerID can be set,
// once.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.providerID) || has(self.providerID) && self.providerID == oldSelf.providerID",message="providerID cannot be changed once it is set"
// +kubebuilder:validation:XValidation:rule="self.hostRef == oldSelf.hostRef",message="hostRef cannot be changed: a machine stays on its host"
// +kubebuilder:validation:XValidation:rule="self.rootDisk == oldSelf.rootDisk",message="rootDisk cannot be changed: make a new machine"
// +kubebuilder:validation:XValidation:rule="has(self.domain) == has(oldSelf.domain) && (!has(self.domain) || self.domain == oldSelf.domain)",message="domain cannot be changed: make a new machine"
// +kubebuilder:validation:XValidation:rule="has(self.network) == has(oldSelf.network) && (!has(self.network) || self.network == oldSelf.network)",message="network cannot be changed: make a new machine"
// +kubebuilder:validation:XValidation:rule="has(self.hostname) == has(oldSelf.hostname) && (!has(self.hostname) || self.hostname == oldSelf.hostname)",message="hostname cannot be changed: make a new machine"
type LibvirtMachineSpec struct {
	// providerID is libvirt://<host>/<domain UUID>. The controller sets it before it makes anything on the host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^libvirt://[a-z0-9.-]+/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`
	ProviderID string `json:"providerID,omitempty"`

	// hostRef names the LibvirtHost, in the same namespace, that the machine lives on.
	// +required
	HostRef HostReference `json:"hostRef,omitempty,omitzero"`

	// bootstrapFormat is the format of the bootstrap data. When unset, it is ignition, the only one there is.
	// +optional
	BootstrapFormat BootstrapFormat `json:"bootstrapFormat,omitempty"`

	// hostname is the machine's name for itself, and so the Node's name. When unset, it is the name of the Machine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Hostname string `json:"hostname,omitempty"`

	// domain is the virtual hardware. When unset, each of its fields is as if unset.
	// +optional
	Domain DomainSpec `json:"domain,omitempty,omitzero"`

	// rootDisk is the disk that the machine boots from.
	// +required
	RootDisk RootDisk `json:"rootDisk,omitempty,omitzero"`

	// network is the machine's network card. When unset, it is on the libvirt network "default" with DHCP.
	// +optional
	Network NetworkSpec `json:"network,omitempty,omitzero"`
}

// HostReference names a LibvirtHost in the same namespace.
type HostReference struct {
	// name of the LibvirtHost.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// BootstrapFormat is a format of bootstrap data.
// +kubebuilder:validation:Enum=ignition
type BootstrapFormat string

// BootstrapFormatIgnition is an Ignition config, spec 3.
const BootstrapFormatIgnition BootstrapFormat = "ignition"

// DomainSpec is the virtual hardware of a machine.
// +kubebuilder:validation:MinProperties=1
type DomainSpec struct {
	// firmware is what the machine boots with. When unset, it is uefi, the only one there is.
	// +optional
	Firmware Firmware `json:"firmware,omitempty"`

	// machine is the machine type. When unset, it is q35, the only one there is: with it the first network card is enp1s0.
	// +optional
	Machine MachineType `json:"machine,omitempty"`

	// vcpus counts virtual processors. When unset, it is 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=512
	VCPUs int32 `json:"vcpus,omitempty"`

	// memoryMB is the memory in MiB. When unset, it is 4096.
	// +optional
	// +kubebuilder:validation:Minimum=64
	// +kubebuilder:validation:Maximum=16777216
	MemoryMB int64 `json:"memoryMB,omitempty"`
}

// Firmware is what a machine boots with.
// +kubebuilder:validation:Enum=uefi
type Firmware string

// FirmwareUEFI boots with UEFI, without secure boot.
const FirmwareUEFI Firmware = "uefi"

// MachineType is a type of virtual mainboard.
// +kubebuilder:validation:Enum=q35
type MachineType string

// MachineTypeQ35 is QEMU's PCI Express mainboard.
const MachineTypeQ35 MachineType = "q35"

// RootDisk is the disk that a machine boots from: a qcow2 overlay that holds what the machine writes, over a base image
// that is shared and never changed.
type RootDisk struct {
	// baseImage is the volume in the storage pool that the disk starts from, for example rhcos-qemu.x86_64.qcow2.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[^/]+$`
	BaseImage string `json:"baseImage,omitempty"`

	// storagePool is the libvirt storage pool that holds the base image and takes the machine's volumes. When unset, it
	// is "default".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	StoragePool string `json:"storagePool,omitempty"`

	// size of the disk, for example 20Gi. It is never smaller than the base image. When unset, it is the base image's.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(self).isGreaterThan(quantity('0'))",message="must be greater than zero"
	Size *resource.Quantity `json:"size,omitempty"`
}

// NetworkSpec is a machine's network card, and how the guest configures it.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || has(self.addresses)",message="gateway needs addresses: without them the machine asks DHCP"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || !has(self.addresses) || !isIP(self.gateway) || self.addresses.exists(a, isCIDR(a) && cidr(a).containsIP(self.gateway))",message="gateway must be inside the network of one of the addresses"
type NetworkSpec struct {
	// name of the libvirt network, or of the bridge on the host. When unset, it is "default".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name,omitempty"`

	// type is network for a libvirt network, and bridge for a bridge on the host. When unset, it is network.
	// +optional
	Type NetworkType `json:"type,omitempty"`

	// addresses are the machine's static addresses with their prefix length, for example 192.168.122.100/24. NetworkManager
	// in the guest sets them before anything else runs. When unset, the machine asks DHCP.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:items:XValidation:rule="isCIDR(self)",message="must be an address with a prefix length, for example 192.168.122.100/24"
	Addresses []string `json:"addresses,omitempty"`

	// gateway is the router for other networks. It has to be inside the network of one of the addresses.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an IP address"
	Gateway string `json:"gateway,omitempty"`

	// nameservers are asked for names. When unset and addresses are given, the gateway is asked.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=39
	// +kubebuilder:validation:items:XValidation:rule="isIP(self)",message="must be an IP address"
	Nameservers []string `json:"nameservers,omitempty"`

	// searchDomains complete short names.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$`
	SearchDomains []string `json:"searchDomains,omitempty"`
}

// NetworkType is what a network card is plugged into.
// +kubebuilder:validation:Enum=network;bridge
type NetworkType string

const (
	// NetworkTypeNetwork is a libvirt network.
	NetworkTypeNetwork NetworkType = "network"
	// NetworkTypeBridge is a bridge on the host.
	NetworkTypeBridge NetworkType = "bridge"
)

// LibvirtMachineStatus is what is there of a machine.
// +kubebuilder:validation:MinProperties=1
type LibvirtMachineStatus struct {
	// conditions are Ready, BootstrapDataReady, HostReady, VolumesReady, DomainRunning, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is what Cluster API waits for.
	// +optional
	Initialization LibvirtMachineInitializationStatus `json:"initialization,omitempty,omitzero"`

	// addresses are the machine's names and addresses.
	// +optional
	Addresses clusterv1.MachineAddresses `json:"addresses,omitempty"`

	// failureDomain is where the machine was placed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// domain is the machine as its host knows it.
	// +optional
	Domain DomainStatus `json:"domain,omitempty,omitzero"`
}

// LibvirtMachineInitializationStatus is what Cluster API waits for.
// +kubebuilder:validation:MinProperties=1
type LibvirtMachineInitializationStatus struct {
	// provisioned is true once the domain ran for the first time. It never becomes false again.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// DomainStatus is a machine as its host knows it.
// +kubebuilder:validation:MinProperties=1
type DomainStatus struct {
	// name of the domain on the host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	Name string `json:"name,omitempty"`

	// uuid of the domain, for ever the same.
	// +optional
	// +kubebuilder:validation:MinLength=36
	// +kubebuilder:validation:MaxLength=36
	UUID string `json:"uuid,omitempty"`

	// state is what the domain did when we looked last, in libvirt's words: Running, Paused, Shutoff, Crashed and so on.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	State string `json:"state,omitempty"`
}

// GetConditions returns the conditions, for Cluster API's helpers.
func (m *LibvirtMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions, for Cluster API's helpers.
func (m *LibvirtMachine) SetConditions(conditions []metav1.Condition) {
	m.Status.Conditions = conditions
}

// LibvirtMachineList is a list of LibvirtMachines.
// +kubebuilder:object:root=true
type LibvirtMachineList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the LibvirtMachines.
	Items []LibvirtMachine `json:"items"`
}
