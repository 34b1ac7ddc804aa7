// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"time"
)

const (
	// hoursPerDay is a number of names on the wall clock: a day can have fewer or more hours than names.
	hoursPerDay = 24

	// horizon is how far ahead we look for a change. Hours that are neither always on nor always off change within a week,
	// and within two when their only window fell into a gap; the rest is for zones that skip a day.
	horizon = 22 * 24 * time.Hour

	// maxHorizon is how far ahead we look at most where exceptions may take every window away.
	maxHorizon = 2 * 366 * 24 * time.Hour
)

// span is a range of hours, both ends included. It goes over midnight when the last comes before the first.
type span struct{ first, last int }

func (s span) wraps() bool { return s.last < s.first }

// length is the number of hours.
func (s span) length() int { return (s.last-s.first+hoursPerDay)%hoursPerDay + 1 }

// weekly is on in hours of days of the week. What an exception says of a date stands instead of the day's own hours. Hours over
// midnight belong to the date on which they start.
type weekly struct {
	hours      [7][]span // by weekday
	exceptions *exceptions
	zone       *time.Location
}

// of are the hours that start on a date.
func (w weekly) of(d date) []span {
	if e := w.exceptions.on(d); e != nil {
		return e.hours
	}
	return w.hours[d.weekday()]
}

func (w weekly) on(t time.Time) bool {
	now := wallOf(t, w.zone)
	today, hour := now.date(), now.hour()
	for _, s := range w.of(today) {
		if s.first <= hour && (hour <= s.last || s.wraps()) {
			return true
		}
	}
	for _, s := range w.of(today - 1) {
		if s.wraps() && hour <= s.last {
			return true
		}
	}
	return false
}

func (w weekly) change(t time.Time) time.Time {
	on := w.on(t)
	end := t.Add(horizon)
	if last := w.exceptions.last(); last > 0 {
		after := last.utc().Add(horizon)
		if after.After(end) {
			end = after
		}
		if latest := t.Add(maxHorizon); end.After(latest) {
			end = latest
		}
	}
	for next := w.following(t); next.Before(end); next = w.following(next) {
		if w.on(next) != on {
			return next
		}
	}
	return time.Time{}
}

func (w weekly) since(t time.Time) time.Time {
	for earliest := t.Add(-horizon); t.After(earliest); {
		began := w.current(t)
		t = began.Add(-time.Nanosecond)
		if !w.on(t) {
			return began
		}
	}
	return time.Time{}
}

// following is the next moment at which the clock shows another hour, or may: it reaches a full hour, or is changed.
func (w weekly) following(t time.Time) time.Time {
	local := t.In(w.zone)
	next := t.Add(time.Hour - sinceFullHour(local))
	if _, end := local.ZoneBounds(); !end.IsZero() && end.Before(next) {
		return end
	}
	return next
}

// current is the last moment, not after t, at which the clock began to show what it shows at t.
func (w weekly) current(t time.Time) time.Time {
	local := t.In(w.zone)
	full := t.Add(-sinceFullHour(local))
	if start, _ := local.ZoneBounds(); !start.IsZero() && start.After(full) {
		return start
	}
	return full
}

func sinceFullHour(local time.Time) time.Duration {
	return time.Duration(local.Minute())*time.Minute + time.Duration(local.Second())*time.Second +
		time.Duration(local.Nanosecond())
}

func (w weekly) plain() part {
	w.exceptions = nil
	return w
}

func (w weekly) oddities(d date) []string {
	var found []string
	for _, s := range w.of(d) {
		from, to := d.at(s.first, 0), d.at(s.first+s.length(), 0)
		opens, closes := first(from, w.zone), first(to, w.zone)
		meant, lasts := time.Duration(s.length())*time.Hour, closes.Sub(opens)
		name := fmt.Sprintf("%s %s-%02d:00", d, from, s.last+1)
		switch {
		case lasts == 0:
			found = append(found, name+" is skipped: the clock jumps over it")
		case missing(from, w.zone):
			found = append(found, fmt.Sprintf("%s opens at %s: the clock jumps over %s", name, wallOf(opens, w.zone), from))
		case lasts != meant:
			found = append(found, fmt.Sprintf("%s lasts %s instead of %s: the clock is changed meanwhile", name, short(lasts), short(meant)))
		}
	}
	return found
}

// short writes 9h, 1h30m.
func short(d time.Duration) string {
	text := fmt.Sprintf("%dh", d/time.Hour)
	if minutes := d % time.Hour / time.Minute; minutes != 0 {
		text += fmt.Sprintf("%dm", minutes)
	}
	return text
}
