// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timetable says what a ScheduledMachine's spec asks for at a moment: its schedule, with lead time, exceptions, override
// and emergency stop, and which of them decides. It knows nothing of what is there.
package timetable

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/schedule"
)

// Timetable is what a ScheduledMachine asks for.
type Timetable struct {
	// Schedule is the schedule by itself.
	Schedule schedule.Schedule
	// LeadTime is how long before its window a machine is made.
	LeadTime time.Duration
	// Override is in force until it ends; nil when there is none.
	Override *Override

	killed   string // by what; empty when it is not
	disabled bool
}

// Decision is whether a machine is wanted at a moment, and what says so.
type Decision struct {
	Wanted bool
	By     schedulingv1.Decider
	// Reason is one of the Scheduled condition's.
	Reason, Message string
	// Change is when Wanted changes by itself. Zero: it does not.
	Change time.Time
}

// Read understands a ScheduledMachine. The error names each item that it cannot understand, and what would be right. The lead
// time is what spec says; for auto it is what status remembers.
func Read(m *schedulingv1.ScheduledMachine, calendar Calendar, now time.Time) (*Timetable, error) {
	s, scheduleErr := readSchedule(m.Spec.Schedule, calendar)
	lead, leadErr := leadTime(m)
	t := &Timetable{Schedule: s, LeadTime: lead}
	if m.Spec.KillSwitch {
		t.Kill("spec.killSwitch is true")
	}
	if enabled := m.Spec.Schedule.Enabled; enabled != nil {
		t.disabled = !*enabled
	}
	override, overrideErr := readOverride(m, s, now)
	t.Override = override
	return t, errors.Join(scheduleErr, leadErr, overrideErr)
}

func readSchedule(spec schedulingv1.Schedule, calendar Calendar) (schedule.Schedule, error) {
	plain := schedule.Spec{Days: spec.DaysOfWeek, Hours: spec.HoursOfDay, Zone: spec.Timezone}
	for i, w := range spec.Windows {
		window := schedule.CronWindow{Start: w.Start, Stop: w.Stop}
		if w.Duration != nil {
			if window.Duration = w.Duration.Duration; window.Duration == 0 {
				return schedule.Schedule{}, fmt.Errorf("windows[%d]: duration is 0s: the window would never be open", i)
			}
		}
		plain.Windows = append(plain.Windows, window)
	}
	for i, e := range spec.Exceptions {
		exception := schedule.Exception{Name: e.Name, Dates: e.Dates, Closed: e.Closed, Hours: e.HoursOfDay}
		if e.ConfigMapRef.Name != "" {
			key := e.ConfigMapRef.Key
			if key == "" {
				key = DefaultCalendarKey
			}
			text, err := calendar(e.ConfigMapRef.Name, key)
			if err != nil {
				return schedule.Schedule{}, fmt.Errorf("exceptions[%d]: %w", i, err)
			}
			exception.FromCalendar, exception.Calendar = true, text
			if exception.Name == "" {
				exception.Name = e.ConfigMapRef.Name
			}
		}
		plain.Exceptions = append(plain.Exceptions, exception)
	}
	return schedule.Parse(plain)
}

// Kill stops the machine, whatever else is asked for. The message says by what.
func (t *Timetable) Kill(message string) { t.killed = message }

// Killed says whether the emergency stop is pulled.
func (t *Timetable) Killed() bool { return t.killed != "" }

// Decide says whether a machine is wanted. What stands first wins.
func (t *Timetable) Decide(now time.Time) Decision {
	switch {
	case t.Killed():
		return Decision{By: schedulingv1.DecidedByKillSwitch, Reason: schedulingv1.KillSwitchReason, Message: t.killed}
	case t.Override.inForce(now):
		return t.overridden()
	default:
		return t.scheduled(now)
	}
}

func (t *Timetable) overridden() Decision {
	d := Decision{
		Wanted: t.Override.On, By: schedulingv1.DecidedByOverride, Reason: schedulingv1.OverrideReason,
		Message: t.Override.String(),
	}
	if end := t.Override.Until; !end.IsZero() {
		d.Change = end
		if next := t.scheduled(end); next.Wanted == d.Wanted { // it goes on as it was
			d.Change = next.Change
		}
	}
	return d
}

// scheduled is what the schedule wants, when nothing overrides it.
func (t *Timetable) scheduled(now time.Time) Decision {
	d := Decision{By: schedulingv1.DecidedBySchedule, Reason: schedulingv1.WindowClosedReason}
	if t.disabled {
		d.Reason, d.Message = schedulingv1.DisabledReason, "spec.schedule.enabled is false"
		return d
	}
	if t.Schedule.Exception(now) != "" {
		d.By, d.Message = schedulingv1.DecidedByException, "exception "+t.Schedule.Exception(now)
	}
	d.Wanted, d.Change = t.withLead(now)
	switch {
	case !d.Wanted:
	case t.Schedule.On(now):
		d.Reason = schedulingv1.WindowOpenReason
	default:
		d.By, d.Reason, d.Message = schedulingv1.DecidedBySchedule, schedulingv1.LeadTimeReason, ""
		if opens := t.Schedule.At(now).Change; !opens.IsZero() {
			d.Message = "The next window opens at " + opens.Format(time.RFC3339)
		}
	}
	return d
}

// maxJoined is how many windows in a row are joined where each begins within the lead time of the one before.
const maxJoined = 100

// withLead says whether a machine is wanted when each window begins its lead time earlier, and when that changes. Windows that
// meet so are one.
func (t *Timetable) withLead(now time.Time) (wanted bool, change time.Time) {
	if t.LeadTime == 0 {
		state := t.Schedule.At(now)
		return state.On, state.Change
	}
	windows := t.Schedule.Next(now, 1)
	if len(windows) == 0 {
		return false, time.Time{}
	}
	begin, end := windows[0].Start.Add(-t.LeadTime), windows[0].End
	if begin.After(now) {
		return false, begin
	}
	for range maxJoined {
		if end.IsZero() {
			return true, end
		}
		next := t.Schedule.At(end).Change
		if next.IsZero() || next.Add(-t.LeadTime).After(end) {
			return true, end
		}
		end = t.Schedule.At(next).Change
	}
	return true, end
}

// SelectedBy says whether the value of a Namespace's kill switch stops a ScheduledMachine with these labels. A value that cannot
// be understood stops all: whoever pulls an emergency stop means it.
func SelectedBy(value string, own map[string]string) bool {
	switch value {
	case "false":
		return false
	case "", "true":
		return true
	}
	selector, err := labels.Parse(value)
	return err != nil || selector.Matches(labels.Set(own))
}
