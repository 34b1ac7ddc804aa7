// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"errors"
	"fmt"
	"strings"
)

// maxRange bounds the days of a range of dates.
const maxRange = 10 * 366

// exceptions are what is different on some dates. Of several that name a date, the first one counts.
type exceptions struct {
	list  []exception
	until date
}

type exception struct {
	name  string
	days  map[date]bool
	hours []span // none: closed
}

// on is the exception for a date, and nil when there is none.
func (e *exceptions) on(d date) *exception {
	if e == nil {
		return nil
	}
	for i := range e.list {
		if e.list[i].days[d] {
			return &e.list[i]
		}
	}
	return nil
}

// last is the last date that any of them names, and 0 when there is none.
func (e *exceptions) last() date {
	if e == nil {
		return 0
	}
	return e.until
}

func parseExceptions(specs []Exception) (found *exceptions, warnings []string, err error) {
	if len(specs) == 0 {
		return nil, nil, nil
	}
	found = &exceptions{}
	var problems []error
	for i, spec := range specs {
		e, w, err := parseException(spec)
		if err != nil {
			problems = append(problems, fmt.Errorf("exceptions[%d]: %w", i, err))
			continue
		}
		for d := range e.days {
			found.until = max(found.until, d)
		}
		found.list = append(found.list, e)
		warnings = append(warnings, w...)
	}
	return found, warnings, errors.Join(problems...)
}

func parseException(spec Exception) (e exception, warnings []string, err error) {
	e = exception{name: spec.Name, days: map[date]bool{}}
	if err := spec.check(); err != nil {
		return e, nil, err
	}
	if len(spec.Hours) > 0 {
		if e.hours, _, err = parseHours(spec.Hours); err != nil {
			return e, nil, err
		}
	}
	for _, text := range spec.Dates {
		from, to, err := parseRange(text)
		if err != nil {
			return e, nil, err
		}
		for d := from; d <= to; d++ {
			e.days[d] = true
		}
	}
	if spec.FromCalendar {
		days, w, err := parseCalendar(spec.Calendar)
		if err != nil {
			return e, nil, fmt.Errorf("the calendar: %w", err)
		}
		for _, d := range days {
			e.days[d] = true
		}
		warnings = w
	}
	if e.name == "" {
		e.name = strings.Join(spec.Dates, ",")
	}
	return e, warnings, nil
}

// check says what does not fit together.
func (spec Exception) check() error {
	switch {
	case len(spec.Dates) == 0 && !spec.FromCalendar:
		return errors.New("it names no day: give dates, such as 2026-12-24, or a calendar")
	case spec.Closed && len(spec.Hours) > 0:
		return errors.New("it is closed and has hoursOfDay: give one of the two")
	case !spec.Closed && len(spec.Hours) == 0:
		return errors.New("say closed: true, or give hoursOfDay")
	}
	return nil
}

func parseRange(text string) (from, to date, err error) {
	begin, end, isRange := strings.Cut(text, "/")
	from, err = parseDate(begin)
	to = from
	if err == nil && isRange {
		to, err = parseDate(end)
	}
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("dates has %q: write a date such as 2026-12-24, or a range such as 2026-12-24/2027-01-01, which includes both", text)
	case to < from:
		return 0, 0, fmt.Errorf("dates has %q: its end comes before its begin", text)
	case to-from > maxRange:
		return 0, 0, fmt.Errorf("dates has %q: that is more than ten years", text)
	}
	return from, to, nil
}
