// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"strings"
	"testing"
	"time"

	ics "github.com/arran4/golang-ical"
	"github.com/google/go-cmp/cmp"

	"github.com/finos/caplv/pkg/schedule"
)

const holidays = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test\r\n" +
	"BEGIN:VEVENT\r\nUID:1\r\nDTSTART;VALUE=DATE:20251225\r\nDTEND;VALUE=DATE:20251227\r\nRRULE:FREQ=YEARLY\r\nSUMMARY:Christmas\r\nTRANSP:TRANSPARENT\r\nEND:VEVENT\r\n" +
	"BEGIN:VEVENT\r\nUID:2\r\nDTSTART;VALUE=DATE:20260703\r\nSUMMARY:Independence Day\r\nEND:VEVENT\r\n" +
	"BEGIN:VEVENT\r\nUID:3\r\nDTSTART;VALUE=DATE:20260601\r\nSTATUS:" + string(ics.ObjectStatusCancelled) + "\r\nEND:VEVENT\r\n" +
	"BEGIN:VEVENT\r\nUID:4\r\nDTSTART:20260602T090000Z\r\nDTEND:20260602T100000Z\r\nSUMMARY:a meeting\r\nEND:VEVENT\r\n" +
	"BEGIN:VEVENT\r\nUID:5\r\nDTSTART;VALUE=DATE:20260605\r\nRRULE:FREQ=WEEKLY;COUNT=4\r\nEXDATE;VALUE=DATE:20260612\r\nEND:VEVENT\r\n" +
	"BEGIN:VEVENT\r\nUID:5\r\nRECURRENCE-ID;VALUE=DATE:20260619\r\nDTSTART;VALUE=DATE:20260618\r\nEND:VEVENT\r\n" +
	"END:VCALENDAR\r\n"

func TestExceptions(t *testing.T) {
	office := schedule.Spec{Zone: newYork, Days: []string{"mon-fri"}, Hours: []string{"9-17"}}
	night := schedule.Spec{Zone: newYork, Days: []string{"mon-fri"}, Hours: []string{"22-6"}}
	cron := schedule.Spec{Zone: newYork, Windows: []schedule.CronWindow{{Start: "0 22 * * *", Duration: 9 * time.Hour}}}
	closed := func(dates ...string) schedule.Exception { return schedule.Exception{Dates: dates, Closed: true} }
	calendar := schedule.Exception{Name: "holidays", FromCalendar: true, Calendar: []byte(holidays), Closed: true}
	for name, c := range map[string]struct {
		spec       schedule.Spec
		exceptions []schedule.Exception
		at         string
		on         bool
		change     string
		by         string
	}{
		"a day": {office, []schedule.Exception{closed("2026-06-01")}, "2026-06-01T15:00:00Z", false, "2026-06-02T13:00:00Z", "2026-06-01"},
		"a range, from Friday to Monday": {
			office, []schedule.Exception{closed("2026-06-05/2026-06-08")}, "2026-06-04T22:00:00Z", false, "2026-06-09T13:00:00Z", "",
		},
		"a year": {office, []schedule.Exception{closed("2026-06-01/2027-05-31")}, "2026-06-01T15:00:00Z", false, "2027-06-01T13:00:00Z", "2026-06-01/2027-05-31"},
		"the night that began the day before goes on": {
			night, []schedule.Exception{closed("2026-06-02")}, "2026-06-02T07:00:00Z", true, "2026-06-02T11:00:00Z", "",
		},
		"the night that begins on the day does not": {
			night, []schedule.Exception{closed("2026-06-02")}, "2026-06-03T07:00:00Z", false, "2026-06-04T02:00:00Z", "2026-06-02",
		},
		"a cron window that begins on the day": {
			cron, []schedule.Exception{closed("2026-06-02")}, "2026-06-03T07:00:00Z", false, "2026-06-04T02:00:00Z", "2026-06-02",
		},
		"own hours": {
			office, []schedule.Exception{{Name: "half day", Dates: []string{"2026-06-01"}, Hours: []string{"9-11"}}},
			"2026-06-01T16:30:00Z", false, "2026-06-02T13:00:00Z", "half day",
		},
		"own hours on a Saturday": {
			office, []schedule.Exception{{Name: "inventory", Dates: []string{"2026-06-06"}, Hours: []string{"8-12"}}},
			"2026-06-06T13:00:00Z", true, "2026-06-06T17:00:00Z", "inventory",
		},
		"the first that names the day counts": {
			office, []schedule.Exception{{Name: "we work", Dates: []string{"2026-07-03"}, Hours: []string{"9-17"}}, calendar},
			"2026-07-03T15:00:00Z", true, "2026-07-03T22:00:00Z", "",
		},
		"a calendar": {office, []schedule.Exception{calendar}, "2026-07-03T15:00:00Z", false, "2026-07-06T13:00:00Z", "holidays"},
		"every year, two days": {
			office, []schedule.Exception{calendar}, "2030-12-24T23:00:00Z", false, "2030-12-27T14:00:00Z", "",
		},
		"a canceled event":          {office, []schedule.Exception{calendar}, "2026-06-01T15:00:00Z", true, "2026-06-01T22:00:00Z", ""},
		"a meeting":                 {office, []schedule.Exception{calendar}, "2026-06-02T13:30:00Z", true, "2026-06-02T22:00:00Z", ""},
		"a repetition":              {office, []schedule.Exception{calendar}, "2026-06-05T15:00:00Z", false, "2026-06-08T13:00:00Z", "holidays"},
		"a repetition left out":     {office, []schedule.Exception{calendar}, "2026-06-12T15:00:00Z", true, "2026-06-12T22:00:00Z", ""},
		"a repetition that moved":   {office, []schedule.Exception{calendar}, "2026-06-19T15:00:00Z", true, "2026-06-19T22:00:00Z", ""},
		"the day that it moved to":  {office, []schedule.Exception{calendar}, "2026-06-18T15:00:00Z", false, "2026-06-19T13:00:00Z", "holidays"},
		"the last of the four":      {office, []schedule.Exception{calendar}, "2026-06-26T15:00:00Z", false, "2026-06-29T13:00:00Z", "holidays"},
		"after the last repetition": {office, []schedule.Exception{calendar}, "2026-07-10T15:00:00Z", true, "2026-07-10T22:00:00Z", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.spec.Exceptions = c.exceptions
			s, err := schedule.Parse(c.spec)
			if err != nil {
				t.Fatal(err)
			}
			now := instant(t, c.at)
			if diff := cmp.Diff(schedule.State{On: c.on, Change: instant(t, c.change)}, s.At(now)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", s, diff)
			}
			if by := s.Exception(now); by != c.by {
				t.Errorf("the exception is %q, and not %q", by, c.by)
			}
		})
	}
}

