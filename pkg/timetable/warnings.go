// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package timetable

import (
	"fmt"
	"time"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/schedule"
)

// gapsAhead is how far we look for gaps between windows: they come again every week, and looking at all of a year would take
// seconds where crons fire often.
const gapsAhead = 14 * 24 * time.Hour

// DefaultNodeDrainTimeout is what an unset spec.nodeDrainTimeout means.
const DefaultNodeDrainTimeout = 5 * time.Minute

// Grace is how long a Node keeps its pods after the close of a window, and Drain how long their eviction may take.
func Grace(m *schedulingv1.ScheduledMachine) time.Duration {
	if m.Spec.GracefulShutdownTimeout == nil {
		return 0
	}
	return m.Spec.GracefulShutdownTimeout.Duration
}

// Drain is how long the eviction of a Node's pods may take.
func Drain(m *schedulingv1.ScheduledMachine) time.Duration {
	if m.Spec.NodeDrainTimeout == nil {
		return DefaultNodeDrainTimeout
	}
	return m.Spec.NodeDrainTimeout.Duration
}

// Warnings tell what is allowed in a ScheduledMachine and may surprise its author, between two moments.
func (t *Timetable) Warnings(m *schedulingv1.ScheduledMachine, from, to time.Time) []string {
	warnings := t.Schedule.Warnings()
	state := t.Schedule.At(from)
	switch {
	case state.Change.IsZero() && state.On:
		warnings = append(warnings, "the schedule is always on")
	case state.Change.IsZero():
		warnings = append(warnings, "the schedule is never on")
	}
	warnings = append(warnings, t.Schedule.Oddities(from, to)...)
	if limit := from.Add(gapsAhead); to.After(limit) {
		to = limit
	}
	if w := t.shortGap(t.Schedule.Between(from, to), Grace(m)+Drain(m)); w != "" {
		warnings = append(warnings, w)
	}
	if t.Override.Ended(from) {
		warnings = append(warnings, "the override has ended: "+t.Override.String())
	}
	return warnings
}

// shortGap tells of the first gap between two windows in which a Node cannot go.
func (t *Timetable) shortGap(windows []schedule.Window, leaving time.Duration) string {
	for i := 1; i < len(windows); i++ {
		closes, opens := windows[i-1].End, windows[i].Start
		if gap := opens.Add(-t.LeadTime).Sub(closes); gap < leaving {
			return fmt.Sprintf("the gap from %s to %s is shorter than gracefulShutdownTimeout, nodeDrainTimeout and leadTime take "+
				"together: the Node may stay", t.local(closes), t.local(opens))
		}
	}
	return ""
}

func (t *Timetable) local(at time.Time) string {
	return at.In(t.Schedule.Zone()).Format("Mon 2006-01-02 15:04")
}
