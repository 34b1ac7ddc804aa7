// Copyright The caplv Authors.
// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/finos/caplv/pkg/schedule"
)

// tick divides every moment at which one of the zones below changes its clock, in the years below.
const tick = 15 * time.Minute

// diary is what a clock on the wall shows, read off it once every tick: the independent truth for a zone.
type diary struct {
	zone  *time.Location
	begin time.Time
	// first are, by minutes of the wall clock, the moments at which the clock first showed that time or a later one.
	first map[int64]time.Time
}

func minutesOf(t time.Time) int64 {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC).Unix() / 60
}

func readClock(tb testing.TB, name string, begin, end time.Time) *diary {
	tb.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		tb.Fatal(err)
	}
	d := &diary{zone: zone, begin: begin, first: map[int64]time.Time{}}
	latest := minutesOf(begin.In(zone)) - 1
	for t := begin; t.Before(end); t = t.Add(tick) {
		shows := minutesOf(t.In(zone))
		for m := latest + 1; m <= shows; m++ {
			if m%15 == 0 {
				d.first[m] = t
			}
		}
		latest = max(latest, shows)
	}
	return d
}

// interval is a window, built from the diary.
type interval struct{ start, end time.Time }

// intervals builds the windows day by day, and joins what touches.
func (d *diary) intervals(days []int, spans [][2]int, dates int) []interval {
	var found []interval
	midnight := minutesOf(d.begin.In(d.zone))
	midnight -= midnight % (24 * 60)
	for i := range dates {
		day := midnight + int64(i)*24*60
		weekday := int(time.Unix(day*60, 0).UTC().Weekday())
		for _, listed := range days {
			if listed != weekday {
				continue
			}
			for _, s := range spans {
				length := int64((s[1]-s[0]+24)%24 + 1)
				from := day + int64(s[0])*60
				start, okStart := d.first[from]
				end, okEnd := d.first[from+length*60]
				if okStart && okEnd && end.After(start) {
					found = append(found, interval{start, end})
				}
			}
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].start.Before(found[j].start) })
	var joined []interval
	for _, f := range found {
		if n := len(joined); n > 0 && !f.start.After(joined[n-1].end) {
			if f.end.After(joined[n-1].end) {
				joined[n-1].end = f.end
			}
			continue
		}
		joined = append(joined, f)
	}
	return joined
}

func contains(list []interval, t time.Time) bool {
	i := sort.Search(len(list), func(i int) bool { return list[i].end.After(t) })
	return i < len(list) && !list[i].start.After(t)
}

// TestAgainstTheDiary compares 200,000 random moments, in 15 zones, with intervals built from reading the clock, and every window
// that the schedule publishes with the intervals: so it flips at each published transition and nowhere else.
func TestAgainstTheDiary(t *testing.T) {
	const schedulesPerZone, samples, dates = 20, 670, 800
	names := []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	for i, name := range []string{
		"UTC", "America/New_York", "America/Havana", "America/St_Johns", "America/Sao_Paulo", "America/Santiago",
		"Europe/London", "Europe/Dublin", "Africa/Cairo", "Africa/Casablanca", "Asia/Kathmandu", "Asia/Tehran",
		"Australia/Lord_Howe", "Pacific/Chatham", "Pacific/Auckland",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begin := time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC)
			end := begin.AddDate(0, 0, dates)
			d := readClock(t, name, begin, end)
			random := rand.New(rand.NewPCG(uint64(i), 2026))
			for range schedulesPerZone {
				var days []int
				var dayTexts, hourTexts []string
				var spans [][2]int
				for range 1 + random.IntN(3) {
					days = append(days, random.IntN(7))
					dayTexts = append(dayTexts, names[days[len(days)-1]])
				}
				for range 1 + random.IntN(3) {
					span := [2]int{random.IntN(24), random.IntN(24)}
					spans = append(spans, span)
					hourTexts = append(hourTexts, fmt.Sprintf("%d-%d", span[0], span[1]))
				}
				s := parse(t, name, dayTexts, hourTexts)
				want := d.intervals(days, spans, dates)
				compare(t, s, want, random, samples)
			}
		})
	}
}

