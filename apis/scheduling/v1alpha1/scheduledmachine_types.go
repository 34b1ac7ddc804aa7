// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// ScheduledMachineFinalizer keeps a ScheduledMachine until its Machine is gone.
	ScheduledMachineFinalizer = "5spot.finos.org/scheduledmachine"

	// OverrideAnnotation on a ScheduledMachine overrides its schedule for a while, as spec.override does, and wins over it:
	// "on until next-transition", "off until 2026-12-24T18:00:00Z", "on for 2h", and a reason after that. It is taken away when
	// it has ended.
	OverrideAnnotation = "5spot.finos.org/override"

	// KillSwitchAnnotation on a Namespace is the emergency stop for its ScheduledMachines: for all with "true", for those whose
	// labels match with a label selector, such as "rack=3". A value that is neither stops all.
	KillSwitchAnnotation = "5spot.finos.org/kill-switch"

	// SelfManagedAnnotation on a Cluster says, with "true", that the cluster that it describes is the management cluster itself:
	// its Nodes are there. Otherwise the Secret <cluster>-kubeconfig leads to them.
	SelfManagedAnnotation = "5spot.finos.org/self-managed"

	// NodeOwnerAnnotation on a Node names the ScheduledMachine, namespace/name, whose machine it is.
	NodeOwnerAnnotation = "5spot.finos.org/scheduled-machine"

	// ShutdownAnnotation on a Node announces since when its window is closed. The Node was cordoned by us.
	ShutdownAnnotation = "5spot.finos.org/shutting-down-since"

	// TemplateHashAnnotation on a Machine is a hash of what it was made from.
	TemplateHashAnnotation = "5spot.finos.org/template-hash"

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

	// UpToDateCondition is true while the machine is what spec says. What it was made from may be changed meanwhile; that applies
	// when the next window opens.
	UpToDateCondition = "UpToDate"

	// InvalidScheduleReason: correct spec.schedule; the message says where it goes wrong. What is there stays as it is.
	InvalidScheduleReason = "InvalidSchedule"
	// InvalidSpecReason: correct spec; the message says where. What is there stays as it is.
	InvalidSpecReason = "InvalidSpec"
	// CalendarNotFoundReason: create the ConfigMap that schedule.exceptions names. What is there stays as it is.
	CalendarNotFoundReason = "CalendarNotFound"
	// WindowOpenReason: the schedule is on.
	WindowOpenReason = "WindowOpen"
	// WindowClosedReason: the schedule is off; status.nextActivation says when it is on again.
	WindowClosedReason = "WindowClosed"
	// LeadTimeReason: the next window opens soon, and the machine is made ahead of it.
	LeadTimeReason = "LeadTime"
	// OverrideReason: spec.override, or its annotation, decides until it ends.
	OverrideReason = "Override"
	// JustOpenedReason: the window opened less than a minute ago; a clock that was set does not close it.
	JustOpenedReason = "JustOpened"
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
	// WaitingForTurnReason: machines of higher priority on the same host are made first.
	WaitingForTurnReason = "WaitingForTurn"
	// BackingOffReason: the machine failed, was deleted, and is made again after a while.
	BackingOffReason = "BackingOff"
	// GracePeriodReason: the window is closed, and the Node keeps the pods that it has until gracefulShutdownTimeout is over.
	GracePeriodReason = "GracePeriod"
	// DrainingReason: pods are evicted from the Node; the message names those that are left.
	DrainingReason = "Draining"
	// WaitingForNodeDeletionReason: the machine is gone, and its Node is to be deleted.
	WaitingForNodeDeletionReason = "WaitingForNodeDeletion"
	// NodeTakenReason: a Node with the machine's name is there and is not known to be ours. Delete it, or rename the ScheduledMachine.
	NodeTakenReason = "NodeTaken"
	// WorkloadClusterUnknownReason: nobody said where the cluster's Nodes are. Create the Secret <cluster>-kubeconfig, with the
	// label cluster.x-k8s.io/cluster-name, or annotate the Cluster with 5spot.finos.org/self-managed=true.
	WorkloadClusterUnknownReason = "WorkloadClusterUnknown"
	// WorkloadClusterUnreachableReason: the workload cluster does not answer; it is tried again.
	WorkloadClusterUnreachableReason = "WorkloadClusterUnreachable"
	// TemplateChangedReason: spec was changed after the machine was made; the message says when that applies.
	TemplateChangedReason = "TemplateChanged"
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
// +kubebuilder:printcolumn:name="On",type="string",JSONPath=".status.conditions[?(@.type=='Scheduled')].status",description="Whether the machine is wanted"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type=='Scheduled')].reason",description="Why the machine is wanted, or not"
// +kubebuilder:printcolumn:name="Next-Change",type="string",JSONPath=".status.nextChange",description="When it is wanted no more, or again"
// +kubebuilder:printcolumn:name="Node",type="string",JSONPath=".status.nodeRef.name",description="The machine's Node"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type=='Ready')].status",description="Whether all is as wanted"
// +kubebuilder:printcolumn:name="Next-Activation",type="string",JSONPath=".status.nextActivation",description="When the next window opens",priority=1
// +kubebuilder:printcolumn:name="Next-Cleanup",type="string",JSONPath=".status.nextCleanup",description="When the open window, or the next one, closes",priority=1
// +kubebuilder:printcolumn:name="Schedule",type="string",JSONPath=".status.schedule",description="The schedule as it was understood",priority=1
// +kubebuilder:printcolumn:name="Message",type="string",JSONPath=".status.conditions[?(@.type=='MachineReady')].message",description="What is waited for",priority=1
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name must be at most 63 characters: it becomes the machine's hostname"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.contains('.')",message="metadata.name must have no dots: it becomes the machine's hostname"
// +kubebuilder:validation:XValidation:rule="self.spec.clusterName == oldSelf.spec.clusterName || !has(oldSelf.status) || !has(oldSelf.status.machineRef)",message="spec.clusterName cannot be changed while there is a Machine: a machine stays in its cluster"
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
	// clusterName is the Cluster, in the same namespace, that the machine belongs to. It cannot be changed while there is a
	// Machine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`

	// schedule says when the machine is there.
	// +required
	Schedule Schedule `json:"schedule,omitempty,omitzero"` //nolint:kubeapilinter // its own rules refuse it when it is empty

	// infrastructureSpec is the infrastructure object that the machine gets, for example a LibvirtMachine. A change applies
	// when the next window opens.
	// +required
	InfrastructureSpec InfrastructureObject `json:"infrastructureSpec,omitempty,omitzero"`

	// bootstrapSpec is the bootstrap object that the machine gets, for example an IgnitionConfig. A change applies when the
	// next window opens.
	// +required
	BootstrapSpec BootstrapObject `json:"bootstrapSpec,omitempty,omitzero"`

	// machineTemplate is what else the Machine has, and its Node. A change applies when the next window opens.
	// +optional
	MachineTemplate MachineTemplate `json:"machineTemplate,omitempty,omitzero"`

	// leadTime is how long before its window the machine is made, so that its Node is Ready when the window opens: a duration
	// such as 15m, at most 12h, or auto, which is what the last openings took, and 10m before there were any. When unset, it
	// is 0s.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == 'auto' || (self.matches('^([0-9]+(\\\\.[0-9]+)?(s|m|h))+$') && duration(self) <= duration('12h'))",message="must be auto, or a duration such as 15m of at most 12h"
	LeadTime string `json:"leadTime,omitempty"`

	// override decides instead of the schedule until it ends. Only killSwitch is above it.
	// +optional
	Override Override `json:"override,omitempty,omitzero"`

	// priority of the machine among those on the same host: the higher one is made first. When unset, it is 50.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Priority *int32 `json:"priority,omitempty"`

	// gracefulShutdownTimeout is how long the Node keeps the work that it has, and takes no new one, from the close of a window
	// on, for example 5m. It ends early when no pod is left that a drain would evict. It is at most 24h. When unset, it is 0s.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('24h')",message="must be at most 24h"
	GracefulShutdownTimeout *metav1.Duration `json:"gracefulShutdownTimeout,omitempty"`

	// nodeDrainTimeout is how long the eviction of the Node's pods may take before the machine goes all the same, for
	// example 5m. PodDisruptionBudgets are honored until then. 0s is no time at all. It is at most 24h. When unset, it is 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('24h')",message="must be at most 24h"
	NodeDrainTimeout *metav1.Duration `json:"nodeDrainTimeout,omitempty"`

	// killSwitch removes the machine at once, without a drain, and keeps it away for as long as it is true. It is the emergency
	// stop, and works while the ScheduledMachine is paused or its schedule cannot be understood.
	// +optional
	KillSwitch bool `json:"killSwitch,omitempty"`
}

