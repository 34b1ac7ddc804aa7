// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	ics "github.com/arran4/golang-ical"
	"github.com/teambition/rrule-go"
)

const (
	// maxCalendar is as much as fits into a ConfigMap.
	maxCalendar = 1 << 20
	// maxDays bounds how many days a calendar may name. Repetition without an end goes on until the end of lastYear.
	maxDays  = 20_000
	lastYear = 2099
	// maxRules bounds how many events repeat: one rule may take the library a fifth of a second.
	maxRules = 250

	icsDate = "20060102"
)

// parseCalendar finds the days that an iCalendar file (RFC 5545) names: those of its all-day events, with their repetitions.
// Events with a time of the day, and canceled ones, name no day.
func parseCalendar(text []byte) (days []date, warnings []string, err error) {
	defer func() {
		if r := recover(); r != nil { // a file that trips the library is no calendar
			days, warnings, err = nil, nil, errors.New("it is no iCalendar file")
		}
	}()
	calendar, err := openCalendar(text)
	if err != nil {
		return nil, nil, err
	}
	moved := overridden(calendar)
	timed := 0
	for _, event := range calendar.Events() {
		e, err := readEvent(event)
		if err != nil {
			return nil, nil, fmt.Errorf("event %q: %w", e.name, err)
		}
		if e.timed {
			timed++
			continue
		}
		days = append(days, e.days(moved[e.uid])...)
		if len(days) > maxDays {
			return nil, nil, fmt.Errorf("it names more than %d days", maxDays)
		}
	}
	if timed > 0 {
		warnings = append(warnings, fmt.Sprintf("the calendar has %d events with a time of the day: only all-day events count", timed))
	}
	slices.Sort(days)
	return slices.Compact(days), warnings, nil
}

func openCalendar(text []byte) (*ics.Calendar, error) {
	if len(text) > maxCalendar {
		return nil, fmt.Errorf("it has %d bytes; at most %d are read", len(text), maxCalendar)
	}
	if !bytes.Contains(text, []byte("BEGIN:VCALENDAR")) {
		return nil, errors.New("it is no iCalendar file: it has no BEGIN:VCALENDAR")
	}
	calendar, err := ics.ParseCalendar(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("it is no iCalendar file: %w", err)
	}
	if n := strings.Count(string(text), "\nRRULE"); n > maxRules {
		return nil, fmt.Errorf("it has %d events that repeat; at most %d are read", n, maxRules)
	}
	return calendar, nil
}

// event is what counts of an event.
type event struct {
	name, uid string
	timed     bool
	override  bool // it stands for one repetition of another event
	begins    []date
	length    date // days
}

// days are the days of an event, up to one more than are allowed. Repetitions that were moved are not among them.
func (e event) days(moved map[date]bool) []date {
	var days []date
	for _, begin := range e.begins {
		if !e.override && moved[begin] {
			continue
		}
		for i := range e.length {
			days = append(days, begin+i)
		}
		if len(days) > maxDays {
			break
		}
	}
	return days
}

func readEvent(source *ics.VEvent) (event, error) {
	e := event{name: value(source, ics.ComponentPropertySummary), uid: value(source, ics.ComponentPropertyUniqueId), length: 1}
	start := value(source, ics.ComponentPropertyDtStart)
	if value(source, ics.ComponentPropertyStatus) == string(ics.ObjectStatusCancelled) {
		return e, nil
	}
	if strings.Contains(start, "T") {
		e.timed = true
		return e, nil
	}
	begin, err := time.Parse(icsDate, start)
	if err != nil {
		return e, fmt.Errorf("DTSTART is %q, and no date", start)
	}
	e.override = value(source, ics.ComponentPropertyRecurrenceId) != ""
	if e.length, err = length(source, begin); err != nil {
		return e, err
	}
	e.begins, err = repetitions(source, begin)
	return e, err
}

