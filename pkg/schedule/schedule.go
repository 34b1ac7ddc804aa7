// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedule answers two questions about a schedule in a time zone: is it on at this moment, and when does that change?
//
// A schedule is the union of its parts, days and hours, and windows given by cron expressions, without what its exceptions take
// away. Neighbors and overlaps are one window: nothing closes and opens again at a seam.
//
// Days and hours are on while the local wall clock shows one of the hours on one of the days. Nothing is computed from a
// wall-clock time, which may be missing or doubled: we look at what the clock shows, from one change of it to the next.
//   - Where the clock jumps over the start of a window, the window opens at the first moment after the gap.
//   - Where the clock repeats an hour, a window neither closes nor opens again: it shows the same hour.
//   - A window that lies wholly inside a gap is skipped, and [Schedule.Oddities] tells of it.
package schedule

import (
	"slices"
	"time"
	_ "time/tzdata" // the controller's image has no zone files
)

// Schedule is when something is on. Its zero value never is.
type Schedule struct {
	parts      []part
	exceptions *exceptions
	zone       *time.Location
	text       string
	warnings   []string
}

// part is one source of windows. A Schedule is on while any of its parts is.
type part interface {
	on(t time.Time) bool
	// change is the first moment after t at which the part is not what it is at t. Zero: none that we can see.
	change(t time.Time) time.Time
	// since is the moment at which a part that is on at t began to be so. Zero: long ago.
	since(t time.Time) time.Time
	// plain is the part without exceptions.
	plain() part
	// oddities tells where the clock on the wall does not do what people expect, on one date.
	oddities(d date) []string
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

// Zone is the time zone of the schedule.
func (s Schedule) Zone() *time.Location {
	if s.zone == nil {
		return time.UTC
	}
	return s.zone
}

// Warnings are what is allowed in the schedule, and may not be what its author meant.
func (s Schedule) Warnings() []string { return slices.Clone(s.warnings) }

// At says whether the schedule is on at a moment, and when that changes.
func (s Schedule) At(now time.Time) State {
	on := s.On(now)
	for t := s.nextEvent(now); !t.IsZero(); t = s.nextEvent(t) {
		if s.On(t) != on {
			return State{On: on, Change: t.In(time.UTC)}
		}
	}
	return State{On: on}
}

// On says whether the schedule is on at a moment.
func (s Schedule) On(t time.Time) bool {
	return slices.ContainsFunc(s.parts, func(p part) bool { return p.on(t) })
}

// nextEvent is the first moment after t at which one of the parts changes.
func (s Schedule) nextEvent(t time.Time) time.Time {
	var next time.Time
	for _, p := range s.parts {
		if c := p.change(t); next.IsZero() || (!c.IsZero() && c.Before(next)) {
			next = c
		}
	}
	return next
}

// Next returns up to n windows: the one that is open, if any, and those that follow.
func (s Schedule) Next(now time.Time, n int) []Window {
	return s.windows(now, func(windows []Window) bool { return len(windows) < n })
}

// Between returns the windows of which a part lies between two moments.
func (s Schedule) Between(from, to time.Time) []Window {
	windows := s.windows(from, func(windows []Window) bool {
		return len(windows) == 0 || windows[len(windows)-1].Start.Before(to)
	})
	return slices.DeleteFunc(windows, func(w Window) bool { return !w.Start.Before(to) })
}

func (s Schedule) windows(now time.Time, more func([]Window) bool) []Window {
	var windows []Window
	state := s.At(now)
	start := state.Change
	if state.On {
		start = s.opened(now)
	}
	for more(windows) && (state.On || !state.Change.IsZero()) {
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

// opened is when the window that is open at a moment opened. Zero: longer ago than we look.
func (s Schedule) opened(now time.Time) time.Time {
	for t := now; s.On(t); {
		var began time.Time
		for _, p := range s.parts {
			if !p.on(t) {
				continue
			}
			since := p.since(t)
			if since.IsZero() {
				return time.Time{}
			}
			if since.After(began) {
				began = since
			}
		}
		t = began.Add(-time.Nanosecond)
		if !s.On(t) {
			return began.In(time.UTC)
		}
	}
	return time.Time{}
}

// Exception names the exception that makes the schedule other than it would be at a moment. Empty: none does.
func (s Schedule) Exception(now time.Time) string {
	plain := Schedule{}
	for _, p := range s.parts {
		plain.parts = append(plain.parts, p.plain())
	}
	if s.exceptions == nil || s.On(now) == plain.On(now) {
		return ""
	}
	today := wallOf(now, s.zone).date()
	for _, d := range []date{today, today - 1} { // a window over midnight belongs to the day before
		if e := s.exceptions.on(d); e != nil {
			return e.name
		}
	}
	return "exception" // a window of several days is missing
}

// Oddities tells, for the dates between two moments, which windows are skipped, late, shorter or longer because clocks change.
func (s Schedule) Oddities(from, to time.Time) []string {
	if s.zone == nil {
		return nil
	}
	var found []string
	for d, last := wallOf(from, s.zone).date(), wallOf(to, s.zone).date(); d <= last; d++ {
		if !clockChanges(d, s.zone) {
			continue
		}
		for _, p := range s.parts {
			found = append(found, p.oddities(d)...)
		}
	}
	return found
}
