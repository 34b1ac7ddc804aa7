// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// LibvirtMachineTemplate is what MachineSets make LibvirtMachines from.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=libvirtmachinetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="VCPUs",type="integer",JSONPath=".spec.template.spec.domain.vcpus",description="Virtual processors"
// +kubebuilder:printcolumn:name="Memory (MB)",type="integer",JSONPath=".spec.template.spec.domain.memoryMB",description="Memory in MiB"
// +kubebuilder:printcolumn:name="Image",type="string",JSONPath=".spec.template.spec.rootDisk.baseImage",description="Base image"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type LibvirtMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what is wanted.
	// +required
	Spec LibvirtMachineTemplateSpec `json:"spec,omitempty,omitzero"`

	// status is what a machine made from the template would offer.
	// +optional
	Status LibvirtMachineTemplateStatus `json:"status,omitempty,omitzero"`
}

// LibvirtMachineTemplateSpec holds the template.
type LibvirtMachineTemplateSpec struct {
	// template is what each LibvirtMachine is made from.
	// +required
	Template LibvirtMachineTemplateResource `json:"template,omitempty,omitzero"`
}

// LibvirtMachineTemplateResource is a LibvirtMachine to be.
type LibvirtMachineTemplateResource struct {
	// metadata are labels and annotations of the LibvirtMachines made from it.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the spec of the LibvirtMachines made from it. It has no providerID and no hostname: those are one machine's own.
	// +required
	// +kubebuilder:validation:XValidation:rule="!has(self.providerID)",message="providerID is one machine's own and cannot stand in a template"
	// +kubebuilder:validation:XValidation:rule="!has(self.hostname)",message="hostname is one machine's own and cannot stand in a template"
	Spec LibvirtMachineSpec `json:"spec,omitempty,omitzero"`
}

// LibvirtMachineTemplateStatus is what a machine made from the template would offer. The cluster-autoscaler reads it to
// scale from zero.
// +kubebuilder:validation:MinProperties=1
type LibvirtMachineTemplateStatus struct {
	// conditions are Ready and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// capacity is what a machine has.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// nodeInfo is what the Node of a machine would say of itself.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`
}

// NodeInfo is what a Node says of itself.
// +kubebuilder:validation:MinProperties=1
type NodeInfo struct {
	// architecture of the Node, as Kubernetes names it.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64;s390x;ppc64le
	Architecture string `json:"architecture,omitempty"`

	// operatingSystem of the Node.
	// +optional
	// +kubebuilder:validation:Enum=linux
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

// GetConditions returns the conditions, for Cluster API's helpers.
func (t *LibvirtMachineTemplate) GetConditions() []metav1.Condition { return t.Status.Conditions }

// SetConditions replaces the conditions, for Cluster API's helpers.
func (t *LibvirtMachineTemplate) SetConditions(conditions []metav1.Condition) {
	t.Status.Conditions = conditions
}

// LibvirtMachineTemplateList is a list of LibvirtMachineTemplates.
// +kubebuilder:object:root=true
type LibvirtMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the LibvirtMachineTemplates.
	Items []LibvirtMachineTemplate `json:"items"`
}
