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

// Spec is a schedule as people write it: days with hours, or cron windows, or both.
type Spec struct {
	// Days are days of the week (mon) and ranges of them (mon-fri, fri-mon), both ends included.
	Days []string
	// Hours are hours of the day (9) and ranges of them (9-17), both ends included: 9-17 opens at 09:00 and closes at 18:00.
	// A range over midnight (22-6) belongs to the day on which it starts.
	Hours []string
	// Zone is an IANA time zone, such as America/New_York. Empty: UTC.
	Zone string
	// Windows open and close at the fires of cron expressions.
	Windows []CronWindow
	// Exceptions are dates on which all else does not count. Of several that name a date, the first one does.
	Exceptions []Exception
}

// CronWindow opens at each fire of Start, and closes at the next one of Stop or after Duration: one of the two is given.
// Expressions have the five fields of crontab(5).
type CronWindow struct {
	Start, Stop string
	Duration    time.Duration
}

// Exception is what is different on some dates: the windows that would start on them do not, and Hours, if any, stand instead.
type Exception struct {
	// Name is for people. Empty: the dates.
	Name string
	// Dates are dates (2026-12-24) and ranges of dates (2026-12-24/2027-01-01), both ends included.
	Dates []string
	// Calendar is an iCalendar file whose all-day events name further dates. It counts where FromCalendar is true.
	Calendar     []byte
	FromCalendar bool
	// Closed says that there are no hours; otherwise Hours are given.
	Closed bool
	Hours  []string
}

func weekdays() []string { return []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} }

// Parse understands a schedule. The error names each part that it cannot understand, and what would be right.
func Parse(spec Spec) (Schedule, error) {
	zone, zoneErr := parseZone(spec.Zone)
	exceptions, warnings, exceptionsErr := parseExceptions(spec.Exceptions)
	s := Schedule{zone: zone, exceptions: exceptions, warnings: append(zoneWarnings(spec.Zone), warnings...)}
	var texts []string
	var hoursErr error
	if len(spec.Windows) == 0 || len(spec.Days) > 0 || len(spec.Hours) > 0 {
		var week weekly
		var text string
		if week, text, hoursErr = s.parseWeek(spec.Days, spec.Hours); hoursErr == nil {
			s.parts, texts = append(s.parts, week), append(texts, text)
		}
	}
	windowErrs := []error{hoursErr}
	for i, w := range spec.Windows {
		windows, text, err := s.parseWindow(w)
		if err != nil {
			windowErrs = append(windowErrs, fmt.Errorf("windows[%d]: %w", i, err))
			continue
		}
		s.parts, texts = append(s.parts, windows), append(texts, text)
	}
	if err := errors.Join(append(windowErrs, exceptionsErr, zoneErr)...); err != nil {
		return Schedule{}, err
	}
	s.text = strings.Join(texts, "; ") + " " + zone.String()
	return s, nil
}

func (s *Schedule) parseWeek(dayTexts, hourTexts []string) (weekly, string, error) {
	days, daysText, daysErr := parseDays(dayTexts)
	hours, hoursText, hoursErr := parseHours(hourTexts)
	if err := errors.Join(daysErr, hoursErr); err != nil {
		return weekly{}, "", err
	}
	week := weekly{exceptions: s.exceptions, zone: s.zone}
	for _, day := range days {
		week.hours[day] = hours
	}
	for i, h := range hours {
		if h.wraps() && h.length() == hoursPerDay {
			s.warnings = append(s.warnings, fmt.Sprintf("hoursOfDay has %q, which is 24 hours from %02d:00 on; a whole day is 0-23",
				hourTexts[i], h.first))
		}
	}
	return week, strings.Join(daysText, ",") + " " + strings.Join(hoursText, ","), nil
}

func (s *Schedule) parseWindow(spec CronWindow) (cronWindows, string, error) {
	w := cronWindows{duration: spec.Duration, exceptions: s.exceptions}
	start, err := parseCron(spec.Start, s.zone)
	if err != nil {
		return w, "", fmt.Errorf("start is %q: %w", spec.Start, err)
	}
	w.start = start
	switch {
	case spec.Stop == "" && spec.Duration == 0:
		return w, "", fmt.Errorf("start is %q, which opens a window and never closes it: give stop or duration", spec.Start)
	case spec.Stop != "" && spec.Duration != 0:
		return w, "", errors.New("it has stop and duration: give one of the two")
	case spec.Stop == "":
		if spec.Duration < time.Minute || spec.Duration > maxDuration {
			return w, "", fmt.Errorf("duration is %s: it must be between 1m and %s", spec.Duration, short(maxDuration))
		}
		return w, fmt.Sprintf("%q for %s", start.text, short(spec.Duration)), nil
	}
	if w.stop, err = parseCron(spec.Stop, s.zone); err != nil {
		return w, "", fmt.Errorf("stop is %q: %w", spec.Stop, err)
	}
	if w.start.same(w.stop) {
		return w, "", fmt.Errorf("start and stop are both %q: the window would close as it opens", spec.Start)
	}
	return w, fmt.Sprintf("%q to %q", start.text, w.stop.text), nil
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

// parseZone refuses Local, which would be the zone of the controller's machine, and what would be read from its files: paths,
// its link localtime, and the zones of right/, which count leap seconds.
func parseZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" || name == "localtime" || strings.HasPrefix(name, "/") ||
		strings.HasPrefix(name, "right/") || strings.HasPrefix(name, "posix") {
		return time.UTC, fmt.Errorf("timezone %q is unknown: write an IANA time zone such as America/New_York", name)
	}
	return zone, nil
}

// zoneWarnings tells of names that look like a place's time and are a fixed distance from UTC.
func zoneWarnings(name string) []string {
	place, isEtc := strings.CutPrefix(name, "Etc/")
	sign, isGMT := strings.CutPrefix(place, "GMT")
	switch {
	case name == "EST" || name == "MST" || name == "HST":
		return []string{fmt.Sprintf("timezone %s has no summer time: name a city, such as America/New_York, if clocks change there", name)}
	case isEtc && isGMT && len(sign) > 1:
		return []string{fmt.Sprintf("timezone %s has no summer time, and its sign is that of POSIX: %s is %s hours %s UTC",
			name, name, sign[1:], map[byte]string{'+': "behind", '-': "ahead of"}[sign[0]])}
	}
	return nil
}
