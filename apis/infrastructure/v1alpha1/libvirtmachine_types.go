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
	// IgnitionSecretNotFoundReason: create the Secret, with the key, that a file of spec.ignition names. It is looked for again
	// every minute.
	IgnitionSecretNotFoundReason = "IgnitionSecretNotFound"
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
// +kubebuilder:validation:XValidation:rule="has(self.ignition) == has(oldSelf.ignition) && (!has(self.ignition) || self.ignition == oldSelf.ignition)",message="ignition cannot be changed: make a new machine"
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

	// ignition is what goes into this machine's copy of its Ignition config, besides its hostname, its provider ID and its
	// network.
	// +optional
	Ignition IgnitionSpec `json:"ignition,omitempty,omitzero"`
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
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) && !has(self.gateways) || has(self.addresses)",message="gateway needs addresses: without them the machine asks DHCP"
// +kubebuilder:validation:XValidation:rule="!has(self.gateway) || !has(self.gateways)",message="only one of gateway and gateways can be given"
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

	// gateways are the routers for other networks where there is one for each of IPv4 and IPv6. Each has to be inside the
	// network of one of the addresses, or link-local.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=39
	// +kubebuilder:validation:items:XValidation:rule="isIP(self)",message="must be an IP address"
	Gateways []string `json:"gateways,omitempty"`

	// routes are ways to other networks than by a gateway.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Routes []Route `json:"routes,omitempty"`

	// mtu is the largest packet in bytes. When unset, it is the network's own.
	// +optional
	// +kubebuilder:validation:Minimum=576
	// +kubebuilder:validation:Maximum=65535
	MTU int32 `json:"mtu,omitempty"`

	// vlan is the tag that the addresses are behind. When unset, there is none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4094
	VLAN int32 `json:"vlan,omitempty"`

	// matchBy is name when the guest finds the card by the name of its interface, enp1s0, and mac when it finds it by its
	// hardware address: for images that name it otherwise. When unset, it is name, which OpenShift needs.
	// +optional
	MatchBy NetworkMatch `json:"matchBy,omitempty"`

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

// Route is a way to a network.
type Route struct {
	// destination is the network, with its prefix length, for example 198.51.100.0/24.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="must be a network with a prefix length, for example 198.51.100.0/24"
	Destination string `json:"destination,omitempty"`

	// via is the next hop. When unset, the network is on the link.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="must be an IP address"
	Via string `json:"via,omitempty"`

	// metric decides between ways to the same network: the least wins. When unset, NetworkManager chooses.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4294967295
	Metric int64 `json:"metric,omitempty"`
}

// NetworkMatch is how the guest finds its network card.
// +kubebuilder:validation:Enum=name;mac
type NetworkMatch string

const (
	// NetworkMatchName finds the card by the name of its interface.
	NetworkMatchName NetworkMatch = "name"
	// NetworkMatchMAC finds the card by its hardware address.
	NetworkMatchMAC NetworkMatch = "mac"
)

// IgnitionSpec is what goes into one machine's copy of its Ignition config.
// +kubebuilder:validation:MinProperties=1
type IgnitionSpec struct {
	// files are written before anything else runs, in the place of what the config has at their paths.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Files []IgnitionFile `json:"files,omitempty"`

	// units of systemd. What a unit does not set here stays as the config or the image has it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Units []IgnitionUnit `json:"units,omitempty"`
}

// IgnitionFile is a file on a machine's disk.
// +kubebuilder:validation:XValidation:rule="has(self.content) != has(self.contentFrom)",message="exactly one of content and contentFrom is needed"
type IgnitionFile struct {
	// path of the file, absolute and without //, . and .. in it.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^(/[^/\x00]+)+$`
	// +kubebuilder:validation:XValidation:rule="!self.contains('/../') && !self.contains('/./') && !self.endsWith('/..') && !self.endsWith('/.')",message="must not have . or .. in it"
	Path string `json:"path,omitempty"`

	// owner is the user that the file belongs to, or user:group. When unset, it is root:root.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.][A-Za-z0-9_.-]*(:[A-Za-z0-9_.][A-Za-z0-9_.-]*)?$`
	Owner string `json:"owner,omitempty"`

	// permissions are three octal digits, with or without a leading zero. When unset, they are 0644.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:Pattern=`^0?[0-7]{3}$`
	Permissions string `json:"permissions,omitempty"`

	// content is the whole file. It is stored as it stands here: what is secret belongs into a Secret.
	// +optional
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=32768
	Content *string `json:"content,omitempty"`

	// contentFrom is where the whole file comes from.
	// +optional
	ContentFrom IgnitionFileSource `json:"contentFrom,omitempty,omitzero"`
}

// IgnitionFileSource is where the content of a file comes from.
// +kubebuilder:validation:MinProperties=1
type IgnitionFileSource struct {
	// secret holds the content, in the namespace of the machine.
	// +required
	Secret SecretKeyReference `json:"secret,omitempty,omitzero"`
}

// SecretKeyReference names a key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// key in the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// IgnitionUnit is a unit of systemd.
// +kubebuilder:validation:XValidation:rule="has(self.enabled) || has(self.mask) || has(self.contents) || has(self.dropins)",message="one of enabled, mask, contents and dropins is needed"
type IgnitionUnit struct {
	// name of the unit, with its suffix, for example chronyd.service.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:_.\\@-]+\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)$`
	Name string `json:"name,omitempty"`

	// enabled starts the unit at boot, as far as it has an [Install] section.
	// +optional
	Enabled *bool `json:"enabled,omitempty"` //nolint:kubeapilinter // Ignition's own field

	// mask makes the unit impossible to start.
	// +optional
	Mask *bool `json:"mask,omitempty"` //nolint:kubeapilinter // Ignition's own field

	// contents are the whole unit.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	Contents string `json:"contents,omitempty"`

	// dropins change parts of the unit.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	DropIns []IgnitionDropIn `json:"dropins,omitempty"`
}

// IgnitionDropIn changes parts of a unit.
type IgnitionDropIn struct {
	// name of the file, for example 10-proxy.conf. Of two that set the same thing, the later name wins.
	// +required
	// +kubebuilder:validation:MinLength=6
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9:_.\\@-]+\.conf$`
	Name string `json:"name,omitempty"`

	// contents are the whole drop-in.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	Contents string `json:"contents,omitempty"`
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
