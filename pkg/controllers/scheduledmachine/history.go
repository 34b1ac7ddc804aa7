// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduledmachine

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/schedule"
)

const (
	// maxWindows is how many windows status remembers.
	maxWindows = 10

	// lateFrom is from when on an opening is called late.
	lateFrom = time.Minute
)

// keepHistory records the opening and the close of a window. Was is the Scheduled condition so far; nil before there was one.
func (c *Controller) keepHistory(s *scope, was *metav1.Condition) {
	switch {
	case s.decision.hold:
	case s.decision.Wanted && s.opened():
		c.reportMissed(s, was)
		c.open(s, was)
	case s.decision.Wanted:
		s.lastWindow().ClosedTime = nil
		if end := s.plannedEnd(); s.lastWindow().End == nil || !end.IsZero() {
			s.lastWindow().End = moment(end)
		}
	case s.openWindow() != nil:
		c.close(s)
	default:
		c.reportMissed(s, was)
	}
}

// opened says whether a window begins now. One that closed and whose machine is not being deleted yet goes on.
func (s *scope) opened() bool {
	last := s.lastWindow()
	if last == nil {
		return true
	}
	goesOn := s.machine != nil && s.machine.DeletionTimestamp.IsZero() && s.ours(s.machine)
	return last.ClosedTime != nil && !goesOn
}

func (c *Controller) open(s *scope, was *metav1.Condition) {
	window := schedulingv1.WindowStatus{OpenedTime: moment(s.now)}
	if end := s.plannedEnd(); !end.IsZero() {
		window.End = moment(end)
	}
	planned := s.now
	if next := s.table.Schedule.Next(s.now, 1); len(next) > 0 && s.decision.By != schedulingv1.DecidedByOverride {
		window.Start = moment(next[0].Start)
		planned = next[0].Start.Add(-s.table.LeadTime)
	}
	s.Status.Windows = slices.Insert(s.Status.Windows, 0, window)
	s.Status.Windows = s.Status.Windows[:min(len(s.Status.Windows), maxWindows)]
	s.Status.LastScheduledTime = moment(s.now)
	s.Status.Shutdown = schedulingv1.ShutdownStatus{}
	if late := s.now.Sub(planned); s.waitedForWindow(was) {
		openLateness.Observe(max(late, 0).Seconds())
		if late >= lateFrom {
			c.openedLate(s.ScheduledMachine, late)
		}
	}
}

// close records that the machine is not wanted any more, and since when: the grace period counts from there.
func (c *Controller) close(s *scope) {
	window := s.openWindow()
	closed := s.now
	if end := window.End; end != nil && !end.After(s.now) && s.Status.ObservedGeneration == s.Generation && s.closesByItself() {
		closed = end.Time
		closeLateness.Observe(s.now.Sub(end.Time).Seconds())
	}
	window.ClosedTime = moment(s.now)
	s.Status.Shutdown = schedulingv1.ShutdownStatus{StartTime: moment(closed)}
}

func (s *scope) closesByItself() bool {
	return s.decision.Reason == schedulingv1.WindowClosedReason || s.decision.Reason == schedulingv1.OverrideReason
}

// waitedForWindow says whether all that was missing for the machine was that its window opens.
func (s *scope) waitedForWindow(was *metav1.Condition) bool {
	return was != nil && was.Status == metav1.ConditionFalse && was.Reason == schedulingv1.WindowClosedReason &&
		s.Status.ObservedGeneration == s.Generation
}

// reportMissed tells of windows that came and went while nobody was there to open them.
func (c *Controller) reportMissed(s *scope, was *metav1.Condition) {
	if !s.waitedForWindow(was) || len(s.Status.NextWindows) == 0 {
		return
	}
	first := s.Status.NextWindows[0]
	if first.Start == nil || first.End == nil || first.End.After(s.now) {
		return
	}
	missed := slices.DeleteFunc(s.table.Schedule.Between(first.Start.Time, s.now), func(w schedule.Window) bool {
		return w.End.IsZero() || w.End.After(s.now)
	})
	if len(missed) > 0 {
		missedWindows.Add(float64(len(missed)))
		c.missedWindows(s.ScheduledMachine, len(missed), missed[0].Start, missed[len(missed)-1].End)
	}
}

// plannedEnd is when the machine is to be wanted no more. Zero: never.
func (s *scope) plannedEnd() time.Time {
	if s.decision.Reason == schedulingv1.JustOpenedReason && s.lastWindow() != nil && s.lastWindow().End != nil {
		return s.lastWindow().End.Time
	}
	return s.decision.Change
}

// lastWindow is the latest window on record, open or closed.
func (s *scope) lastWindow() *schedulingv1.WindowStatus {
	if len(s.Status.Windows) == 0 {
		return nil
	}
	return &s.Status.Windows[0]
}

// openWindow is the window on record that is open.
func (s *scope) openWindow() *schedulingv1.WindowStatus {
	if last := s.lastWindow(); last != nil && last.ClosedTime == nil {
		return last
	}
	return nil
}

// recordCreated records that the window has its Machine.
func (s *scope) recordCreated() {
	if w := s.openWindow(); w != nil {
		w.CreatedTime, w.ReadyTime = moment(s.now), nil
	}
}

// recordReady records that the window has its Node.
func (s *scope) recordReady() {
	w := s.openWindow()
	if w == nil || w.ReadyTime != nil {
		return
	}
	w.ReadyTime = moment(s.now)
	if w.CreatedTime != nil {
		openingToReady.Observe(s.now.Sub(w.CreatedTime.Time).Seconds())
	}
}

// recordFailure records that a machine was given up.
func (s *scope) recordFailure() {
	if w := s.openWindow(); w != nil {
		w.Failures++
		w.LastFailureTime = moment(s.now)
	}
}

// recordGone records that all of the machine is gone.
func (s *scope) recordGone() {
	if w := s.lastWindow(); w != nil && w.ClosedTime != nil && w.GoneTime == nil {
		w.GoneTime = moment(s.now)
	}
	s.Status.Shutdown = schedulingv1.ShutdownStatus{}
	s.Status.ProviderID = ""
}
