package calendar_test

import (
	"archive/zip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/robfig/cron/v3"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

// zoneNames returns the names of the zones of the Go installation that runs the test. If they cannot be read, it returns the names of Go
// 1.26.
func zoneNames(t testing.TB) []string {
	t.Helper()
	if archive, err := zip.OpenReader(filepath.Join(os.Getenv("GOROOT"), "lib", "time", "zoneinfo.zip")); err == nil {
		defer archive.Close()
		var names []string
		for _, f := range archive.File {
			if !strings.HasSuffix(f.Name, "/") {
				names = append(names, f.Name)
			}
		}
		return names
	}
	data, err := os.ReadFile("testdata/zones.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(data))
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// bits parses a cron expression with robfig/cron, as package policy does, and returns its bit sets.
func bits(t testing.TB, text string) calendar.Cron {
	t.Helper()
	schedule, err := cron.ParseStandard(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	s := schedule.(*cron.SpecSchedule)
	return calendar.Cron{Minute: s.Minute, Hour: s.Hour, DayOfMonth: s.Dom, Month: s.Month, DayOfWeek: s.Dow}
}

func window(t testing.TB, zoneName, start, end string) *calendar.Window {
	t.Helper()
	return &calendar.Window{Location: zone(t, zoneName), Start: bits(t, start), End: bits(t, end)}
}

var (
	y1970 = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)
	y2040 = time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)
)

// transitions returns the instants between 1970 and 2040 at which the clock of the zone changes. It compares the offset from UTC at the
// beginning and at the end of each stride. If they differ, it finds the change by bisection.
func transitions(loc *time.Location, stride time.Duration) []time.Time {
	ahead := func(t time.Time) int {
		_, seconds := t.In(loc).Zone()
		return seconds
	}
	var found []time.Time
	for a, was := y1970, ahead(y1970); a.Before(y2040); a = a.Add(stride) {
		is := ahead(a.Add(stride))
		if is == was {
			continue
		}
		before, after := a, a.Add(stride)
		for after.Sub(before) > time.Second {
			if middle := before.Add(after.Sub(before) / 2).Truncate(time.Second); ahead(middle) == was {
				before = middle
			} else {
				after = middle
			}
		}
		found, was = append(found, after), is
	}
	return found
}
