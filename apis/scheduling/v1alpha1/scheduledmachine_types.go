// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// ScheduledMachineFinalizer keeps a ScheduledMachine until its Machine is gone.
	ScheduledMachineFinalizer = "5spot.finos.org/scheduledmachine"

	// ScheduledMachineNameLabel is on everything that a ScheduledMachine makes, and holds its name, or a hash of a name
	// that is too long for a label.
	ScheduledMachineNameLabel = "5spot.finos.org/scheduled-machine-name"
)

// Conditions of a ScheduledMachine.
const (
	// ScheduleValidCondition is true while the schedule can be understood.
	ScheduleValidCondition = "ScheduleValid"
	// ScheduledCondition is true while the machine is wanted: its schedule is on, enabled, and nothing stops it.
	ScheduledCondition = "Scheduled"
	// MachineReadyCondition is true while a machine that is wanted is provisioned, and while one that is not wanted is gone.
	MachineReadyCondition = "MachineReady"
	// NodeReadyCondition is true while the machine's Node is Ready.
	NodeReadyCondition = "NodeReady"

	// InvalidScheduleReason: correct spec.schedule; the message says where it goes wrong. What is there stays as it is.
	InvalidScheduleReason = "InvalidSchedule"
	// WindowOpenReason: the schedule is on.
	WindowOpenReason = "WindowOpen"
	// WindowClosedReason: the schedule is off; status.nextActivation says when it is on again.
	WindowClosedReason = "WindowClosed"
	// DisabledReason: spec.schedule.enabled is false.
	DisabledReason = "Disabled"
	// KillSwitchReason: spec.killSwitch is true. Set it to false to go back to the schedule.
	KillSwitchReason = "KillSwitch"
	// DeletingReason: the ScheduledMachine is being deleted, and its machine with it.
	DeletingReason = "Deleting"
	// ClusterNotFoundReason: create the Cluster that spec.clusterName names, in the same namespace.
	ClusterNotFoundReason = "ClusterNotFound"
	// ClusterDeletingReason: the Cluster is being deleted, and takes its machines with it.
	ClusterDeletingReason = "ClusterDeleting"
	// WaitingForMachineReason: the machine is being made; the message is the Machine's own.
	WaitingForMachineReason = "WaitingForMachine"
	// RemovingMachineReason: the machine is being removed; the message says what is waited for.
	RemovingMachineReason = "RemovingMachine"
	// NameTakenReason: an object with the ScheduledMachine's name exists and is not ours; rename one of them.
	NameTakenReason = "NameTaken"
	// CreationRefusedReason: the API server refused an object that was to be made; the message says which and why.
	CreationRefusedReason = "CreationRefused"
	// WaitingForNodeReason: the machine runs, and its Node has not joined or is not Ready yet.
	WaitingForNodeReason = "WaitingForNode"
)

// ScheduledMachine is a machine that is there in time windows, and gone outside them.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=scheduledmachines,scope=Namespaced,shortName=sm,categories=cluster-api
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io="
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move-hierarchy="
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Phase",type="string",JSONPath=".status.phase",description="What it does"
// +kubebuilder:printcolumn:name="Scheduled",type="string",JSONPath=".status.conditions[?(@.type=='Scheduled')].reason",description="Why the machine is wanted, or not"
// +kubebuilder:printcolumn:name="Next-Activation",type="string",JSONPath=".status.nextActivation",description="When the next window opens"
// +kubebuilder:printcolumn:name="Next-Cleanup",type="string",JSONPath=".status.nextCleanup",description="When the open window, or the next one, closes"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether all is as wanted"
// +kubebuilder:printcolumn:name="Schedule",type="string",JSONPath=".status.schedule",description="The schedule as it was understood",priority=1
// +kubebuilder:printcolumn:name="Node",type="string",JSONPath=".status.nodeRef.name",description="The machine's Node",priority=1
// +kubebuilder:printcolumn:name="Message",type="string",JSONPath=".status.conditions[?(@.type=='MachineReady')].message",description="What is waited for",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must be at most 63 characters: it becomes the machine's hostname"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="metadata.name must have no dots: it becomes the machine's hostname"
type ScheduledMachine struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what is wanted.
	// +required
	Spec ScheduledMachineSpec `json:"spec,omitempty,omitzero"`

	// status is what is there.
	// +optional
	Status ScheduledMachineStatus `json:"status,omitempty,omitzero"`
}

