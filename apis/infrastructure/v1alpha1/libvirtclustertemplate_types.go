// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// LibvirtClusterTemplate is what a ClusterClass makes LibvirtClusters from.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=libvirtclustertemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type LibvirtClusterTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what is wanted.
	// +required
	Spec LibvirtClusterTemplateSpec `json:"spec,omitempty,omitzero"`
}

// LibvirtClusterTemplateSpec holds the template.
type LibvirtClusterTemplateSpec struct {
	// template is what each LibvirtCluster is made from.
	// +required
	Template LibvirtClusterTemplateResource `json:"template,omitempty,omitzero"`
}

// LibvirtClusterTemplateResource is a LibvirtCluster to be.
// +kubebuilder:validation:MinProperties=1
type LibvirtClusterTemplateResource struct {
	// metadata are labels and annotations of the LibvirtClusters made from it.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the spec of the LibvirtClusters made from it.
	// +optional
	Spec LibvirtClusterSpec `json:"spec,omitempty,omitzero"`
}

// LibvirtClusterTemplateList is a list of LibvirtClusterTemplates.
// +kubebuilder:object:root=true
type LibvirtClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the LibvirtClusterTemplates.
	Items []LibvirtClusterTemplate `json:"items"`
}