func value(source *ics.VEvent, property ics.ComponentProperty) string {
	if p := source.GetProperty(property); p != nil {
		return strings.TrimSpace(p.Value)
	}
	return ""
}

// length is how many days an event takes. DTEND is the day after the last one.
func length(source *ics.VEvent, begin time.Time) (date, error) {
	text := value(source, ics.ComponentPropertyDtEnd)
	if text == "" {
		return durationInDays(value(source, ics.ComponentPropertyDuration))
	}
	end, err := time.Parse(icsDate, text)
	if err != nil {
		return 0, fmt.Errorf("DTEND is %q, and no date", text)
	}
	days := date(end.Sub(begin) / (24 * time.Hour))
	if days < 0 || days > maxRange {
		return 0, fmt.Errorf("it takes %d days", days)
	}
	return max(days, 1), nil
}

func durationInDays(text string) (date, error) {
	if text == "" {
		return 1, nil
	}
	var n date
	var unit string
	if _, err := fmt.Sscanf(text, "P%d%1s", &n, &unit); err != nil || n < 1 || n > maxRange || (unit != "D" && unit != "W") {
		return 0, fmt.Errorf("DURATION is %q: write days or weeks, such as P2D", text)
	}
	if unit == "W" {
		n *= 7
	}
	return n, nil
}

// repetitions are the days on which an event begins.
func repetitions(source *ics.VEvent, begin time.Time) ([]date, error) {
	set := &rrule.Set{}
	set.DTStart(begin)
	set.RDate(begin)
	if rule := value(source, ics.ComponentPropertyRrule); rule != "" {
		r, err := readRule(rule, begin)
		if err != nil {
			return nil, fmt.Errorf("RRULE is %q: %w", rule, err)
		}
		set.RRule(r)
	}
	for _, p := range source.GetProperties(ics.ComponentPropertyRdate) {
		if err := eachDay(p.Value, set.RDate); err != nil {
			return nil, err
		}
	}
	for _, p := range source.GetProperties(ics.ComponentPropertyExdate) {
		if err := eachDay(p.Value, set.ExDate); err != nil {
			return nil, err
		}
	}
	var days []date
	for next := set.Iterator(); ; {
		t, more := next()
		if !more {
			return days, nil
		}
		if days = append(days, wall(t.Unix()).date()); len(days) > maxDays {
			return nil, fmt.Errorf("it repeats on more than %d days", maxDays)
		}
	}
}

func readRule(text string, begin time.Time) (*rrule.RRule, error) {
	option, err := rrule.StrToROption(text)
	if err != nil {
		return nil, err
	}
	if option.Freq > rrule.DAILY {
		return nil, errors.New("an all-day event repeats daily at most")
	}
	option.Dtstart = begin
	last := time.Date(lastYear, time.December, 31, 0, 0, 0, 0, time.UTC)
	if option.Until.IsZero() || option.Until.After(last) {
		option.Until = last
	}
	return rrule.NewRRule(*option)
}

func eachDay(list string, do func(time.Time)) error {
	for text := range strings.SplitSeq(list, ",") {
		day, _, _ := strings.Cut(text, "T")
		t, err := time.Parse(icsDate, strings.TrimSpace(day))
		if err != nil {
			return fmt.Errorf("%q is no date", text)
		}
		do(t)
	}
	return nil
}

// overridden are, by event, the days of the repetitions for which another event stands.
func overridden(calendar *ics.Calendar) map[string]map[date]bool {
	found := map[string]map[date]bool{}
	for _, e := range calendar.Events() {
		day, _, _ := strings.Cut(value(e, ics.ComponentPropertyRecurrenceId), "T")
		t, err := time.Parse(icsDate, day)
		if err != nil {
			continue
		}
		uid := value(e, ics.ComponentPropertyUniqueId)
		if found[uid] == nil {
			found[uid] = map[date]bool{}
		}
		found[uid][wall(t.Unix()).date()] = true
	}
	return found
}
