// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/steps"
)

// report shows what is there. All of it is derived, and nothing depends on it.
func (s *scope) report() error {
	s.Status.MachineRef, s.Status.NodeRef = schedulingv1.ObjectNameReference{}, schedulingv1.ObjectNameReference{}
	if s.machine != nil && s.ours(s.machine) {
		s.Status.MachineRef.Name = s.machine.Name
		s.Status.NodeRef.Name = s.machine.Status.NodeRef.Name
	}
	s.Status.Phase = s.phase()
	s.markDeleting()
	if !s.decision.wanted && !s.decision.hold {
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
	case s.decision.wanted || s.decision.hold:
		return s.phaseOfMachine()
	case s.somethingLeft():
		return schedulingv1.PhaseShuttingDown
	}
	switch s.decision.reason {
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
	case conditions.IsTrue(s.machine, clusterv1.MachineNodeReadyCondition):
		return schedulingv1.PhaseActive
	default:
		return schedulingv1.PhaseProvisioning
	}
}

// somethingLeft says whether anything of our machine was there when we looked.
func (s *scope) somethingLeft() bool {
	return (s.machine != nil && s.ours(s.machine)) ||
		slices.ContainsFunc(s.parts(), func(part *unstructured.Unstructured) bool { return s.ours(part) })
}
