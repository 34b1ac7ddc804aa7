// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	ics "github.com/arran4/golang-ical"

	schedulingv1 "github.com/finos/caplv/apis/scheduling/v1alpha1"
	"github.com/finos/caplv/pkg/schedule"
)

// moment is a local time for people.
const moment = "Mon 2006-01-02 15:04 MST"

// writeJSON prints one object for machines.
func writeJSON(out io.Writer, v *view) error {
	type window struct {
		Start *string `json:"start"`
		End   *string `json:"end"`
	}
	object := struct {
		Active   bool     `json:"active"`
		Next     *string  `json:"next"`
		Windows  []window `json:"windows"`
		Warnings []string `json:"warnings"`
	}{Active: v.decision.Wanted, Next: utc(v.decision.Change), Windows: []window{}, Warnings: []string{}}
	for _, w := range v.windows {
		object.Windows = append(object.Windows, window{utc(w.Start), utc(w.End)})
	}
	object.Warnings = append(object.Warnings, v.warnings...)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(object)
}

func utc(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC().Format(time.RFC3339))
}

func writeTable(out io.Writer, v *view) error {
	var text strings.Builder
	v.head(&text)
	table := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	row := func(cells ...string) {
		_, _ = fmt.Fprintln(table, strings.Join(cells, "\t")) // a strings.Builder does not fail
	}
	if v.lead > 0 {
		row("MADE", "OPENS", "CLOSES", "LASTS", "")
	} else {
		row("OPENS", "CLOSES", "LASTS", "")
	}
	for _, w := range v.windows {
		cells := []string{v.local(w.Start, "always"), v.local(w.End, "never"), lasts(w), v.oddity(w)}
		if v.lead > 0 {
			cells = append([]string{v.local(w.Start.Add(-v.lead), "always")}, cells...)
		}
		row(cells...)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	v.foot(&text)
	_, err := io.WriteString(out, trimRight(text.String()))
	return err
}

// trimRight takes the blanks from the end of each line.
func trimRight(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// head says what is so now.
func (v *view) head(text *strings.Builder) {
	state := "off"
	if v.decision.Wanted {
		state = "on"
	}
	fmt.Fprintf(text, "%s: %s\n", v.name, v.schedule)
	fmt.Fprintf(text, "%s: %s, decided by %s", v.local(v.now, ""), state, v.decision.By)
	if v.decision.Message != "" {
		fmt.Fprintf(text, " (%s)", v.decision.Message)
	}
	if v.decision.Change.IsZero() {
		text.WriteString(", and stays so\n\n")
		return
	}
	fmt.Fprintf(text, ", until %s\n\n", v.local(v.decision.Change, ""))
}

func (v *view) foot(text *strings.Builder) {
	if len(v.warnings) > 0 {
		text.WriteString("\n")
	}
	for _, w := range v.warnings {
		fmt.Fprintf(text, "Warning: %s\n", w)
	}
}

func (v *view) local(t time.Time, zero string) string {
	if t.Before(time.Unix(0, 0)) {
		return zero
	}
	return t.In(v.schedule.Zone()).Format(moment)
}

func lasts(w schedule.Window) string {
	if w.Start.IsZero() || w.End.IsZero() {
		return "-"
	}
	return strings.TrimSuffix(w.End.Sub(w.Start).String(), "0s")
}

// oddity marks a window that the change of a clock touches.
func (v *view) oddity(w schedule.Window) string {
	if w.Start.IsZero() || w.End.IsZero() {
		return ""
	}
	if len(v.schedule.Oddities(w.Start, w.Start)) > 0 {
		return "*"
	}
	return ""
}

// A cell of the week is an hour of the wall clock.
const (
	cellOn   = "██"
	cellPart = "▒▒"
	cellOff  = " ·"
	quarter  = 15 * time.Minute
	maxLost  = 3 * time.Hour // by which a day may be shorter, so that two weeks are
)

type cell struct{ on, all int }

// writeWeek draws a day per line and an hour per column.
func writeWeek(out io.Writer, v *view) error {
	var text strings.Builder
	v.head(&text)
	text.WriteString("                 ")
	for hour := range 24 {
		fmt.Fprintf(&text, "%2d", hour)
	}
	text.WriteString("\n")
	days, cells := v.quarters()
	for _, day := range days {
		mark := " "
		noon := day.Add(12 * time.Hour)
		if len(v.schedule.Oddities(noon, noon)) > 0 {
			mark = "*"
		}
		fmt.Fprintf(&text, "%s %s  ", day.Format("Mon 2006-01-02"), mark)
		for hour := range 24 {
			text.WriteString(cells[day.Format(time.DateOnly)][hour].String())
		}
		text.WriteString("\n")
	}
	v.foot(&text)
	_, err := io.WriteString(out, trimRight(text.String()))
	return err
}

// quarters looks at every quarter of an hour, and sums up by what the clock on the wall shows then.
func (v *view) quarters() (days []time.Time, cells map[string]*[24]cell) {
	cells = map[string]*[24]cell{}
	begin := v.now.In(v.schedule.Zone()).Truncate(quarter)
	begin = begin.Add(-time.Duration(begin.Hour()*4+begin.Minute()/15) * quarter)
	for t := begin; ; t = t.Add(quarter) {
		day := t.Format(time.DateOnly)
		if cells[day] == nil {
			if t.Sub(begin) >= span-maxLost {
				return days, cells
			}
			cells[day] = &[24]cell{}
			days = append(days, t)
		}
		c := &cells[day][t.Hour()]
		c.all++
		for _, w := range v.windows {
			if !t.Before(w.Start) && (w.End.IsZero() || t.Before(w.End)) {
				c.on++
				break
			}
		}
	}
}

func (c cell) String() string {
	switch {
	case c.all == 0:
		return "  " // the clock does not show it
	case c.on == 0:
		return cellOff
	case c.on < c.all:
		return cellPart
	default:
		return cellOn
	}
}

// writeCalendar prints the windows as events. One that is always open ends with what the preview shows.
func writeCalendar(out io.Writer, v *view) error {
	calendar := ics.NewCalendarFor("caplv//kubectl-fivespot")
	calendar.SetMethod(ics.MethodPublish)
	for i, w := range v.windows {
		start, end := w.Start, w.End
		if start.IsZero() {
			start = v.now
		}
		if end.IsZero() {
			end = v.now.Add(span)
		}
		event := calendar.AddEvent(fmt.Sprintf("%s-%d-%s.%s", start.UTC().Format("20060102T150405Z"), i, v.name, schedulingv1.GroupVersion.Group))
		event.SetDtStampTime(v.now)
		event.SetStartAt(start)
		event.SetEndAt(end)
		event.SetSummary(v.name)
		event.SetDescription(v.schedule.String())
	}
	return calendar.SerializeTo(out)
}