// Schedule is when a machine is there: on each of the days, in each of the hours, and in each of the windows.
// +kubebuilder:validation:XValidation:rule="has(self.daysOfWeek) == has(self.hoursOfDay)",message="daysOfWeek and hoursOfDay belong together: give both"
// +kubebuilder:validation:XValidation:rule="has(self.daysOfWeek) || has(self.windows)",message="daysOfWeek with hoursOfDay, or windows, are required"
type Schedule struct {
	// enabled is false to keep the machine away whatever the schedule says. When unset, it is true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// daysOfWeek are days (mon) and ranges of days (mon-fri, fri-mon), both ends included. They and hoursOfDay are required,
	// unless there are windows.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=3
	// +kubebuilder:validation:items:MaxLength=7
	// +kubebuilder:validation:items:Pattern=`^(?i)(mon|tue|wed|thu|fri|sat|sun)(-(mon|tue|wed|thu|fri|sat|sun))?$`
	DaysOfWeek []string `json:"daysOfWeek,omitempty"`

	// hoursOfDay are hours (9) and ranges of hours, both ends included: 9-17 opens at 09:00 and closes at 18:00. A range
	// over midnight (22-6) belongs to the day on which it starts.
	// +optional
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

	// windows are further windows, given by cron expressions.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Windows []Window `json:"windows,omitempty"`

	// exceptions are dates on which all else does not count. Windows that would start on such a date do not; one that started
	// the day before goes on. Of several exceptions that name a date, the first one counts.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Exceptions []Exception `json:"exceptions,omitempty"`
}

