// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package timetable

import (
	"errors"
	"fmt"
	"strings"
	"time"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/schedule"
)

// maxFor bounds a duration in the annotation.
const maxFor = 366 * 24 * time.Hour

// Override decides instead of a schedule for a while.
type Override struct {
	On bool
	// Until is when it ends. Zero: it does not, for the schedule that it waits for never changes.
	Until time.Time
	// Reason is for people.
	Reason string
	// Request is the override as it was asked for. Another one is another override.
	Request string
	// FromAnnotation says that it stands in the annotation, and not in spec.
	FromAnnotation bool
}

func (o *Override) inForce(now time.Time) bool {
	return o != nil && (o.Until.IsZero() || now.Before(o.Until))
}

// Ended says whether there was an override and its time is over.
func (o *Override) Ended(now time.Time) bool { return o != nil && !o.inForce(now) }

// String is the override in words: "Override: off until 2026-12-24T18:00:00Z: maintenance".
func (o *Override) String() string {
	text := "Override: off"
	if o.On {
		text = "Override: on"
	}
	if !o.Until.IsZero() {
		text += " until " + o.Until.UTC().Format(time.RFC3339)
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
}

// request is an override as somebody asks for it.
type request struct {
	state  schedulingv1.OverrideState
	until  string // RFC 3339, next-transition, or "for <duration>"
	reason string
}

func (r request) String() string { return fmt.Sprintf("%s until %s", r.state, r.until) }

// readOverride reads the annotation, or else spec.override. Where its end counts from the moment at which it was set, status
// remembers what came of that.
func readOverride(m *schedulingv1.ScheduledMachine, s schedule.Schedule, now time.Time) (*Override, error) {
	r := request{state: m.Spec.Override.State, until: m.Spec.Override.Until, reason: m.Spec.Override.Reason}
	source := "override"
	text, annotated := m.Annotations[schedulingv1.OverrideAnnotation]
	if annotated {
		source = "annotation " + schedulingv1.OverrideAnnotation
		var err error
		if r, err = parseAnnotation(text); err != nil {
			return nil, fmt.Errorf("%s is %q: %w", source, text, err)
		}
	}
	if r.state == "" && r.until == "" {
		return nil, nil //nolint:nilnil // there is no override
	}
	if r.state != schedulingv1.OverrideOn && r.state != schedulingv1.OverrideOff {
		return nil, fmt.Errorf("%s: state is %q: write on or off", source, r.state)
	}
	o := &Override{On: r.state == schedulingv1.OverrideOn, Reason: r.reason, Request: r.String(), FromAnnotation: annotated}
	if known := m.Status.Override; known.Request == o.Request {
		if known.Until != nil {
			o.Until = known.Until.Time
		}
		return o, nil
	}
	until, err := r.end(s, now)
	if err != nil {
		return nil, fmt.Errorf("%s: until is %q: %w", source, r.until, err)
	}
	o.Until = until
	return o, nil
}

// end is when an override that is set now ends.
func (r request) end(s schedule.Schedule, now time.Time) (time.Time, error) {
	if r.until == schedulingv1.NextTransition {
		return s.At(now).Change, nil
	}
	if text, ok := strings.CutPrefix(r.until, "for "); ok {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 || d > maxFor {
			return time.Time{}, errors.New("write a duration such as 2h")
		}
		return now.Add(d).Truncate(time.Second), nil
	}
	until, err := time.Parse(time.RFC3339, r.until)
	if err != nil {
		return time.Time{}, errors.New("write a time such as 2026-12-24T18:00:00Z, or next-transition")
	}
	return until, nil
}

// parseAnnotation reads "off until next-transition maintenance", "on for 2h" and the like.
func parseAnnotation(text string) (request, error) {
	fields := strings.Fields(text)
	if len(fields) < 3 || (fields[1] != "until" && fields[1] != "for") {
		return request{}, errors.New("write on or off, and when it ends: " +
			"on for 2h, off until 2026-12-24T18:00:00Z, on until next-transition; a reason may follow")
	}
	r := request{state: schedulingv1.OverrideState(fields[0]), until: fields[2], reason: strings.Join(fields[3:], " ")}
	if fields[1] == "for" {
		r.until = "for " + fields[2]
	}
	return r, nil
}
