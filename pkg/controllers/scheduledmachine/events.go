// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/timetable"
)

// announcer holds every event of this controller.
type announcer struct{ events.EventRecorder }

// decided tells that a machine is wanted, or not wanted any more, or not wanted for another reason.
func (a announcer) decided(m *schedulingv1.ScheduledMachine, was *metav1.Condition, is metav1.Condition) {
	if was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return
	}
	switch is.Reason {
	case schedulingv1.WindowOpenReason:
		a.Eventf(m, nil, corev1.EventTypeNormal, is.Reason, "Schedule", "The window is open: %s", m.Status.Schedule)
	case schedulingv1.WindowClosedReason:
		a.Eventf(m, nil, corev1.EventTypeNormal, is.Reason, "Schedule", "The window is closed: %s", m.Status.Schedule)
	case schedulingv1.DisabledReason, schedulingv1.DeletingReason, schedulingv1.ClusterDeletingReason,
		schedulingv1.LeadTimeReason, schedulingv1.OverrideReason, schedulingv1.JustOpenedReason:
		a.Eventf(m, nil, corev1.EventTypeNormal, is.Reason, "Schedule", "%s", is.Message)
	case schedulingv1.KillSwitchReason:
		killSwitches.Inc()
		a.Eventf(m, nil, corev1.EventTypeWarning, is.Reason, "Schedule", "%s", is.Message)
	default:
		a.Eventf(m, nil, corev1.EventTypeWarning, is.Reason, "Schedule", "%s", is.Message)
	}
}

func (a announcer) openedLate(m *schedulingv1.ScheduledMachine, late time.Duration) {
	a.Eventf(m, nil, corev1.EventTypeWarning, "OpenedLate", "Schedule", "The window is opened %d min late",
		int(late.Minutes()))
}

func (a announcer) missedWindows(m *schedulingv1.ScheduledMachine, count int, from, to time.Time) {
	a.Eventf(m, nil, corev1.EventTypeWarning, "MissedWindow", "Schedule",
		"%d windows between %s and %s went by while no controller was running; no machine was made for them",
		count, from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
}

func (a announcer) overrideEnded(m *schedulingv1.ScheduledMachine, o *timetable.Override) {
	a.Eventf(m, nil, corev1.EventTypeNormal, "OverrideEnded", "Schedule", "The schedule decides again; ended: %s", o)
}

func (a announcer) machineCreated(m *schedulingv1.ScheduledMachine) {
	a.Eventf(m, nil, corev1.EventTypeNormal, "MachineCreated", "Create", "Created Machine %s", m.Name)
}

func (a announcer) machineDeleted(m *schedulingv1.ScheduledMachine, reason string) {
	a.Eventf(m, nil, corev1.EventTypeNormal, "MachineDeleted", "Delete", "Deleted Machine %s: %s", m.Name, reason)
}

func (a announcer) machineLost(m *schedulingv1.ScheduledMachine) {
	a.Eventf(m, nil, corev1.EventTypeWarning, "MachineLost", "Create",
		"Machine %s is going while its window is open; it is made again when it is gone", m.Name)
}

func (a announcer) machineFailed(m *schedulingv1.ScheduledMachine, why string) {
	a.Eventf(m, nil, corev1.EventTypeWarning, "MachineFailed", "Delete", "Machine %s is replaced: %s", m.Name, why)
}

func (a announcer) shutdownBegun(m *schedulingv1.ScheduledMachine, node *corev1.Node, until time.Time) {
	a.Eventf(m, nil, corev1.EventTypeNormal, "ShutdownStarted", "Shutdown",
		"Node %s takes no new pods, and keeps those that it has until %s", node.Name, until.UTC().Format(time.RFC3339))
}

func (a announcer) shutdownAborted(m *schedulingv1.ScheduledMachine) {
	a.Eventf(m, nil, corev1.EventTypeNormal, "ShutdownAborted", "Shutdown", "The machine is wanted again, and stays")
}

func (a announcer) drainBegun(m *schedulingv1.ScheduledMachine, node *corev1.Node) {
	a.Eventf(m, nil, corev1.EventTypeNormal, "DrainStarted", "Drain", "Evicting the pods on Node %s", node.Name)
}

func (a announcer) drained(m *schedulingv1.ScheduledMachine, node *corev1.Node) {
	a.Eventf(m, nil, corev1.EventTypeNormal, "Drained", "Drain", "No pod that can be evicted is left on Node %s", node.Name)
}

func (a announcer) drainGivenUp(m *schedulingv1.ScheduledMachine, node *corev1.Node, left []string) {
	a.Eventf(m, nil, corev1.EventTypeWarning, "DrainTimeout", "Drain",
		"nodeDrainTimeout is over, and the machine goes with what is left on Node %s: %s", node.Name, some(left))
}

func (a announcer) nodeDeleted(m *schedulingv1.ScheduledMachine, node *corev1.Node) {
	a.Eventf(m, nil, corev1.EventTypeNormal, "NodeDeleted", "Delete", "Deleted Node %s, whose machine is gone", node.Name)
}

func (a announcer) nodeLeft(m *schedulingv1.ScheduledMachine, err error) {
	a.Eventf(m, nil, corev1.EventTypeWarning, "NodeLeft", "Delete",
		"The machine with provider ID %s is gone, and its Node may be left: %s", m.Status.ProviderID, err)
}

// some are a few of many, for a message.
func some(all []string) string {
	const few = 5
	if len(all) <= few {
		return strings.Join(all, "; ")
	}
	return strings.Join(all[:few], "; ") + "; and others"
}