// Window opens at each fire of start, and closes at the next one of stop, or after duration.
// +kubebuilder:validation:XValidation:rule="has(self.stop) != has(self.duration)",message="give exactly one of stop and duration: a window that opens must close"
type Window struct {
	// start is a cron expression of five fields, in the schedule's time zone, for example "30 8 * * 1-5".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Start string `json:"start,omitempty"`

	// stop is a cron expression of five fields, in the schedule's time zone, for example "15 17 * * 1-5".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Stop string `json:"stop,omitempty"`

	// duration is how long the window is open, for example 8h30m: from 1m to 744h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('744h')",message="must be from 1m to 744h"
	Duration *metav1.Duration `json:"duration,omitempty"` //nolint:kubeapilinter // written as the other durations are
}

// Exception is what is different on some dates.
// +kubebuilder:validation:XValidation:rule="has(self.dates) || has(self.configMapRef)",message="give dates or configMapRef"
// +kubebuilder:validation:XValidation:rule="has(self.hoursOfDay) != (has(self.closed) && self.closed)",message="say closed: true, or give hoursOfDay"
type Exception struct {
	// name of the exception, for people.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// dates are dates (2026-12-24) in the schedule's time zone, and ranges of dates (2026-12-24/2027-01-01), both ends included.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MinLength=10
	// +kubebuilder:validation:items:MaxLength=21
	// +kubebuilder:validation:items:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}(/[0-9]{4}-[0-9]{2}-[0-9]{2})?$`
	Dates []string `json:"dates,omitempty"`

	// configMapRef names an iCalendar file whose all-day events are further dates. Many ScheduledMachines may share it.
	// +optional
	ConfigMapRef ConfigMapKeyReference `json:"configMapRef,omitempty,omitzero"`

	// closed says that no window opens on these dates.
	// +optional
	Closed bool `json:"closed,omitempty"` //nolint:kubeapilinter // there is nothing between open and closed

	// hoursOfDay are the hours of these dates, instead of those that they would have, whatever day of the week it is.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=24
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=5
	// +kubebuilder:validation:items:Pattern=`^([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?$`
	HoursOfDay []string `json:"hoursOfDay,omitempty"`
}

