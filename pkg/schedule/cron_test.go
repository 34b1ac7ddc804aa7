// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/finos/caplv/pkg/schedule"
)

const newYork = "America/New_York"

func TestCronWindows(t *testing.T) {
	for name, c := range map[string]struct {
		zone, start, stop string
		duration          time.Duration
		at                string
		on                bool
		change            string
	}{
		"the last minute": {newYork, "0 9 * * 1-5", "0 18 * * 1-5", 0, "2026-06-05T21:59:00Z", true, "2026-06-05T22:00:00Z"},
		"the next stop is after the next start": {
			newYork, "0 9 * * 1-5", "0 18 * * 1-5", 0, "2026-06-06T12:00:00Z", false, "2026-06-08T13:00:00Z",
		},
		"a duration after the change in spring": {newYork, "0 9 * * 1-5", "", 9 * time.Hour, "2026-03-09T13:00:00Z", true, "2026-03-09T22:00:00Z"},
		"a start that is jumped over":           {newYork, "30 2 * * *", "", 4 * time.Hour, "2026-03-08T08:00:00Z", true, "2026-03-08T11:00:00Z"},
		"before a start that is jumped over":    {newYork, "30 2 * * *", "", 4 * time.Hour, "2026-03-08T06:59:59Z", false, "2026-03-08T07:00:00Z"},
		"a start that is there twice":           {newYork, "30 1 * * *", "0 5 * * *", 0, "2026-11-01T06:30:00Z", true, "2026-11-01T10:00:00Z"},
		"a duration is not doubled":             {newYork, "30 1 * * *", "", 10 * time.Minute, "2026-11-01T06:35:00Z", false, "2026-11-02T06:30:00Z"},
		"a window within the gap":               {newYork, "10 2 * * *", "40 2 * * *", 0, "2026-03-08T07:00:00Z", false, "2026-03-09T06:10:00Z"},
		"over midnight":                         {newYork, "0 22 * * 1-5", "0 7 * * 2-6", 0, "2026-06-06T07:00:00Z", true, "2026-06-06T11:00:00Z"},
		"a missing midnight":                    {"Africa/Cairo", "0 0 * * 5", "", 6 * time.Hour, "2026-04-23T22:00:00Z", true, "2026-04-24T04:00:00Z"},
		"day of the month or weekday":           {"UTC", "0 9 13 * 5", "", time.Hour, "2026-06-06T00:00:00Z", false, "2026-06-12T09:00:00Z"},
		"a leap day":                            {"UTC", "0 9 29 2 *", "", time.Hour, "2026-06-06T00:00:00Z", false, "2028-02-29T09:00:00Z"},
		"never closes":                          {"UTC", "* * * * *", "", 5 * time.Minute, "2026-06-06T00:00:00Z", true, ""},
		"a stop at which it opens again":        {"UTC", "0 * * * *", "0 9 * * *", 0, "2026-06-06T00:00:00Z", true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schedule.Parse(schedule.Spec{
				Zone: c.zone, Windows: []schedule.CronWindow{{Start: c.start, Stop: c.stop, Duration: c.duration}},
			})
			if err != nil {
				t.Fatal(err)
			}
			want := schedule.State{On: c.on}
			if c.change != "" {
				want.Change = instant(t, c.change)
			}
			if diff := cmp.Diff(want, s.At(instant(t, c.at))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", s, diff)
			}
		})
	}
}

func TestCronWindowsRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		window schedule.CronWindow
		says   string
	}{
		"a bare cron":              {schedule.CronWindow{Start: "0 9-17 * * 1-5"}, "never closes"},
		"nothing":                  {schedule.CronWindow{Duration: time.Hour}, `start is ""`},
		"stop and duration":        {schedule.CronWindow{Start: "0 9 * * *", Stop: "0 10 * * *", Duration: time.Hour}, "one of the two"},
		"equal":                    {schedule.CronWindow{Start: "0 9 * * *", Stop: "0  9 * * *"}, "would close as it opens"},
		"equal in other words":     {schedule.CronWindow{Start: "0 9 * * 1-5", Stop: "0 9 * * mon-fri"}, "would close as it opens"},
		"a date that never is":     {schedule.CronWindow{Start: "0 9 31 2 *", Duration: time.Hour}, "never fires"},
		"a zone":                   {schedule.CronWindow{Start: "TZ=UTC 0 9 * * *", Duration: time.Hour}, "schedule.timezone"},
		"a zone that panics":       {schedule.CronWindow{Start: "TZ=", Duration: time.Hour}, "schedule.timezone"},
		"another zone":             {schedule.CronWindow{Start: "CRON_TZ=UTC 0 9 * * *", Duration: time.Hour}, "schedule.timezone"},
		"every":                    {schedule.CronWindow{Start: "@every 1h", Duration: time.Hour}, "five fields"},
		"daily":                    {schedule.CronWindow{Start: "@daily", Duration: time.Hour}, "five fields"},
		"six fields":               {schedule.CronWindow{Start: "0 0 9 * * *", Duration: time.Hour}, `start is "0 0 9 * * *"`},
		"a bad stop":               {schedule.CronWindow{Start: "0 9 * * *", Stop: "0 25 * * *"}, `stop is "0 25 * * *"`},
		"a negative duration":      {schedule.CronWindow{Start: "0 9 * * *", Duration: -time.Hour}, "duration is -1h0m0s"},
		"a duration without bound": {schedule.CronWindow{Start: "0 9 * * *", Duration: 10000 * time.Hour}, "744h"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := schedule.Parse(schedule.Spec{Windows: []schedule.CronWindow{c.window}})
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "windows[0]") {
				t.Errorf("the error is %v, and does not say %s", err, c.says)
			}
		})
	}
}

func FuzzCron(f *testing.F) {
	f.Add("0 9 * * 1-5", "0 18 * * 1-5", int64(0), int64(1780000000))
	f.Add("30 2 * * *", "", int64(4*time.Hour), int64(1772953200))
	f.Add("*/7 1-3 29 2 ?", "@every 1s", int64(0), int64(1761980400))
	f.Add("TZ=", "0 0 31 2 *", int64(time.Minute), int64(0))
	f.Fuzz(func(t *testing.T, start, stop string, duration, at int64) {
		s, err := schedule.Parse(schedule.Spec{
			Zone: newYork, Windows: []schedule.CronWindow{{Start: start, Stop: stop, Duration: time.Duration(duration)}},
		})
		if err != nil {
			return
		}
		now := time.Unix(at%(1<<32), 0)
		state := s.At(now)
		if state.Change.IsZero() {
			return
		}
		if !state.Change.After(now) || s.On(state.Change) == state.On || s.On(state.Change.Add(-time.Nanosecond)) != state.On {
			t.Fatalf("%s at %s changes at %s, which is not so", s, now, state.Change)
		}
	})
}