// compare looks at what lies well within the diary.
func compare(t *testing.T, s schedule.Schedule, want []interval, random *rand.Rand, samples int) {
	t.Helper()
	from, to := want[2].end, want[len(want)-3].start
	for range samples {
		moment := from.Add(time.Duration(random.Int64N(int64(to.Sub(from)))))
		if got := s.On(moment); got != contains(want, moment) {
			t.Fatalf("%s at %s is %t", s, moment, got)
		}
	}
	published := s.Between(from, to)
	var expected []schedule.Window
	for _, w := range want[3 : len(want)-3] {
		expected = append(expected, schedule.Window{Start: w.start, End: w.end})
	}
	if diff := cmp.Diff(expected, published); diff != "" {
		t.Fatalf("%s publishes other windows (-want +got):\n%s", s, diff)
	}
}

// TestCronAgainstTheMinute compares cron windows with the plainest implementation: a switch that is thrown minute by minute.
func TestCronAgainstTheMinute(t *testing.T) {
	for _, c := range []struct {
		zone, from string
		window     schedule.CronWindow
		start      func(local time.Time) bool
		stop       func(local time.Time) bool
	}{
		{
			"America/New_York", "2026-10-25T12:00:00Z",
			schedule.CronWindow{Start: "30 8 * * 1-5", Stop: "15 17 * * 1-5"},
			func(l time.Time) bool { return l.Hour() == 8 && l.Minute() == 30 && l.Weekday()%6 != 0 },
			func(l time.Time) bool { return l.Hour() == 17 && l.Minute() == 15 && l.Weekday()%6 != 0 },
		}, {
			"Asia/Kathmandu", "2026-03-01T00:00:00Z",
			schedule.CronWindow{Start: "*/20 6-7 1,15 * *", Stop: "5 9 * * *"},
			func(l time.Time) bool {
				return (l.Hour() == 6 || l.Hour() == 7) && l.Minute()%20 == 0 && (l.Day() == 1 || l.Day() == 15)
			},
			func(l time.Time) bool { return l.Hour() == 9 && l.Minute() == 5 },
		},
	} {
		t.Run(c.window.Start, func(t *testing.T) {
			s, err := schedule.Parse(schedule.Spec{Zone: c.zone, Windows: []schedule.CronWindow{c.window}})
			if err != nil {
				t.Fatal(err)
			}
			zone := s.Zone()
			now, on, flips := instant(t, c.from), false, 0
			state := s.At(now)
			for range 20 * 24 * 60 {
				now = now.Add(time.Minute)
				if local := now.In(zone); c.start(local) {
					on = true
				} else if c.stop(local) {
					on = false
				}
				if !now.Before(state.Change) {
					if !now.Equal(state.Change) || s.At(now).On == state.On {
						t.Fatalf("was to change at %s", state.Change)
					}
					flips++
					state = s.At(now)
				}
				if flips > 0 && state.On != on {
					t.Fatalf("at %s it is %t", now, state.On)
				}
			}
			if flips < 2 {
				t.Fatalf("it changed %d times", flips)
			}
		})
	}
}

func TestOddities(t *testing.T) {
	for _, c := range []struct{ spec, from, to, says string }{
		{"sun 2 America/New_York", "2026-03-01T00:00:00Z", "2026-03-20T00:00:00Z", "Sun 2026-03-08 02:00-03:00 is skipped: the clock jumps over it"},
		{"sun 2-4 America/New_York", "2026-03-01T00:00:00Z", "2026-03-20T00:00:00Z", "Sun 2026-03-08 02:00-05:00 opens at 03:00: the clock jumps over 02:00"},
		{"sat 22-6 America/New_York", "2026-03-01T00:00:00Z", "2026-03-20T00:00:00Z", "Sat 2026-03-07 22:00-07:00 lasts 8h instead of 9h: the clock is changed meanwhile"},
		{"mon-sun 1 Australia/Lord_Howe", "2026-04-01T00:00:00Z", "2026-04-20T00:00:00Z", "Sun 2026-04-05 01:00-02:00 lasts 1h30m instead of 1h: the clock is changed meanwhile"},
		{"mon-fri 9-17 America/New_York", "2026-03-01T00:00:00Z", "2026-03-20T00:00:00Z", ""},
	} {
		t.Run(c.spec, func(t *testing.T) {
			fields := strings.Fields(c.spec)
			s := parse(t, fields[2], fields[:1], fields[1:2])
			got := strings.Join(s.Oddities(instant(t, c.from), instant(t, c.to)), "\n")
			if got != c.says {
				t.Errorf("it says %q, and not %q", got, c.says)
			}
		})
	}
}