// ScheduledMachineSpec is what is wanted of a machine, and when.
type ScheduledMachineSpec struct {
	// clusterName is the Cluster, in the same namespace, that the machine belongs to. It cannot be changed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="clusterName cannot be changed: a machine stays in its cluster"
	ClusterName string `json:"clusterName,omitempty"`

	// schedule says when the machine is there.
	// +required
	Schedule Schedule `json:"schedule,omitempty,omitzero"`

	// infrastructureSpec is the infrastructure object that the machine gets, for example a LibvirtMachine. A change applies
	// when the next window opens.
	// +required
	InfrastructureSpec InfrastructureObject `json:"infrastructureSpec,omitempty,omitzero"`

	// bootstrapSpec is the bootstrap object that the machine gets, for example an IgnitionConfig. A change applies when the
	// next window opens.
	// +required
	BootstrapSpec BootstrapObject `json:"bootstrapSpec,omitempty,omitzero"`

	// machineTemplate holds labels and annotations of the Machine.
	// +optional
	MachineTemplate MachineTemplate `json:"machineTemplate,omitempty,omitzero"`

	// priority of the machine among others: the higher one is made first where not all find room. When unset, it is 50.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Priority *int32 `json:"priority,omitempty"`

	// gracefulShutdownTimeout is how long the Node keeps the work that it has, and takes no new one, when a window closes,
	// for example 5m. When unset, it is 0s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	GracefulShutdownTimeout *metav1.Duration `json:"gracefulShutdownTimeout,omitempty"`

	// nodeDrainTimeout is how long the eviction of the Node's pods may take before the machine goes all the same, for
	// example 5m. 0s is no time at all. When unset, it is 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	NodeDrainTimeout *metav1.Duration `json:"nodeDrainTimeout,omitempty"`

	// killSwitch removes the machine at once, without a drain, and keeps it away for as long as it is true. It is the emergency
	// stop, and works while the ScheduledMachine is paused or its schedule cannot be understood.
	// +optional
	KillSwitch bool `json:"killSwitch,omitempty"`
}

// Schedule is the days and hours at which a machine is there: on each of the days, in each of the hours.
type Schedule struct {
	// enabled is false to keep the machine away whatever the schedule says. When unset, it is true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// daysOfWeek are days (mon) and ranges of days (mon-fri, fri-mon), both ends included.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=3
	// +kubebuilder:validation:items:MaxLength=7
	// +kubebuilder:validation:items:Pattern=`^(?i)(mon|tue|wed|thu|fri|sat|sun)(-(mon|tue|wed|thu|fri|sat|sun))?$`
	DaysOfWeek []string `json:"daysOfWeek,omitempty"`

	// hoursOfDay are hours (9) and ranges of hours, both ends included: 9-17 opens at 09:00 and closes at 18:00. A range
	// over midnight (22-6) belongs to the day on which it starts.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=24
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=5
	// +kubebuilder:validation:items:Pattern=`^([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?$`
	HoursOfDay []string `json:"hoursOfDay,omitempty"`

	// timezone is the IANA time zone of the days and hours, for example America/New_York. When unset, it is UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self != 'Local' && !self.startsWith('/') && !self.contains('..')",message="must be an IANA time zone such as America/New_York"
	Timezone string `json:"timezone,omitempty"`
}

// InfrastructureObject is an infrastructure object to be.
type InfrastructureObject struct {
	// apiVersion of the object, in the group infrastructure.cluster.x-k8s.io.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.startsWith('infrastructure.cluster.x-k8s.io/')",message="must be of the group infrastructure.cluster.x-k8s.io"
	APIVersion string `json:"apiVersion,omitempty"`

	// kind of the object, for example LibvirtMachine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Kind string `json:"kind,omitempty"`

	// spec of the object, as its kind defines it.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Spec runtime.RawExtension `json:"spec,omitempty,omitzero"`
}

