// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedule answers two questions about days and hours in a time zone: is it on at this moment, and when does that
// change?
//
// A schedule is on while the local wall clock shows one of its hours on one of its days. So nothing is ever computed from a
// wall-clock time, which may be missing or doubled: we look at what the clock shows, from one change of it to the next.
//   - Where the clock jumps over the start of a window, the window opens at the first moment after the gap.
//   - Where the clock repeats an hour, a window neither closes nor opens again: it shows the same hour.
//   - A window that lies wholly inside a gap is skipped.
package schedule

import (
	"strings"
	"time"
	_ "time/tzdata" // the controller's image has no zone files
)

// horizon is how far ahead we look for a change. A schedule that is neither always on nor always off changes within a week,
// and within two when its only window fell into a gap; the rest is for zones that skip a day.
const horizon = 22 * 24 * time.Hour

// hoursPerDay is a number of names on the wall clock: a day can have fewer or more hours than names.
const hoursPerDay = 24

// Schedule is when something is on. Its zero value never is.
type Schedule struct {
	on   [7][hoursPerDay]bool // by local weekday and hour
	zone *time.Location
	text string
}

// State is what a schedule is at a moment.
type State struct {
	On bool
	// Change is the next moment at which On is not what it is now. Zero: it never changes.
	Change time.Time
}

// Window is a time from Start, included, to End, excluded.
type Window struct {
	// Start is zero when the window was always open, End when it never closes.
	Start, End time.Time
}

// String is the schedule as it was understood: "mon-fri 09:00-18:00 America/New_York".
func (s Schedule) String() string { return s.text }

// At says whether the schedule is on at a moment, and when that changes.
func (s Schedule) At(now time.Time) State {
	if s.zone == nil {
		return State{}
	}
	on := s.onAt(now)
	for t := now; t.Sub(now) < horizon; {
		t = s.following(t)
		if s.onAt(t) != on {
			return State{On: on, Change: t}
		}
	}
	return State{On: on}
}

// Next returns up to n windows: the one that is open, if any, and those that follow.
func (s Schedule) Next(now time.Time, n int) []Window {
	var windows []Window
	state := s.At(now)
	start := state.Change
	if state.On {
		start = s.opened(now)
	}
	for len(windows) < n && (state.On || !state.Change.IsZero()) {
		if !state.On { // the next one opens
			start = state.Change
			state = s.At(start)
		}
		windows = append(windows, Window{Start: start, End: state.Change})
		if state.Change.IsZero() {
			break
		}
		state = s.At(state.Change)
	}
	return windows
}

// opened is when the window that is open at a moment opened.
func (s Schedule) opened(now time.Time) time.Time {
	for t := now; now.Sub(t) < horizon; {
		t = s.current(t)
		before := t.Add(-time.Nanosecond)
		if !s.onAt(before) {
			return t
		}
		t = before
	}
	return time.Time{}
}

func (s Schedule) onAt(t time.Time) bool {
	local := t.In(s.zone)
	return s.on[local.Weekday()][local.Hour()]
}

// following is the next moment at which the clock shows another hour, or may: it reaches a full hour, or is changed.
func (s Schedule) following(t time.Time) time.Time {
	local := t.In(s.zone)
	next := t.Add(time.Hour - sinceFullHour(local))
	if _, end := local.ZoneBounds(); !end.IsZero() && end.Before(next) {
		return end.In(time.UTC)
	}
	return next.In(time.UTC)
}

// current is the last moment, not after t, at which the clock began to show what it shows at t.
func (s Schedule) current(t time.Time) time.Time {
	local := t.In(s.zone)
	full := t.Add(-sinceFullHour(local))
	if start, _ := local.ZoneBounds(); !start.IsZero() && start.After(full) {
		return start.In(time.UTC)
	}
	return full.In(time.UTC)
}

func sinceFullHour(local time.Time) time.Duration {
	return time.Duration(local.Minute())*time.Minute + time.Duration(local.Second())*time.Second +
		time.Duration(local.Nanosecond())
}

// describe puts a schedule into words, in the order in which the user wrote it.
func describe(days, hours []string, zone *time.Location) string {
	return strings.Join(days, ",") + " " + strings.Join(hours, ",") + " " + zone.String()
}
