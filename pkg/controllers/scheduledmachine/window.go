// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/steps"
)

// maxSleep is how long we sleep at most, however far away the next change is: the clock may be set, and the rules of a time
// zone may change with the next version.
const maxSleep = time.Hour

// decision is whether a machine is wanted at this moment, and why.
type decision struct {
	wanted bool
	// hold says that we cannot know what is wanted, and leave what is there as it is.
	hold            bool
	reason, message string
}

// decide decides what is wanted, and tells of it when that changed. What stands first wins.
func (c *Controller) decide(s *scope) {
	s.decision = s.decideNow()
	s.markSchedule()
	was := conditions.Get(s, schedulingv1.ScheduledCondition).DeepCopy() // it points into what is about to change
	is := metav1.Condition{
		Type: schedulingv1.ScheduledCondition, Status: conditions.BoolToStatus(s.decision.wanted),
		Reason: s.decision.reason, Message: s.decision.message,
	}
	conditions.Set(s, is)
	c.decided(s.ScheduledMachine, was, is)
}

func (s *scope) decideNow() decision {
	enabled := s.Spec.Schedule.Enabled
	switch {
	case s.Spec.KillSwitch:
		return decision{reason: schedulingv1.KillSwitchReason, message: "spec.killSwitch is true"}
	case !s.DeletionTimestamp.IsZero():
		return decision{reason: schedulingv1.DeletingReason, message: "The ScheduledMachine is being deleted"}
	case s.cluster == nil:
		return decision{
			reason:  schedulingv1.ClusterNotFoundReason,
			message: fmt.Sprintf("Cluster %s does not exist in namespace %s; create it", s.Spec.ClusterName, s.Namespace),
		}
	case !s.cluster.DeletionTimestamp.IsZero():
		return decision{
			reason:  schedulingv1.ClusterDeletingReason,
			message: fmt.Sprintf("Cluster %s is being deleted", s.Spec.ClusterName),
		}
	case enabled != nil && !*enabled:
		return decision{reason: schedulingv1.DisabledReason, message: "spec.schedule.enabled is false"}
	case s.scheduleErr != nil:
		return decision{hold: true, reason: schedulingv1.InvalidScheduleReason, message: s.scheduleErr.Error()}
	case s.schedule.At(s.now).On:
		return decision{wanted: true, reason: schedulingv1.WindowOpenReason}
	default:
		return decision{reason: schedulingv1.WindowClosedReason}
	}
}

// markSchedule shows the schedule as it was understood, and when it changes.
func (s *scope) markSchedule() {
	if s.scheduleErr != nil {
		conditions.Set(s, metav1.Condition{
			Type: schedulingv1.ScheduleValidCondition, Status: metav1.ConditionFalse,
			Reason: schedulingv1.InvalidScheduleReason, Message: s.scheduleErr.Error(),
		})
		s.Status.InSchedule, s.Status.NextActivation, s.Status.NextCleanup = nil, nil, nil
		return
	}
	conditions.Set(s, metav1.Condition{
		Type: schedulingv1.ScheduleValidCondition, Status: metav1.ConditionTrue, Reason: steps.DoneReason,
	})
	on := s.schedule.At(s.now).On
	windows := s.schedule.Next(s.now, 2)
	s.Status.Schedule = s.schedule.String()
	s.Status.InSchedule = &on
	s.Status.NextActivation, s.Status.NextCleanup = nil, nil
	for i, w := range windows {
		if i == 0 {
			s.Status.NextCleanup = moment(w.End)
		}
		if w.Start.After(s.now) && s.Status.NextActivation == nil {
			s.Status.NextActivation = moment(w.Start)
		}
	}
}

func moment(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}

// wakeAtNextChange makes sure that we come back when the schedule changes. A timer that fires too early does no harm: the
// schedule is as it was, and we sleep for what is left.
func (s *scope) wakeAtNextChange(result ctrl.Result) ctrl.Result {
	sleep := maxSleep
	if change := s.schedule.At(s.now).Change; !change.IsZero() {
		sleep = min(sleep, change.Sub(s.now))
	}
	if result.RequeueAfter == 0 || sleep < result.RequeueAfter {
		result.RequeueAfter = sleep
	}
	return result
}