// BootstrapObject is a bootstrap object to be.
type BootstrapObject struct {
	// apiVersion of the object, in the group bootstrap.cluster.x-k8s.io.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.startsWith('bootstrap.cluster.x-k8s.io/')",message="must be of the group bootstrap.cluster.x-k8s.io"
	APIVersion string `json:"apiVersion,omitempty"`

	// kind of the object, for example IgnitionConfig.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	Kind string `json:"kind,omitempty"`

	// spec of the object, as its kind defines it.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	Spec runtime.RawExtension `json:"spec,omitempty,omitzero"`
}

// MachineTemplate holds labels and annotations of a Machine.
// +kubebuilder:validation:MinProperties=1
type MachineTemplate struct {
	// labels of the Machine. Cluster API copies those of the domains node-role.kubernetes.io, node-restriction.kubernetes.io
	// and node.cluster.x-k8s.io to the Node.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// annotations of the Machine.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ScheduledMachineStatus is what is there of a machine.
// +kubebuilder:validation:MinProperties=1
type ScheduledMachineStatus struct {
	// conditions are Ready, ScheduleValid, Scheduled, MachineReady, NodeReady, Deleting and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase sums up what is there, for people. Nothing depends on it.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// inSchedule is true while the schedule is on, whatever killSwitch and enabled say.
	// +optional
	InSchedule *bool `json:"inSchedule,omitempty"`

	// schedule is the schedule as it was understood, for example "mon-fri 09:00-18:00 America/New_York".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Schedule string `json:"schedule,omitempty"`

	// nextActivation is when the next window opens. It is unset when none does.
	// +optional
	NextActivation *metav1.Time `json:"nextActivation,omitempty"`

	// nextCleanup is when the window that is open closes, or, when none is, the next one. It is unset when none does.
	// +optional
	NextCleanup *metav1.Time `json:"nextCleanup,omitempty"`

	// machineRef names the Machine while there is one.
	// +optional
	MachineRef ObjectNameReference `json:"machineRef,omitempty,omitzero"`

	// nodeRef names the machine's Node once it has joined.
	// +optional
	NodeRef ObjectNameReference `json:"nodeRef,omitempty,omitzero"`
}

// ObjectNameReference names an object.
type ObjectNameReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// Phase sums up what is there of a ScheduledMachine.
// +kubebuilder:validation:Enum=Pending;Provisioning;Active;ShuttingDown;Inactive;Disabled;Terminated
type Phase string

const (
	// PhasePending says: the machine is wanted, and nothing of it is there yet.
	PhasePending Phase = "Pending"
	// PhaseProvisioning says: the machine is being made.
	PhaseProvisioning Phase = "Provisioning"
	// PhaseActive says: the machine is there and its Node is Ready.
	PhaseActive Phase = "Active"
	// PhaseShuttingDown says: the machine is being removed.
	PhaseShuttingDown Phase = "ShuttingDown"
	// PhaseInactive says: the machine is gone until the next window opens.
	PhaseInactive Phase = "Inactive"
	// PhaseDisabled says: the machine is gone, and stays so while spec.schedule.enabled is false.
	PhaseDisabled Phase = "Disabled"
	// PhaseTerminated says: the machine is gone, and stays so while spec.killSwitch is true.
	PhaseTerminated Phase = "Terminated"
)

// GetConditions returns the conditions, for Cluster API's helpers.
func (m *ScheduledMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions, for Cluster API's helpers.
func (m *ScheduledMachine) SetConditions(conditions []metav1.Condition) {
	m.Status.Conditions = conditions
}

// ScheduledMachineList is a list of ScheduledMachines.
// +kubebuilder:object:root=true
type ScheduledMachineList struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ScheduledMachines.
	Items []ScheduledMachine `json:"items"`
}