func TestExceptionsRefuse(t *testing.T) {
	calendar := func(lines ...string) schedule.Exception {
		text := "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n" + strings.Join(lines, "\r\n") + "\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
		return schedule.Exception{FromCalendar: true, Calendar: []byte(text), Closed: true}
	}
	for name, c := range map[string]struct {
		exception schedule.Exception
		says      string
	}{
		"no day":               {schedule.Exception{Closed: true}, "names no day"},
		"no date":              {schedule.Exception{Dates: []string{"24.12."}, Closed: true}, `"24.12."`},
		"a date that never is": {schedule.Exception{Dates: []string{"2026-02-30"}, Closed: true}, `"2026-02-30"`},
		"backwards":            {schedule.Exception{Dates: []string{"2026-02-03/2026-02-01"}, Closed: true}, "before its begin"},
		"a century":            {schedule.Exception{Dates: []string{"2026-02-03/2126-02-01"}, Closed: true}, "ten years"},
		"neither":              {schedule.Exception{Dates: []string{"2026-02-03"}}, "closed: true"},
		"both":                 {schedule.Exception{Dates: []string{"2026-02-03"}, Closed: true, Hours: []string{"9"}}, "one of the two"},
		"bad hours":            {schedule.Exception{Dates: []string{"2026-02-03"}, Hours: []string{"9-24"}}, `"9-24"`},
		"no calendar":          {schedule.Exception{FromCalendar: true, Calendar: []byte("hello"), Closed: true}, "calendar"},
		"an empty file":        {schedule.Exception{FromCalendar: true, Closed: true}, "calendar"},
		"a bad start":          {calendar("SUMMARY:x", "DTSTART;VALUE=DATE:2026-01-01"), "DTSTART"},
		"a bad end":            {calendar("DTSTART;VALUE=DATE:20260101", "DTEND;VALUE=DATE:soon"), "DTEND"},
		"a bad rule":           {calendar("DTSTART;VALUE=DATE:20260101", "RRULE:FREQ=OFTEN"), "RRULE"},
		"every second":         {calendar("DTSTART;VALUE=DATE:20260101", "RRULE:FREQ=SECONDLY"), "daily at most"},
		"every day for ever":   {calendar("DTSTART;VALUE=DATE:19700101", "RRULE:FREQ=DAILY"), "more than 20000 days"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := schedule.Parse(schedule.Spec{Days: []string{"mon"}, Hours: []string{"9"}, Exceptions: []schedule.Exception{c.exception}})
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "exceptions[0]") {
				t.Errorf("the error is %v, and does not say %s", err, c.says)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		spec schedule.Spec
		says string
	}{
		"EST":            {schedule.Spec{Days: []string{"mon"}, Hours: []string{"9"}, Zone: "EST"}, "no summer time"},
		"Etc/GMT+5":      {schedule.Spec{Days: []string{"mon"}, Hours: []string{"9"}, Zone: "Etc/GMT+5"}, "5 hours behind UTC"},
		"17-16":          {schedule.Spec{Days: []string{"mon"}, Hours: []string{"17-16"}}, "24 hours from 17:00 on"},
		"timed events":   {schedule.Spec{Days: []string{"mon"}, Hours: []string{"9"}, Exceptions: []schedule.Exception{{FromCalendar: true, Calendar: []byte(holidays), Closed: true}}}, "1 events"},
		"nothing at all": {schedule.Spec{Days: []string{"mon"}, Hours: []string{"9"}, Zone: newYork}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schedule.Parse(c.spec)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(s.Warnings(), "\n"); !strings.Contains(got, c.says) || (c.says == "") != (got == "") {
				t.Errorf("it says %q", got)
			}
		})
	}
}

func FuzzCalendar(f *testing.F) {
	f.Add([]byte(holidays))
	f.Add([]byte("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20240229\r\nRRULE:FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;INTERVAL=7\r\nDURATION:P2W\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := schedule.Parse(schedule.Spec{
			Days: []string{"mon-sun"}, Hours: []string{"9-17"},
			Exceptions: []schedule.Exception{{Name: "calendar", FromCalendar: true, Calendar: text, Closed: true}},
		})
		if err != nil {
			return
		}
		now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
		if !s.On(now) && s.Exception(now) != "calendar" {
			t.Fatalf("it is off at %s, and no exception says why", now)
		}
	})
}