// ConfigMapKeyReference names a key of a ConfigMap in the same namespace.
type ConfigMapKeyReference struct {
	// name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// key of the ConfigMap. When unset, it is calendar.ics.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
}

// Override decides instead of a schedule for a while.
type Override struct {
	// state is on or off. YAML reads on and off as true and false where they are not quoted; these are taken as well.
	// +required
	// +kubebuilder:validation:XPreserveUnknownFields
	// +kubebuilder:validation:Schemaless
	State OverrideState `json:"state,omitempty"`

	// until is when the override ends: a time in RFC 3339, such as 2026-12-24T18:00:00Z, or next-transition, which is when the
	// schedule changes next, seen from the moment at which the override was set.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == 'next-transition' || self.matches('^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$')",message="must be a time such as 2026-12-24T18:00:00Z, or next-transition"
	Until string `json:"until,omitempty"`

	// reason is for people.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// NextTransition as the end of an override is when the schedule changes next.
const NextTransition = "next-transition"

// OverrideState is what an override makes of a schedule.
type OverrideState string

const (
	// OverrideOn says that the machine is wanted.
	OverrideOn OverrideState = "on"
	// OverrideOff says that the machine is not wanted.
	OverrideOff OverrideState = "off"
)

// UnmarshalJSON takes true for on and false for off: that is what YAML makes of the bare words.
func (s *OverrideState) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "true":
		*s = OverrideOn
		return nil
	case "false":
		*s = OverrideOff
		return nil
	}
	return json.Unmarshal(text, (*string)(s))
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

// MachineTemplate is what a Machine has besides what it is made of.
// +kubebuilder:validation:XValidation:rule="!has(self.labels) || self.labels.all(k, !k.startsWith('cluster.x-k8s.io/') && !k.startsWith('5spot.finos.org/') && !k.startsWith('kubernetes.io/') && !k.startsWith('k8s.io/'))",message="labels that start with cluster.x-k8s.io/, 5spot.finos.org/, kubernetes.io/ or k8s.io/ are reserved"
// +kubebuilder:validation:XValidation:rule="!has(self.annotations) || self.annotations.all(k, !k.startsWith('cluster.x-k8s.io/') && !k.startsWith('5spot.finos.org/') && !k.startsWith('kubernetes.io/') && !k.startsWith('k8s.io/'))",message="annotations that start with cluster.x-k8s.io/, 5spot.finos.org/, kubernetes.io/ or k8s.io/ are reserved"
// +kubebuilder:validation:MinProperties=1
type MachineTemplate struct {
	// labels of the Machine. The Node gets those of the domains node-role.kubernetes.io, node-restriction.kubernetes.io and
	// node.cluster.x-k8s.io.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Labels map[string]string `json:"labels,omitempty"`

	// annotations of the Machine.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`

	// version is the Kubernetes version of the machine, for example v1.34.1. Nothing here installs it: it tells Cluster API.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// failureDomain is the failure domain in which the machine is made.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// nodeTaints are taints that the Node gets when it joins.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	NodeTaints []NodeTaint `json:"nodeTaints,omitempty"`
}

// NodeTaint is a taint of a Node.
type NodeTaint struct {
	// key of the taint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key,omitempty"`

	// value of the taint.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`

	// effect of the taint on pods that do not tolerate it.
	// +required
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect corev1.TaintEffect `json:"effect,omitempty"`
}

