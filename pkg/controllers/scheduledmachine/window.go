// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/steps"
	"github.com/finos/caplv/pkg/timetable"
)

const (
	// maxSleep is how long we sleep at most, however far away the next change is: the clock may be set, and the rules of a
	// time zone may change with the next version.
	maxSleep = time.Hour

	// wakeAfter is how long after a change we wake: a timer that fires a little early must not find all as it was.
	wakeAfter = 100 * time.Millisecond

	// minOpen is how long a window stays open at least, once it was opened by the schedule: a clock that is being set must not
	// close it at once.
	minOpen = time.Minute

	// maxStep is how far a clock may have been set back for minOpen to count still.
	maxStep = time.Hour
)

// decision is whether a machine is wanted at this moment, and why.
type decision struct {
	timetable.Decision
	// hold says that we cannot know what is wanted, and leave what is there as it is.
	hold bool
}

// decide decides what is wanted, and tells of it when that changed. What stands first wins.
func (c *Controller) decide(s *scope) {
	s.decision = s.decideNow()
	was := conditions.Get(s, schedulingv1.ScheduledCondition).DeepCopy() // it points into what is about to change
	c.keepHistory(s, was)
	s.markSchedule()
	is := metav1.Condition{
		Type: schedulingv1.ScheduledCondition, Status: conditions.BoolToStatus(s.decision.Wanted),
		Reason: s.decision.Reason, Message: s.decision.Message,
	}
	if s.decision.hold {
		is.Status = metav1.ConditionUnknown
	}
	conditions.Set(s, is)
	c.decided(s.ScheduledMachine, was, is)
	c.endOverride(s)
	s.Status.ObservedGeneration = s.Generation
}

func (s *scope) decideNow() decision {
	because := func(by schedulingv1.Decider, reason, format string, args ...any) decision {
		return decision{Decision: timetable.Decision{By: by, Reason: reason, Message: fmt.Sprintf(format, args...)}}
	}
	switch {
	case s.table.Killed():
		return decision{Decision: s.table.Decide(s.now)}
	case !s.DeletionTimestamp.IsZero():
		return because(schedulingv1.DecidedByDeletion, schedulingv1.DeletingReason, "The ScheduledMachine is being deleted")
	case s.cluster == nil:
		return because(schedulingv1.DecidedByCluster, schedulingv1.ClusterNotFoundReason,
			"Cluster %s does not exist in namespace %s; create it", s.Spec.ClusterName, s.Namespace)
	case !s.cluster.DeletionTimestamp.IsZero():
		return because(schedulingv1.DecidedByCluster, schedulingv1.ClusterDeletingReason,
			"Cluster %s is being deleted", s.Spec.ClusterName)
	case s.specErr != nil:
		held := because("", s.invalidReason(), "%s", s.specErr)
		held.hold = true
		return held
	}
	d := decision{Decision: s.table.Decide(s.now)}
	if end := s.justOpened(d); !end.IsZero() {
		d.Wanted, d.Reason, d.Change = true, schedulingv1.JustOpenedReason, end
		d.Message = "The window opened less than a minute ago and stays open until then"
	}
	return d
}

// justOpened says until when a window stays open that opened a moment ago and that nobody but the clock wants to close.
func (s *scope) justOpened(d decision) time.Time {
	byClock := d.By == schedulingv1.DecidedBySchedule || d.By == schedulingv1.DecidedByException
	if d.Wanted || !byClock || d.Reason == schedulingv1.DisabledReason || s.Status.ObservedGeneration != s.Generation ||
		s.Status.DecidedBy != schedulingv1.DecidedBySchedule {
		return time.Time{}
	}
	open := s.openWindow()
	if open == nil || open.OpenedTime == nil || open.Start == nil {
		return time.Time{}
	}
	ago := s.now.Sub(open.OpenedTime.Time)
	if ago < -maxStep || ago >= minOpen {
		return time.Time{}
	}
	return open.OpenedTime.Add(minOpen)
}

func (s *scope) invalidReason() string {
	switch {
	case errors.Is(s.specErr, timetable.ErrCalendar):
		return schedulingv1.CalendarNotFoundReason
	case s.table.Schedule.String() == "":
		return schedulingv1.InvalidScheduleReason
	default:
		return schedulingv1.InvalidSpecReason
	}
}

// markSchedule shows the schedule as it was understood, and when it changes.
func (s *scope) markSchedule() {
	s.Status.DecidedBy = s.decision.By
	s.Status.NextChange = moment(s.decision.Change)
	s.Status.NextActivation, s.Status.NextCleanup, s.Status.NextWindows = nil, nil, nil
	s.Status.InSchedule, s.Status.LeadTimeSeconds = nil, nil
	if s.specErr != nil {
		conditions.Set(s, metav1.Condition{
			Type: schedulingv1.ScheduleValidCondition, Status: metav1.ConditionFalse,
			Reason: s.invalidReason(), Message: s.specErr.Error(),
		})
		return
	}
	conditions.Set(s, metav1.Condition{
		Type: schedulingv1.ScheduleValidCondition, Status: metav1.ConditionTrue, Reason: steps.DoneReason,
	})
	s.Status.Schedule = s.table.Schedule.String()
	s.Status.InSchedule = new(s.table.Schedule.On(s.now))
	if s.Spec.LeadTime != "" {
		s.Status.LeadTimeSeconds = seconds(s.table.LeadTime)
	}
	s.markWindows()
	s.Status.Override = schedulingv1.OverrideStatus{}
	if o := s.table.Override; o != nil {
		s.Status.Override = schedulingv1.OverrideStatus{Request: o.Request, Until: moment(o.Until)}
	}
}

func (s *scope) markWindows() {
	for i, w := range s.table.Schedule.Next(s.now, 3) {
		if i == 0 {
			s.Status.NextCleanup = moment(w.End)
		}
		if w.Start.After(s.now) && s.Status.NextActivation == nil {
			s.Status.NextActivation = moment(w.Start)
		}
		s.Status.NextWindows = append(s.Status.NextWindows, schedulingv1.TimeRange{Start: moment(w.Start), End: moment(w.End)})
	}
}

// endOverride takes away the annotation of an override whose time is over.
func (c *Controller) endOverride(s *scope) {
	o := s.table.Override
	if !o.Ended(s.now) || !o.FromAnnotation {
		return
	}
	delete(s.Annotations, schedulingv1.OverrideAnnotation)
	s.Status.Override = schedulingv1.OverrideStatus{}
	c.overrideEnded(s.ScheduledMachine, o)
}

func moment(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}

// wakeAtNextChange makes sure that we come back when what is wanted changes. A timer that fires too early does no harm: all is
// as it was, and we sleep for what is left.
func (s *scope) wakeAtNextChange(result ctrl.Result) ctrl.Result {
	sleep := maxSleep
	for _, change := range []time.Time{s.decision.Change, s.table.Schedule.At(s.now).Change} {
		if change.After(s.now) {
			sleep = min(sleep, change.Sub(s.now)+wakeAfter)
		}
	}
	if !s.DeletionTimestamp.IsZero() && len(s.Finalizers) == 0 {
		return ctrl.Result{}
	}
	if result.RequeueAfter == 0 || sleep < result.RequeueAfter {
		result.RequeueAfter = sleep
	}
	return result
}
