// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preview shows what a ScheduledMachine's schedule does in the next two weeks, without a cluster.
package preview

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/utils/clock"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/schedule"
	"github.com/finos/caplv/pkg/timetable"
)

// What Run returns.
const (
	ok = iota
	failed
	refused // the schedule cannot be understood
)

// span is how far the preview looks.
const span = 14 * 24 * time.Hour

// Source finds a ScheduledMachine of a cluster, and the calendars that it names.
type Source func(ctx context.Context, namespace, name string) (*schedulingv1.ScheduledMachine, timetable.Calendar, error)

// Command is the preview with what it works with.
type Command struct {
	In       io.Reader
	Out, Err io.Writer
	Clock    clock.PassiveClock
	// Cluster is where ScheduledMachines are looked up by name.
	Cluster Source
}

type options struct {
	file, from, output, namespace, name string
}

const usage = `Show when a ScheduledMachine is on in the next two weeks.

Usage:
  kubectl fivespot preview -f FILE [NAME] [--from TIME] [-o table|week|json|ics]
  kubectl fivespot preview NAME [-n NAMESPACE] [--from TIME] [-o table|week|json|ics]

Flags:
`

// Run runs the preview and returns its exit code: 2 when the schedule is refused, 1 after any other failure.
func (c *Command) Run(ctx context.Context, args []string, further func(*pflag.FlagSet)) int {
	o := options{}
	fs := pflag.NewFlagSet("preview", pflag.ContinueOnError)
	fs.SetOutput(c.Err)
	fs.StringVarP(&o.file, "filename", "f", "", "File with the ScheduledMachine, and with the ConfigMaps of its calendars. - is standard input.")
	fs.StringVar(&o.from, "from", "", "Moment in RFC 3339 from which on to look. Now when unset.")
	fs.StringVarP(&o.output, "output", "o", "table", "table, week (a grid of hours), json or ics (an iCalendar file).")
	fs.StringVarP(&o.namespace, "namespace", "n", "", "Namespace of the ScheduledMachine in the cluster.")
	if further != nil {
		further(fs)
	}
	fs.Usage = func() { c.complain("%s%s", usage, fs.FlagUsages()) }
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return ok
		}
		c.complain("Error: %s\n", err)
		return failed
	}
	if fs.NArg() > 1 || (fs.NArg() == 0 && o.file == "") {
		c.complain("Error: give a file with -f, or the name of one ScheduledMachine\n")
		return failed
	}
	o.name = fs.Arg(0)
	err := c.preview(ctx, o)
	var r *refusal
	switch {
	case err == nil:
		return ok
	case errors.As(err, &r):
		c.complain("Refused: %s\n", err)
		return refused
	default:
		c.complain("Error: %s\n", err)
		return failed
	}
}

func (c *Command) complain(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Err, format, args...) // there is nobody left to tell
}

// refusal is an error of the one who wrote the schedule.
type refusal struct{ error }

func (c *Command) preview(ctx context.Context, o options) error {
	now := c.Clock.Now()
	if o.from != "" {
		from, err := time.Parse(time.RFC3339, o.from)
		if err != nil {
			return fmt.Errorf("--from is %q: write a moment such as 2026-06-01T12:00:00Z", o.from)
		}
		now = from
	}
	write, known := map[string]func(io.Writer, *view) error{
		"table": writeTable, "week": writeWeek, "json": writeJSON, "ics": writeCalendar,
	}[o.output]
	if !known {
		return fmt.Errorf("--output is %q: write table, week, json or ics", o.output)
	}
	var m *schedulingv1.ScheduledMachine
	var calendar timetable.Calendar
	var warnings []string
	var err error
	if o.file != "" {
		m, calendar, warnings, err = c.readFile(o)
	} else {
		m, calendar, err = c.Cluster(ctx, o.namespace, o.name)
	}
	if err != nil {
		return err
	}
	t, err := timetable.Read(m, calendar, now)
	if err != nil {
		return &refusal{err}
	}
	v := look(m, t, now)
	v.warnings = slices.Concat(warnings, v.warnings)
	return write(c.Out, v)
}

// view is what there is to show.
type view struct {
	name     string
	machine  *schedulingv1.ScheduledMachine
	schedule schedule.Schedule
	lead     time.Duration
	now      time.Time
	decision timetable.Decision
	windows  []schedule.Window
	warnings []string
}

// look steps from one change to the next. Windows are shown as they open, without the lead time.
func look(m *schedulingv1.ScheduledMachine, t *timetable.Timetable, now time.Time) *view {
	v := &view{name: m.Name, machine: m, schedule: t.Schedule, lead: t.LeadTime, now: now}
	v.warnings = t.Warnings(m, now, now.Add(span))
	plain := *t
	plain.LeadTime = 0
	v.decision = plain.Decide(now)
	switch {
	case t.Killed():
		v.warnings = append(v.warnings, "killSwitch is true: nothing is on until it is false")
	case v.decision.Reason == schedulingv1.DisabledReason:
		v.warnings = append(v.warnings, "schedule.enabled is false: nothing is on until it is true")
	}
	for at, d := now, v.decision; at.Before(now.Add(span)); {
		if d.Wanted {
			w := schedule.Window{Start: at, End: d.Change}
			if at.Equal(now) && t.Schedule.On(now) {
				w.Start = t.Schedule.Next(now, 1)[0].Start
			}
			v.windows = append(v.windows, w)
		}
		if d.Change.IsZero() {
			break
		}
		at = d.Change
		d = plain.Decide(at)
	}
	return v
}