// ScheduledMachineStatus is what is there of a machine.
// +kubebuilder:validation:MinProperties=1
type ScheduledMachineStatus struct {
	// conditions are Ready, ScheduleValid, Scheduled, MachineReady, NodeReady, UpToDate, Deleting and Paused.
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

	// nextChange is when the machine is wanted no more, or again: what leadTime and an override do is in it. It is unset when
	// that does not change by itself.
	// +optional
	NextChange *metav1.Time `json:"nextChange,omitempty"`

	// nextWindows are the window that is open, if any, and those that follow: three in all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	NextWindows []TimeRange `json:"nextWindows,omitempty"`

	// decidedBy says what decides that the machine is wanted, or not.
	// +optional
	DecidedBy Decider `json:"decidedBy,omitempty"`

	// override is the override in force.
	// +optional
	Override OverrideStatus `json:"override,omitempty,omitzero"`

	// leadTimeSeconds is how long before its window the machine is made, as spec.leadTime has it or the last openings took.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LeadTimeSeconds *int32 `json:"leadTimeSeconds,omitempty"`

	// windows are the windows of the past and the one that is open, the latest first, and what happened in them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Windows []WindowStatus `json:"windows,omitempty"`

	// lastScheduledTime is when a window opened last and a machine was wanted for it.
	// +optional
	LastScheduledTime *metav1.Time `json:"lastScheduledTime,omitempty"`

	// shutdown is how far a shutdown in progress is.
	// +optional
	Shutdown ShutdownStatus `json:"shutdown,omitempty,omitzero"`

	// observedGeneration is the generation of spec that this status is about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// providerID is that of the machine, and of its Node. It stays until the Node is gone.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// machineRef names the Machine while there is one.
	// +optional
	MachineRef ObjectNameReference `json:"machineRef,omitempty,omitzero"`

	// nodeRef names the machine's Node once it has joined.
	// +optional
	NodeRef ObjectNameReference `json:"nodeRef,omitempty,omitzero"`
}

// Decider is what decides that a machine is wanted, or not. What stands first here beats what follows.
// +kubebuilder:validation:Enum=KillSwitch;Deletion;Cluster;Override;Exception;Schedule
type Decider string

const (
	// DecidedByKillSwitch says: spec.killSwitch, or the annotation of the Namespace.
	DecidedByKillSwitch Decider = "KillSwitch"
	// DecidedByDeletion says: the ScheduledMachine is being deleted.
	DecidedByDeletion Decider = "Deletion"
	// DecidedByCluster says: the Cluster is missing, or is being deleted.
	DecidedByCluster Decider = "Cluster"
	// DecidedByOverride says: spec.override, or the annotation that stands for it.
	DecidedByOverride Decider = "Override"
	// DecidedByException says: one of the schedule's exceptions; without it, it would be otherwise.
	DecidedByException Decider = "Exception"
	// DecidedBySchedule says: the schedule, with its enabled.
	DecidedBySchedule Decider = "Schedule"
)

// TimeRange is a time from start, included, to end, excluded.
// +kubebuilder:validation:MinProperties=0
type TimeRange struct {
	// start is unset when the window has always been open.
	// +optional
	Start *metav1.Time `json:"start,omitempty"`

	// end is unset when the window never closes.
	// +optional
	End *metav1.Time `json:"end,omitempty"`
}

// OverrideStatus is an override as it was understood.
// +kubebuilder:validation:MinProperties=1
type OverrideStatus struct {
	// request is the override as it was asked for. Another one is another override.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Request string `json:"request,omitempty"`

	// until is when it ends. It is unset when it never does: the schedule never changes.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// WindowStatus is what happened in a window.
// +kubebuilder:validation:MinProperties=1
type WindowStatus struct {
	TimeRange `json:",inline"`

	// openedTime is when the machine was wanted first.
	// +optional
	OpenedTime *metav1.Time `json:"openedTime,omitempty"`

	// createdTime is when the Machine was created.
	// +optional
	CreatedTime *metav1.Time `json:"createdTime,omitempty"`

	// readyTime is when the Node was Ready first.
	// +optional
	ReadyTime *metav1.Time `json:"readyTime,omitempty"`

	// closedTime is when the shutdown began.
	// +optional
	ClosedTime *metav1.Time `json:"closedTime,omitempty"`

	// goneTime is when all of the machine was gone.
	// +optional
	GoneTime *metav1.Time `json:"goneTime,omitempty"`

	// failures is how many machines failed in the window and were replaced.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Failures int32 `json:"failures,omitempty"`

	// lastFailureTime is when the last of them failed.
	// +optional
	LastFailureTime *metav1.Time `json:"lastFailureTime,omitempty"`
}

// ShutdownStatus is how far a shutdown is. Its times are absolute: a restart does not begin it anew.
// +kubebuilder:validation:MinProperties=1
type ShutdownStatus struct {
	// startTime is when the window closed, and from when gracefulShutdownTimeout counts.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// drainStartTime is from when nodeDrainTimeout counts.
	// +optional
	DrainStartTime *metav1.Time `json:"drainStartTime,omitempty"`
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
