// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
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
	case schedulingv1.DisabledReason, schedulingv1.DeletingReason, schedulingv1.ClusterDeletingReason:
		a.Eventf(m, nil, corev1.EventTypeNormal, is.Reason, "Schedule", "%s", is.Message)
	default:
		a.Eventf(m, nil, corev1.EventTypeWarning, is.Reason, "Schedule", "%s", is.Message)
	}
}

func (a announcer) machineCreated(m *schedulingv1.ScheduledMachine) {
	a.Eventf(m, nil, corev1.EventTypeNormal, "MachineCreated", "Create", "Created Machine %s", m.Name)
}

func (a announcer) machineDeleted(m *schedulingv1.ScheduledMachine, reason string) {
	a.Eventf(m, nil, corev1.EventTypeNormal, "MachineDeleted", "Delete", "Deleted Machine %s: %s", m.Name, reason)
}
