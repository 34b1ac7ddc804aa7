// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/finos/caplv/pkg/schedule"
)

func parse(tb testing.TB, zone string, days, hours []string) schedule.Schedule {
	tb.Helper()
	s, err := schedule.Parse(schedule.Spec{Days: days, Hours: hours, Zone: zone})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func instant(tb testing.TB, text string) time.Time {
	tb.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		tb.Fatal(err)
	}
	return at
}

func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		ID, Timezone, At, Why  string
		Next                   *string
		DaysOfWeek, HoursOfDay []string
		Active                 bool
	}
	if err := json.Unmarshal(text, &vectors); err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		t.Run(v.ID, func(t *testing.T) {
			s := parse(t, v.Timezone, v.DaysOfWeek, v.HoursOfDay)
			got := s.At(instant(t, v.At))
			want := schedule.State{On: v.Active}
			if v.Next != nil {
				want.Change = instant(t, *v.Next)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s\n%s at %s (-want +got):\n%s", v.Why, s, v.At, diff)
			}
		})
	}
}

// TestAtAgreesWithTheClockOnTheWall compares with the plainest implementation there is: look at the clock each minute.
func TestAtAgreesWithTheClockOnTheWall(t *testing.T) {
	for _, night := range []struct{ zone, around string }{
		{"America/New_York", "2026-03-08T06:00:00Z"},    // an hour is missing
		{"America/New_York", "2026-11-01T06:00:00Z"},    // an hour is there twice
		{"Europe/Berlin", "2026-10-25T01:00:00Z"},       // likewise
		{"Australia/Lord_Howe", "2026-04-04T15:00:00Z"}, // half an hour is there twice
		{"Australia/Lord_Howe", "2026-10-03T15:30:00Z"}, // half an hour is missing
		{"Asia/Kathmandu", "2026-06-01T00:00:00Z"},      // full hours are at a quarter past
		{"Pacific/Apia", "2011-12-30T10:00:00Z"},        // a day is missing
		{"Africa/Cairo", "2026-04-23T22:00:00Z"},        // midnight is missing
		{"America/Havana", "2026-11-01T05:00:00Z"},      // midnight is there twice
	} {
		for _, hours := range [][]string{{"0"}, {"1"}, {"2"}, {"9-17"}, {"22-6"}, {"22-23", "0-6"}} {
			t.Run(fmt.Sprintf("%s %v %s", night.zone, hours, night.around), func(t *testing.T) {
				days := []string{"fri-mon"}
				s := parse(t, night.zone, days, hours)
				start := instant(t, night.around).Add(-40 * time.Hour)
				end := start.Add(80 * time.Hour)
				for now := start; now.Before(end); now = now.Add(173 * time.Minute) {
					if state := s.At(now); state.Change.Before(end) {
						checkByTheMinute(t, s, now, state)
					}
				}
			})
		}
	}
}

// checkByTheMinute asks for each minute until the change whether the schedule is still what it was said to be.
func checkByTheMinute(t *testing.T, s schedule.Schedule, now time.Time, state schedule.State) {
	t.Helper()
	for minute := now; minute.Before(state.Change); minute = minute.Add(time.Minute) {
		if s.At(minute).On != state.On {
			t.Fatalf("%s at %s is said to stay %t until %s, and does not at %s", s, now, state.On, state.Change, minute)
		}
	}
	if s.At(state.Change).On == state.On {
		t.Fatalf("%s at %s is said to change at %s, and does not", s, now, state.Change)
	}
}

func TestNext(t *testing.T) {
	s := parse(t, "America/New_York", []string{"mon-fri"}, []string{"9-17"})
	window := func(start, end string) schedule.Window {
		return schedule.Window{Start: instant(t, start), End: instant(t, end)}
	}
	friday := window("2026-06-05T13:00:00Z", "2026-06-05T22:00:00Z")
	monday := window("2026-06-08T13:00:00Z", "2026-06-08T22:00:00Z")
	for name, c := range map[string]struct {
		at   string
		want []schedule.Window
	}{
		"while one is open": {"2026-06-05T15:30:00Z", []schedule.Window{friday, monday}},
		"before one opens":  {"2026-06-05T12:00:00Z", []schedule.Window{friday, monday}},
		"as one closes":     {"2026-06-05T22:00:00Z", []schedule.Window{monday, window("2026-06-09T13:00:00Z", "2026-06-09T22:00:00Z")}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, s.Next(instant(t, c.at), 2)); diff != "" {
				t.Errorf("windows (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("when it is always on", func(t *testing.T) {
		always := parse(t, "", []string{"mon-sun"}, []string{"0-23"})
		now := instant(t, "2026-06-05T15:30:00Z")
		if diff := cmp.Diff([]schedule.Window{{}}, always.Next(now, 3)); diff != "" {
			t.Errorf("windows (-want +got):\n%s", diff)
		}
	})
}

func TestTheZeroScheduleIsNeverOn(t *testing.T) {
	var never schedule.Schedule
	if state := never.At(instant(t, "2026-06-05T15:30:00Z")); state != (schedule.State{}) {
		t.Errorf("state is %+v", state)
	}
	if windows := never.Next(instant(t, "2026-06-05T15:30:00Z"), 3); len(windows) != 0 {
		t.Errorf("windows are %v", windows)
	}
}

func BenchmarkAt(b *testing.B) {
	s := parse(b, "America/New_York", []string{"mon-fri"}, []string{"9-17"})
	friday := instant(b, "2026-06-05T22:00:00Z") // the longest way to a change
	for b.Loop() {
		s.At(friday)
	}
}
