// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package timetable

import (
	"fmt"
	"time"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
)

const (
	// Auto as a lead time is what the last openings took.
	Auto = "auto"

	defaultAutoLead = 10 * time.Minute
	minAutoLead     = 1 * time.Minute
	maxAutoLead     = time.Hour
	maxLead         = 12 * time.Hour
)

func leadTime(m *schedulingv1.ScheduledMachine) (time.Duration, error) {
	switch m.Spec.LeadTime {
	case "":
		return 0, nil
	case Auto:
		return autoLead(m.Status.Windows), nil
	}
	d, err := time.ParseDuration(m.Spec.LeadTime)
	if err != nil || d < 0 || d > maxLead {
		return 0, fmt.Errorf("leadTime is %q: write auto, or a duration such as 15m of at most %s", m.Spec.LeadTime, maxLead)
	}
	return d, nil
}

// autoLead is the longest of the last openings and a fifth more, in full minutes.
func autoLead(windows []schedulingv1.WindowStatus) time.Duration {
	var longest time.Duration
	for _, w := range windows {
		if w.CreatedTime != nil && w.ReadyTime != nil && w.Failures == 0 {
			longest = max(longest, w.ReadyTime.Sub(w.CreatedTime.Time))
		}
	}
	if longest <= 0 {
		return defaultAutoLead
	}
	lead := (longest*6/5 + time.Minute - 1).Truncate(time.Minute)
	return min(max(lead, minAutoLead), maxAutoLead)
}
