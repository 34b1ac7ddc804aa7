// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// IgnitionConfigTemplate is what MachineSets make IgnitionConfigs from.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ignitionconfigtemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Source",type="string",JSONPath=".spec.template.spec.secretRef.name",description="Secret that the config comes from"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type IgnitionConfigTemplate struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what is wanted.
	// +required
	Spec IgnitionConfigTemplateSpec `json:"spec,omitempty,omitzero"`
}

// IgnitionConfigTemplateSpec holds the template.
type IgnitionConfigTemplateSpec struct {
	// template is what each IgnitionConfig is made from.
	// +required
	Template IgnitionConfigTemplateResource `json:"template,omitempty,omitzero"`
}

// IgnitionConfigTemplateResource is an IgnitionConfig to be.
type IgnitionConfigTemplateResource struct {
	// metadata are labels and annotations of the IgnitionConfigs made from it.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the spec of the IgnitionConfigs made from it.
	// +required
	Spec IgnitionConfigSpec `json:"spec,omitempty,omitzero"`
}

// IgnitionConfigTemplateList is a list of IgnitionConfigTemplates.
// +kubebuilder:object:root=true
type IgnitionConfigTemplateList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the IgnitionConfigTemplates.
	Items []IgnitionConfigTemplate `json:"items"`
}
