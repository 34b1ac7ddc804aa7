// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"fmt"
	"time"
)

const (
	secondsPerHour = 60 * 60
	secondsPerDay  = 24 * secondsPerHour

	// maxOffset is more than any zone is, or was, away from UTC.
	maxOffset = 26 * time.Hour
)

// wall is what a clock on the wall shows: seconds since it showed 1970-01-01 00:00, if it had never been changed. It is no
// moment: a wall may be shown never, once or twice.
type wall int64

// date is a day of the calendar: days since 1970-01-01.
type date int64

func wallOf(t time.Time, zone *time.Location) wall {
	_, offset := t.In(zone).Zone()
	return wall(t.Unix() + int64(offset))
}

func (w wall) date() date {
	d := int64(w) / secondsPerDay
	if int64(w) < d*secondsPerDay {
		d--
	}
	return date(d)
}

func (w wall) hour() int { return int(int64(w)-int64(w.date())*secondsPerDay) / secondsPerHour }

// String is the time of the day: 09:30.
func (w wall) String() string {
	minutes := (int64(w) - int64(w.date())*secondsPerDay) / 60
	return fmt.Sprintf("%02d:%02d", minutes/60, minutes%60)
}

func (d date) at(hour, minute int) wall {
	return wall(int64(d)*secondsPerDay + int64(hour)*secondsPerHour + int64(minute)*60)
}

func (d date) weekday() time.Weekday { return d.utc().Weekday() }

// utc is the day's begin in UTC, where no day is odd: good for the calendar, not for a moment.
func (d date) utc() time.Time { return time.Unix(int64(d)*secondsPerDay, 0).UTC() }

// String is the date with its weekday: Sun 2026-03-08.
func (d date) String() string { return d.utc().Format("Mon 2006-01-02") }

func parseDate(text string) (date, error) {
	t, err := time.Parse(time.DateOnly, text)
	return wall(t.Unix()).date(), err
}

// first is the first moment at which the clock shows w, or, where it jumps over w, the first moment after the gap. Of two
// walls, the later one never comes first.
func first(w wall, zone *time.Location) time.Time {
	begin := time.Unix(int64(w), 0).Add(-maxOffset)
	for t := begin; ; {
		_, offset := t.In(zone).Zone()
		_, end := t.In(zone).ZoneBounds()
		moment := time.Unix(int64(w)-int64(offset), 0)
		if end.IsZero() || moment.Before(end) {
			if moment.Before(t) { // it was jumped over at t
				return t.In(time.UTC)
			}
			return moment.In(time.UTC)
		}
		t = end
	}
}

// missing says whether the clock never shows w.
func missing(w wall, zone *time.Location) bool { return wallOf(first(w, zone), zone) != w }

// clockChanges says whether the clock is changed on a date, or in the night after it.
func clockChanges(d date, zone *time.Location) bool {
	from := first(d.at(0, 0), zone)
	_, end := from.Add(-time.Nanosecond).In(zone).ZoneBounds()
	return !end.IsZero() && end.Before(from.Add(2*24*time.Hour))
}
