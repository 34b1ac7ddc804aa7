// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"regexp"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/timetable"
)

// TestSchedulesOfThePage reads each block of a ScheduledMachine as its controller does.
func TestSchedulesOfThePage(t *testing.T) {
	text, err := os.ReadFile("../../docs/scheduling.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(text, -1)
	if len(blocks) < 5 {
		t.Fatalf("only %d blocks were found", len(blocks))
	}
	for _, block := range blocks {
		m := &schedulingv1.ScheduledMachine{}
		if err := yaml.UnmarshalStrict(block[1], m); err != nil {
			t.Errorf("%s%s", block[1], err)
			continue
		}
		if len(m.Spec.Schedule.DaysOfWeek)+len(m.Spec.Schedule.Windows) == 0 {
			m.Spec.Schedule.DaysOfWeek, m.Spec.Schedule.HoursOfDay = []string{"mon-fri"}, []string{"9-17"}
		}
		if _, err := timetable.Read(m, timetable.NoCalendars, time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)); err != nil {
			t.Errorf("%s%s", block[1], err)
		}
	}
}
