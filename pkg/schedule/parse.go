// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Spec is a schedule as people write it.
type Spec struct {
	// Days are days of the week (mon) and ranges of them (mon-fri, fri-mon), both ends included.
	Days []string
	// Hours are hours of the day (9) and ranges of them (9-17), both ends included: 9-17 opens at 09:00 and closes at 18:00.
	// A range over midnight (22-6) belongs to the day on which it starts.
	Hours []string
	// Zone is an IANA time zone, such as America/New_York. Empty: UTC.
	Zone string
}

func weekdays() []string { return []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} }

// Parse understands a schedule. The error names each part that it cannot understand, and what would be right.
func Parse(spec Spec) (Schedule, error) {
	zone, zoneErr := parseZone(spec.Zone)
	days, daysText, daysErr := parseDays(spec.Days)
	hours, hoursText, hoursErr := parseHours(spec.Hours)
	if err := errors.Join(daysErr, hoursErr, zoneErr); err != nil {
		return Schedule{}, err
	}
	s := Schedule{zone: zone, text: describe(daysText, hoursText, zone)}
	for _, day := range days {
		for _, r := range hours {
			s.add(day, r)
		}
	}
	return s, nil
}

// span is a range of hours, both ends included. It goes over midnight when the last comes before the first.
type span struct{ first, last int }

func (s *Schedule) add(day int, r span) {
	count := (r.last-r.first+hoursPerDay)%hoursPerDay + 1
	for i := range count {
		hour := r.first + i
		s.on[(day+hour/hoursPerDay)%7][hour%hoursPerDay] = true
	}
}

func parseDays(texts []string) (days []int, read []string, err error) {
	if len(texts) == 0 {
		return nil, nil, errors.New("daysOfWeek is empty: name at least one day, such as mon-fri")
	}
	names := weekdays()
	for _, text := range texts {
		from, to, isRange := strings.Cut(strings.ToLower(text), "-")
		first, last := slices.Index(names, from), slices.Index(names, to)
		if !isRange {
			last = first
		}
		if first < 0 || last < 0 {
			return nil, nil, fmt.Errorf("daysOfWeek has %q: write a day such as mon, or a range such as mon-fri", text)
		}
		for i := range (last-first+7)%7 + 1 {
			days = append(days, (first+i)%7)
		}
		read = append(read, strings.ToLower(text))
	}
	return days, read, nil
}

func parseHours(texts []string) (hours []span, read []string, err error) {
	if len(texts) == 0 {
		return nil, nil, errors.New("hoursOfDay is empty: name at least one hour, such as 9-17")
	}
	for _, text := range texts {
		from, to, isRange := strings.Cut(text, "-")
		first, firstErr := parseHour(from)
		last, lastErr := parseHour(to)
		if !isRange {
			last, lastErr = first, nil
		}
		if firstErr != nil || lastErr != nil {
			return nil, nil, fmt.Errorf("hoursOfDay has %q: write an hour from 0 to 23, or a range such as 9-17, "+
				"which ends at 18:00; to midnight is 9-23", text)
		}
		hours = append(hours, span{first, last})
		read = append(read, fmt.Sprintf("%02d:00-%02d:00", first, last+1))
	}
	return hours, read, nil
}

func parseHour(text string) (int, error) {
	hour, err := strconv.ParseUint(text, 10, 8)
	if err != nil || hour >= hoursPerDay || len(text) > 2 {
		return 0, fmt.Errorf("%q is no hour", text)
	}
	return int(hour), nil
}

// parseZone refuses Local, which would be the zone of the controller's machine, and what would be read from its files.
func parseZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" || strings.HasPrefix(name, "/") {
		return nil, fmt.Errorf("timezone %q is unknown: write an IANA time zone such as America/New_York", name)
	}
	return zone, nil
}
