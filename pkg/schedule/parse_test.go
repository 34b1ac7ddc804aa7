// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"strings"
	"testing"
	"time"

	"github.com/finos/caplv/pkg/schedule"
)

func TestParseSaysWhatItUnderstood(t *testing.T) {
	for want, spec := range map[string]schedule.Spec{
		"mon-fri 09:00-18:00 America/New_York": {Days: []string{"Mon-Fri"}, Hours: []string{"9-17"}, Zone: "America/New_York"},
		"sat,sun 08:00-09:00,22:00-07:00 UTC":  {Days: []string{"sat", "sun"}, Hours: []string{"8", "22-6"}},
		"mon-sun 00:00-24:00 UTC":              {Days: []string{"mon-sun"}, Hours: []string{"0-23"}},
	} {
		s, err := schedule.Parse(spec)
		if err != nil || s.String() != want {
			t.Errorf("got %q, %v, want %q", s, err, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	good := schedule.Spec{Days: []string{"mon-fri"}, Hours: []string{"9-17"}, Zone: "UTC"}
	for name, c := range map[string]struct {
		change func(*schedule.Spec)
		says   string
	}{
		"no days":          {func(s *schedule.Spec) { s.Days = nil }, "daysOfWeek"},
		"no hours":         {func(s *schedule.Spec) { s.Hours = nil }, "hoursOfDay"},
		"a long name":      {func(s *schedule.Spec) { s.Days = []string{"monday"} }, `"monday"`},
		"two dashes":       {func(s *schedule.Spec) { s.Days = []string{"mon-wed-fri"} }, `"mon-wed-fri"`},
		"blanks":           {func(s *schedule.Spec) { s.Days = []string{"mon - fri"} }, `"mon - fri"`},
		"an open day":      {func(s *schedule.Spec) { s.Days = []string{"mon-"} }, `"mon-"`},
		"hour 24":          {func(s *schedule.Spec) { s.Hours = []string{"9-24"} }, "9-23"},
		"three hours":      {func(s *schedule.Spec) { s.Hours = []string{"9-12-17"} }, `"9-12-17"`},
		"a negative hour":  {func(s *schedule.Spec) { s.Hours = []string{"-1"} }, `"-1"`},
		"a signed hour":    {func(s *schedule.Spec) { s.Hours = []string{"+9"} }, `"+9"`},
		"an empty hour":    {func(s *schedule.Spec) { s.Hours = []string{""} }, `""`},
		"an unknown zone":  {func(s *schedule.Spec) { s.Zone = "Mars/Phobos" }, `"Mars/Phobos"`},
		"the host's zone":  {func(s *schedule.Spec) { s.Zone = "Local" }, `"Local"`},
		"a path":           {func(s *schedule.Spec) { s.Zone = "../etc/passwd" }, `"../etc/passwd"`},
		"an absolute path": {func(s *schedule.Spec) { s.Zone = "/etc/localtime" }, `"/etc/localtime"`},
	} {
		t.Run(name, func(t *testing.T) {
			spec := good
			c.change(&spec)
			_, err := schedule.Parse(spec)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, and does not say %s", err, c.says)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("mon-fri", "9-17", "America/New_York", int64(1780000000))
	f.Add("fri-mon", "22-6", "Australia/Lord_Howe", int64(1775314800))
	f.Add("sat", "0", "Pacific/Apia", int64(1325239200))
	f.Fuzz(func(t *testing.T, days, hours, zone string, at int64) {
		s, err := schedule.Parse(schedule.Spec{Days: []string{days}, Hours: []string{hours}, Zone: zone})
		if err != nil {
			return
		}
		now := time.Unix(at%(1<<34), 0)
		state := s.At(now)
		if state.Change.IsZero() {
			return
		}
		if !state.Change.After(now) {
			t.Fatalf("%s at %s changes at %s, which is not later", s, now, state.Change)
		}
		if s.At(state.Change).On == state.On {
			t.Fatalf("%s at %s does not change at %s", s, now, state.Change)
		}
	})
}
