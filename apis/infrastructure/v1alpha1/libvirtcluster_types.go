// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ClusterFinalizer keeps a LibvirtCluster until its machines are gone.
const ClusterFinalizer = "libvirtcluster.infrastructure.cluster.x-k8s.io"

// Conditions of a LibvirtCluster.
const (
	// EndpointSetCondition is true once the control plane's endpoint is known.
	EndpointSetCondition = "EndpointSet"
	// EndpointReachableCondition says whether something answers at the control plane's endpoint. It is for people to look
	// at, and holds nothing up: the control plane may still have to be built.
	EndpointReachableCondition = "EndpointReachable"

	// EndpointNotSetReason: set spec.controlPlaneEndpoint, here or on the Cluster.
	EndpointNotSetReason = "EndpointNotSet"
	// EndpointUnreachableReason: nothing answers at the endpoint; correct it, or start the control plane.
	EndpointUnreachableReason = "EndpointUnreachable"

	// DeletingCondition is true while a deletion waits for something or is at work, and says for what.
	DeletingCondition = clusterv1.DeletingCondition
	// WaitingForMachinesReason: the LibvirtMachines of this cluster have to go first.
	WaitingForMachinesReason = "WaitingForMachines"
)

// LibvirtCluster is the infrastructure of one cluster whose workers are libvirt domains.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=libvirtclusters,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster it belongs to"
// +kubebuilder:printcolumn:name="Provisioned",type="boolean",JSONPath=".status.initialization.provisioned",description="Whether machines can be made"
// +kubebuilder:printcolumn:name="Endpoint",type="string",JSONPath=".spec.controlPlaneEndpoint.host",description="Host of the API server"
// +kubebuilder:printcolumn:name="Port",type="integer",JSONPath=".spec.controlPlaneEndpoint.port",description="Port of the API server",priority=1
// +kubebuilder:printcolumn:name="Reachable",type="string",JSONPath=".status.conditions[?(@.type=='EndpointReachable')].status",description="Whether the API server answers"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type LibvirtCluster struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what is wanted.
	// +optional
	Spec LibvirtClusterSpec `json:"spec,omitempty,omitzero"`

	// status is what is there.
	// +optional
	Status LibvirtClusterStatus `json:"status,omitempty,omitzero"`
}

// LibvirtClusterSpec is what is wanted of a cluster's infrastructure.
type LibvirtClusterSpec struct {
	// controlPlaneEndpoint is where the cluster's API server answers. When unset, the Cluster's own endpoint is waited for.
	// +optional
	ControlPlaneEndpoint clusterv1.APIEndpoint `json:"controlPlaneEndpoint,omitempty,omitzero"`
}

// LibvirtClusterStatus is what is there of a cluster's infrastructure.
// +kubebuilder:validation:MinProperties=1
type LibvirtClusterStatus struct {
	// conditions are Ready, EndpointSet, EndpointReachable, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is what Cluster API waits for.
	// +optional
	Initialization LibvirtClusterInitializationStatus `json:"initialization,omitempty,omitzero"`

	// failureDomains are those that machines can be spread over.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	FailureDomains []clusterv1.FailureDomain `json:"failureDomains,omitempty"`
}

// LibvirtClusterInitializationStatus is what Cluster API waits for.
// +kubebuilder:validation:MinProperties=1
type LibvirtClusterInitializationStatus struct {
	// provisioned is true once the endpoint is known. It never becomes false again.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// GetConditions returns the conditions, for Cluster API's helpers.
func (c *LibvirtCluster) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions, for Cluster API's helpers.
func (c *LibvirtCluster) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// LibvirtClusterList is a list of LibvirtClusters.
// +kubebuilder:object:root=true
type LibvirtClusterList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the LibvirtClusters.
	Items []LibvirtCluster `json:"items"`
}
