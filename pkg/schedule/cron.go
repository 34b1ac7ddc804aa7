// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

const (
	// cronHorizon is how far we look for a fire, in days: the longest time between two 29ths of February is eight years.
	cronHorizon = 9 * 366

	// maxFires is how many fires in a row we look at for one that changes something.
	maxFires = 5000

	// maxDuration bounds the duration of a window.
	maxDuration = 31 * 24 * time.Hour
)

// fires are the moments of a cron expression. A wall-clock time that is there twice fires once, at its first moment; one that is
// missing fires at the first moment after the gap, where robfig/cron would leave it out. The library reads the expression, and
// what follows from it is found here.
type fires struct {
	*cron.SpecSchedule
	minutes []int // of the day
	zone    *time.Location
	text    string
}

// star is the bit with which robfig/cron marks a field that was written as *.
const star = 1 << 63

func parseCron(text string, zone *time.Location) (f *fires, err error) {
	if strings.Contains(text, "=") || strings.HasPrefix(text, "@") {
		return nil, errors.New("write five fields such as 0 9 * * 1-5; the time zone is schedule.timezone")
	}
	defer func() {
		if r := recover(); r != nil { // the library panics where it should refuse
			f, err = nil, errors.New("it is no cron expression")
		}
	}()
	parsed, err := cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(text)
	if err != nil {
		return nil, err
	}
	s, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, errors.New("write five fields such as 0 9 * * 1-5")
	}
	f = &fires{SpecSchedule: s, zone: zone, text: strings.Join(strings.Fields(text), " ")}
	for minute := range 24 * 60 {
		if f.Hour&(1<<uint(minute/60)) != 0 && f.Minute&(1<<uint(minute%60)) != 0 {
			f.minutes = append(f.minutes, minute)
		}
	}
	for d := range date(cronHorizon) {
		if f.onDate(d) {
			return f, nil
		}
	}
	return nil, errors.New("there is no such date, and so it never fires")
}

// same says whether two expressions mean the same.
func (f *fires) same(g *fires) bool {
	return f.Minute == g.Minute && f.Hour == g.Hour && f.Dom == g.Dom && f.Month == g.Month && f.Dow == g.Dow
}

// onDate follows crontab(5): where both the day of the month and the weekday are given, one of them is enough.
func (f *fires) onDate(d date) bool {
	day := d.utc()
	if f.Month&(1<<uint(day.Month())) == 0 {
		return false
	}
	dom, dow := f.Dom&(1<<uint(day.Day())) != 0, f.Dow&(1<<uint(day.Weekday())) != 0
	if f.Dom&star != 0 || f.Dow&star != 0 {
		return dom && dow
	}
	return dom || dow
}

// fire is one fire of a cron expression.
type fire struct {
	wall wall
	at   time.Time
}

// next is the first fire after a moment, and the zero fire where there is none. All that the clock has shown already, or jumped over, has fired.
func (f *fires) next(t time.Time, skip func(date) bool) fire {
	shows := wallOf(t, f.zone)
	for d := shows.date(); d < shows.date()+cronHorizon; d++ {
		if !f.onDate(d) || skip(d) {
			continue
		}
		for _, minute := range f.minutes {
			w := d.at(0, minute)
			if w <= shows {
				continue
			}
			if at := first(w, f.zone); at.After(t) {
				return fire{w, at}
			}
		}
	}
	return fire{}
}

// last is the last fire that is not after a moment.
func (f *fires) last(t time.Time, skip func(date) bool) (fire, bool) {
	latest := wallOf(t, f.zone)
	if began, _ := t.In(f.zone).ZoneBounds(); t.Sub(began) < maxOffset { // it may have shown more before it was set back
		latest += wall(maxOffset / time.Second)
	}
	for d := latest.date(); d > latest.date()-cronHorizon; d-- {
		if !f.onDate(d) || skip(d) {
			continue
		}
		for _, minute := range slices.Backward(f.minutes) {
			w := d.at(0, minute)
			if w > latest {
				continue
			}
			if at := first(w, f.zone); !at.After(t) {
				return fire{w, at}, true
			}
		}
	}
	return fire{}, false
}

// cronWindows are windows that open at the fires of one expression, and close at those of another or after a duration. They
// are a level, not an edge: what opened last counts, at whatever moment somebody looks. An exception takes away the windows
// that start on its dates.
type cronWindows struct {
	start      *fires
	stop       *fires // nil: duration
	duration   time.Duration
	exceptions *exceptions
}

func (c cronWindows) skip(d date) bool { return c.exceptions.on(d) != nil }

func never(date) bool { return false }

func (c cronWindows) on(t time.Time) bool {
	opened, ok := c.start.last(t, c.skip)
	if !ok {
		return false
	}
	if c.stop == nil {
		return t.Before(opened.at.Add(c.duration))
	}
	// The clock on the wall decides, not the moment: a start and a stop in the same gap fire at the same moment.
	closed, ok := c.stop.last(t, never)
	return !ok || opened.wall >= closed.wall
}

func (c cronWindows) change(t time.Time) time.Time {
	on := c.on(t)
	for range maxFires {
		if t = c.candidate(t, on); t.IsZero() || c.on(t) != on {
			return t
		}
	}
	return time.Time{}
}

// candidate is the next moment at which windows that are on may close, or those that are off may open.
func (c cronWindows) candidate(t time.Time, on bool) time.Time {
	switch {
	case !on:
		next := c.start.next(t, c.skip)
		return next.at
	case c.stop != nil:
		next := c.stop.next(t, never)
		return next.at
	}
	opened, _ := c.start.last(t, c.skip)
	end := opened.at.Add(c.duration)
	if end.After(t) {
		return end
	}
	return time.Time{}
}

func (c cronWindows) since(t time.Time) time.Time {
	for range maxFires {
		opened, ok := c.start.last(t, c.skip)
		if !ok {
			return time.Time{}
		}
		t = opened.at.Add(-time.Nanosecond)
		if !c.on(t) {
			return opened.at
		}
	}
	return time.Time{}
}

func (c cronWindows) plain() part {
	c.exceptions = nil
	return c
}

func (c cronWindows) oddities(d date) []string {
	if !c.start.onDate(d) || c.skip(d) {
		return nil
	}
	var found []string
	for _, minute := range c.start.minutes {
		w := d.at(0, minute)
		if !missing(w, c.start.zone) {
			continue
		}
		if at := first(w, c.start.zone); c.on(at) {
			found = append(found, fmt.Sprintf("%s %s opens at %s: the clock jumps over %s", d, w, wallOf(at, c.start.zone), w))
		} else {
			found = append(found, fmt.Sprintf("%s %s is skipped: the clock jumps over it", d, w))
		}
	}
	return found
}
