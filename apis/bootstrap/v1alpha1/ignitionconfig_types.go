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

// ExpiresAnnotation on a source says when the credentials in it expire, as RFC 3339 has it, for those that do not say so
// themselves.
const ExpiresAnnotation = "bootstrap.cluster.x-k8s.io/expires"

// SourceHashAnnotation on a data Secret is a hash of all that it was made from.
const SourceHashAnnotation = "bootstrap.cluster.x-k8s.io/source-hash"

// Conditions of an IgnitionConfig.
const (
	// DataSecretAvailableCondition is true once the data Secret is there.
	DataSecretAvailableCondition = "DataSecretAvailable"
	// UpToDateCondition is true while the data Secret is what the sources give.
	UpToDateCondition = "UpToDate"
	// CredentialsValidCondition is true while nothing that a machine joins with has expired, and once a machine was made.
	CredentialsValidCondition = "CredentialsValid"

	// WaitingForOwnerReason: no Machine has taken the IgnitionConfig yet.
	WaitingForOwnerReason = "WaitingForOwner"
	// WaitingForClusterInfrastructureReason: the Cluster's infrastructure is not provisioned yet.
	WaitingForClusterInfrastructureReason = "WaitingForClusterInfrastructure"
	// SourceNotFoundReason: create the Secret or ConfigMap that the message names, in the same namespace.
	SourceNotFoundReason = "SourceNotFound"
	// SourceKeyMissingReason: a source has no key of the name that the message tells; put the config there.
	SourceKeyMissingReason = "SourceKeyMissing"
	// SourceInvalidReason: a source holds no config that a machine could boot with; the message says where it goes wrong.
	// Mend it: it is read again when it changes.
	SourceInvalidReason = "SourceInvalid"
	// DataSecretTakenReason: a Secret with the IgnitionConfig's name exists and is not ours; rename one of them.
	DataSecretTakenReason = "DataSecretTaken"
	// DataTooLargeReason: the config is larger than a Secret can be; take something out of its sources.
	DataTooLargeReason = "DataTooLarge"
	// SourceChangedReason: a source changed, or cannot be read any more, after a machine was made from it. The machine stays as
	// it is; one that is made anew gets the change.
	SourceChangedReason = "SourceChanged"
	// CredentialsExpiredReason: a token or certificate in the config has expired, and no machine could join with it; put a new
	// one into the source.
	CredentialsExpiredReason = "CredentialsExpired"
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
// +kubebuilder:printcolumn:name="Spec",type="string",JSONPath=".status.specVersion",description="Version of the Ignition spec",priority=1
// +kubebuilder:printcolumn:name="Up to date",type="string",JSONPath=".status.conditions[?(@.type=='UpToDate')].status",description="Whether the data Secret is what the sources give",priority=1
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

// IgnitionConfigSpec is where a config comes from. Changes have an effect until a machine was made.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="[has(self.secretRef), has(self.ignition), has(self.butane), has(self.sources)].exists_one(x, x)",message="exactly one of secretRef, ignition, butane and sources is needed"
type IgnitionConfigSpec struct {
	// secretRef names the Secret, in the same namespace, with an Ignition config of spec 3, plain or gzipped, or a Butane config.
	// It can be shared by any number of IgnitionConfigs.
	// +optional
	SecretRef KeyReference `json:"secretRef,omitempty,omitzero"`

	// ignition is an Ignition config of spec 3. It is stored as it stands here: what is secret belongs into a Secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=524288
	Ignition string `json:"ignition,omitempty"`

	// butane is a Butane config. It is stored as it stands here: what is secret belongs into a Secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=524288
	Butane string `json:"butane,omitempty"`

	// sources are several configs, each merged over the ones before it, as ignition.config.merge does.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Sources []Source `json:"sources,omitempty"`

	// files are what Butane configs may embed with contents.local and trees.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Files []LocalFile `json:"files,omitempty"`
}

// Source is one of several configs.
// +kubebuilder:validation:XValidation:rule="[has(self.secretRef), has(self.configMapRef), has(self.ignition), has(self.butane)].exists_one(x, x)",message="exactly one of secretRef, configMapRef, ignition and butane is needed"
type Source struct {
	// secretRef names a Secret in the same namespace.
	// +optional
	SecretRef KeyReference `json:"secretRef,omitempty,omitzero"`

	// configMapRef names a ConfigMap in the same namespace.
	// +optional
	ConfigMapRef KeyReference `json:"configMapRef,omitempty,omitzero"`

	// ignition is an Ignition config of spec 3.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Ignition string `json:"ignition,omitempty"`

	// butane is a Butane config.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Butane string `json:"butane,omitempty"`
}

// LocalFile is a file that Butane configs may embed.
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) != has(self.configMapRef)",message="exactly one of secretRef and configMapRef is needed"
type LocalFile struct {
	// path is what Butane configs call the file: relative, and without . and .. in it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`
	Path string `json:"path,omitempty"`

	// secretRef names a Secret in the same namespace.
	// +optional
	SecretRef KeyReference `json:"secretRef,omitempty,omitzero"`

	// configMapRef names a ConfigMap in the same namespace.
	// +optional
	ConfigMapRef KeyReference `json:"configMapRef,omitempty,omitzero"`
}

// KeyReference names a key of a Secret or ConfigMap in the same namespace.
type KeyReference struct {
	// name of the Secret or ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// key in it. When unset, it is "value".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// IgnitionConfigStatus is what is there.
// +kubebuilder:validation:MinProperties=1
type IgnitionConfigStatus struct {
	// conditions are Ready, DataSecretAvailable, UpToDate, CredentialsValid and Paused.
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

	// expires is when the first of the credentials in the config does.
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`
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
