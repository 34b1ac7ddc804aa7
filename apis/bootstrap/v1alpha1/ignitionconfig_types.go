// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SecretValueKey is the key under which source and data Secret hold their config, as Cluster API's contract has it.
const SecretValueKey = "value"

// Keys and values that tell infrastructure providers what the data Secret holds.
const (
	// SecretFormatKey is the key of the data Secret that names the format.
	SecretFormatKey = "format"
	// FormatIgnition is the format of every data Secret that is made here.
	FormatIgnition = "ignition"
)

// Conditions of an IgnitionConfig.
const (
	// DataSecretAvailableCondition is true once the data Secret is there.
	DataSecretAvailableCondition = "DataSecretAvailable"

	// WaitingForOwnerReason: no Machine has taken the IgnitionConfig yet.
	WaitingForOwnerReason = "WaitingForOwner"
	// WaitingForClusterInfrastructureReason: the Cluster's infrastructure is not provisioned yet.
	WaitingForClusterInfrastructureReason = "WaitingForClusterInfrastructure"
	// SourceSecretNotFoundReason: create the Secret that spec.secretRef names, in the same namespace.
	SourceSecretNotFoundReason = "SourceSecretNotFound"
	// SourceSecretKeyMissingReason: the source Secret has no key "value"; put the config there.
	SourceSecretKeyMissingReason = "SourceSecretKeyMissing"
	// SourceSecretInvalidReason: the source Secret holds no config that a machine could boot with; the message says where it
	// goes wrong. Mend the Secret: it is read again when it changes.
	SourceSecretInvalidReason = "SourceSecretInvalid"
	// DataSecretTakenReason: a Secret with the IgnitionConfig's name exists and is not ours; rename one of them.
	DataSecretTakenReason = "DataSecretTaken"
)

// IgnitionConfig turns an Ignition or Butane config in a Secret into the bootstrap data of one Machine.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=ignitionconfigs,scope=Namespaced,categories=cluster-api
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster it belongs to"
// +kubebuilder:printcolumn:name="Source",type="string",JSONPath=".spec.secretRef.name",description="Secret that the config comes from"
// +kubebuilder:printcolumn:name="Data Secret",type="string",JSONPath=".status.dataSecretName",description="Secret that the machine is made from"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether the data Secret is there"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].reason",description="Why it is, or is not",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type IgnitionConfig struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what is wanted.
	// +required
	Spec IgnitionConfigSpec `json:"spec,omitempty,omitzero"`

	// status is what is there.
	// +optional
	Status IgnitionConfigStatus `json:"status,omitempty,omitzero"`
}

// IgnitionConfigSpec is where a config comes from. Once the data Secret was made, a change has no effect.
type IgnitionConfigSpec struct {
	// secretRef names the Secret, in the same namespace, whose key "value" is an Ignition config of spec 3, plain or
	// gzipped, or a Butane config. It can be shared by any number of IgnitionConfigs.
	// +required
	SecretRef LocalSecretReference `json:"secretRef,omitempty,omitzero"`
}

// LocalSecretReference names a Secret in the same namespace.
type LocalSecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// IgnitionConfigStatus is what is there.
// +kubebuilder:validation:MinProperties=1
type IgnitionConfigStatus struct {
	// conditions are Ready, DataSecretAvailable and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is what Cluster API waits for.
	// +optional
	Initialization IgnitionConfigInitializationStatus `json:"initialization,omitempty,omitzero"`

	// dataSecretName names the Secret that the machine is made from.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DataSecretName string `json:"dataSecretName,omitempty"`

	// specVersion is the version of the Ignition spec that the config is written in, for example 3.2.0. The machine's
	// image has to know it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	SpecVersion string `json:"specVersion,omitempty"`
}

// IgnitionConfigInitializationStatus is what Cluster API waits for.
// +kubebuilder:validation:MinProperties=1
type IgnitionConfigInitializationStatus struct {
	// dataSecretCreated is true once the data Secret is there. It never becomes false again.
	// +optional
	DataSecretCreated *bool `json:"dataSecretCreated,omitempty"`
}

// GetConditions returns the conditions, for Cluster API's helpers.
func (c *IgnitionConfig) GetConditions() []metav1.Condition { return c.Status.Conditions }

// SetConditions replaces the conditions, for Cluster API's helpers.
func (c *IgnitionConfig) SetConditions(conditions []metav1.Condition) {
	c.Status.Conditions = conditions
}

// IgnitionConfigList is a list of IgnitionConfigs.
// +kubebuilder:object:root=true
type IgnitionConfigList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the IgnitionConfigs.
	Items []IgnitionConfig `json:"items"`
}
