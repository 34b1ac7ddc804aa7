// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/steps"
	"github.com/finos/caplv/pkg/workload"
)

// report shows what is there. All of it is derived, and nothing depends on it.
func (s *scope) report() error {
	s.Status.MachineRef, s.Status.NodeRef = schedulingv1.ObjectNameReference{}, schedulingv1.ObjectNameReference{}
	if s.machine != nil && s.ours(s.machine) {
		s.Status.MachineRef.Name = s.machine.Name
		s.Status.NodeRef.Name = s.machine.Status.NodeRef.Name
	}
	if s.node != nil {
		s.Status.NodeRef.Name = s.node.Name
	}
	s.markUpToDate()
	s.Status.Phase = s.phase()
	s.markDeleting()
	if !s.decision.Wanted && !s.decision.hold {
		conditions.Delete(s, schedulingv1.NodeReadyCondition)
		return steps.Summarize(s, schedulingv1.ScheduleValidCondition, schedulingv1.MachineReadyCondition)
	}
	return steps.Summarize(s, schedulingv1.ScheduleValidCondition, schedulingv1.MachineReadyCondition,
		schedulingv1.NodeReadyCondition)
}

// markDeleting says what a deletion waits for.
func (s *scope) markDeleting() {
	if s.DeletionTimestamp.IsZero() {
		return
	}
	conditions.Set(s, metav1.Condition{
		Type: clusterv1.DeletingCondition, Status: metav1.ConditionTrue,
		Reason:  conditions.GetReason(s, schedulingv1.MachineReadyCondition),
		Message: conditions.GetMessage(s, schedulingv1.MachineReadyCondition),
	})
}

// phase sums up for people what is there.
func (s *scope) phase() schedulingv1.Phase {
	switch {
	case s.decision.Wanted || s.decision.hold:
		return s.phaseOfMachine()
	case s.somethingLeft():
		return schedulingv1.PhaseShuttingDown
	}
	switch s.decision.Reason {
	case schedulingv1.KillSwitchReason:
		return schedulingv1.PhaseTerminated
	case schedulingv1.DisabledReason:
		return schedulingv1.PhaseDisabled
	case schedulingv1.ClusterNotFoundReason:
		return schedulingv1.PhasePending
	default:
		return schedulingv1.PhaseInactive
	}
}

func (s *scope) phaseOfMachine() schedulingv1.Phase {
	switch {
	case s.machine == nil || !s.machine.DeletionTimestamp.IsZero() || !s.ours(s.machine):
		return schedulingv1.PhasePending
	case s.nodeReady():
		return schedulingv1.PhaseActive
	default:
		return schedulingv1.PhaseProvisioning
	}
}

// nodeReady says whether the Node is Ready: as we see it, or, where we see none, as Cluster API does.
func (s *scope) nodeReady() bool {
	if s.workload != nil {
		return s.node != nil && workload.Ready(s.node)
	}
	return conditions.IsTrue(s.machine, clusterv1.MachineNodeReadyCondition)
}

// markUpToDate says whether the machine was made from what spec says now. A machine is not changed while it is there.
func (s *scope) markUpToDate() {
	if s.machine == nil || !s.ours(s.machine) {
		conditions.Delete(s, schedulingv1.UpToDateCondition)
		return
	}
	made := s.machine.Annotations[schedulingv1.TemplateHashAnnotation]
	if made == "" || made == s.templateHash() {
		conditions.Set(s, metav1.Condition{
			Type: schedulingv1.UpToDateCondition, Status: metav1.ConditionTrue, Reason: steps.DoneReason,
		})
		return
	}
	message := "The template was changed after the machine was made; that applies when the machine is made again"
	if next := s.Status.NextActivation; next != nil {
		message = "The template was changed after the machine was made; that applies at " + next.UTC().Format(time.RFC3339)
	}
	conditions.Set(s, metav1.Condition{
		Type: schedulingv1.UpToDateCondition, Status: metav1.ConditionFalse,
		Reason: schedulingv1.TemplateChangedReason, Message: message,
	})
}

// somethingLeft says whether anything of our machine was there when we looked.
func (s *scope) somethingLeft() bool {
	return (s.machine != nil && s.ours(s.machine)) || s.node != nil ||
		slices.ContainsFunc(s.parts(), func(part *unstructured.Unstructured) bool { return s.ours(part) })
}
