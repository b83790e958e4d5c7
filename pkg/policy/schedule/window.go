// Package schedule compiles the cron expressions, days and time zones of a schedule into a calendar.Window, and finds overlapping
// windows.
package schedule

import (
	"errors"
	"regexp"
	"strings"
	"sync"
	"time"
	_ "time/tzdata" // embeds the time zones: the controller's image has no zone files, and the zones of a laptop may be outdated

	"github.com/robfig/cron/v3"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
)

// cronParser parses expressions with five cron fields, as KEDA's cron trigger does. It rejects descriptors such as @daily.
var cronParser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

const cronAllowed = `five cron fields: minute, hour, day of month, month, day of week, such as "0 8 * * 1-5"`

func parseCron(text string) (calendar.Cron, error) {
	switch {
	case len(text) > 200:
		return calendar.Cron{}, errors.New("it has more than 200 characters")
	case strings.Contains(text, "TZ="):
		return calendar.Cron{}, errors.New("the time zone belongs into the field timezone")
	}
	parsed, err := cronParser.Parse(text)
	if err != nil {
		return calendar.Cron{}, err
	}
	s, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return calendar.Cron{}, errors.New("it does not name times of a day")
	}
	return calendar.Cron{Minute: s.Minute, Hour: s.Hour, DayOfMonth: s.Dom, Month: s.Month, DayOfWeek: s.Dow}, nil
}

// parseZone loads an IANA time zone. It rejects "Local", because this zone depends on the node on which the controller runs.
func parseZone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, errors.New("is not a time zone")
	}
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, err
	}
	kept, _ := zones.LoadOrStore(name, zone)
	return kept.(*time.Location), nil
}

// zones caches the time zones, because a zone is read from a file and uses some kilobytes of memory. There are about 600 zone names.
var zones sync.Map

// scheduleName limits the characters and the length of a schedule's name, which is part of reasons, log lines and Events.
var scheduleName = regexp.MustCompile(`^[\p{L}\p{N}]([-_. \p{L}\p{M}\p{N}]{0,61}[\p{L}\p{M}\p{N}])?$`)

const scheduleNameAllowed = "at most 63 letters, digits, spaces, '-', '_' and '.', a letter or digit first and last"

// Text contains the fields of a window as they are written in a policy or a capacity group.
type Text struct{ Name, Timezone, Start, End, From, Until string }

// Compile compiles a window. ok is false if the window has a problem.
func Compile(f *decode.Collector, w Text, p *decode.Path) (out calendar.Window, ok bool) {
	before := len(f.Problems)
	if w.Name != "" && !scheduleName.MatchString(w.Name) {
		f.Reject(p.Key("name"), "is not a valid schedule name", scheduleNameAllowed)
	}
	zone, err := parseZone(w.Timezone)
	if err != nil {
		if w.Timezone != "" {
			f.Reject(p.Key("timezone"), "is not a time zone", "an IANA time zone such as Europe/Berlin or Etc/UTC")
		}
		zone = time.UTC
	}
	out = calendar.Window{Name: w.Name, Location: zone}
	out.Start = readCron(f, w.Start, p.Key("start"))
	out.End = readCron(f, w.End, p.Key("end"))
	out.From = readMoment(f, w.From, p.Key("from"), zone, false)
	out.To = readMoment(f, w.Until, p.Key("until"), zone, true)
	switch {
	case (w.Start == "") != (w.End == ""):
		missing := "end"
		if w.Start == "" {
			missing = "start"
		}
		f.Reject(p.Key(missing), "is missing", "start and end together")
	case w.Start == "" && w.From == "" && w.Until == "":
		f.Reject(p.Key("start"), "is missing", "start and end, from and until, or all four")
	case w.Start == "" && (w.From == "" || w.Until == ""):
		f.Reject(p.Key("until"), "a window that happens once needs both sides", "from and until")
	}
	if len(f.Problems) > before {
		return out, false
	}
	checkWindow(f, w, &out, p)
	return out, len(f.Problems) == before
}

func checkWindow(f *decode.Collector, w Text, out *calendar.Window, p *decode.Path) {
	switch {
	case w.Start != "" && out.Start == out.End:
		f.Reject(p.Key("end"), "equals start, so the window never opens", "an end that differs from the start")
	case !out.From.IsZero() && !out.To.IsZero() && !out.From.Before(out.To):
		f.Reject(p.Key("until"), "is not after from", "a later day or time")
	case out.NeverFires():
		f.Reject(p.Key("start"), "the window never opens", "days that exist, within from and until")
	case out.NeverEnds():
		f.Reject(p.Key("end"), "the window never closes", "days that exist, or an until")
	}
}

func readCron(f *decode.Collector, text string, p *decode.Path) calendar.Cron {
	if text == "" {
		return calendar.Cron{}
	}
	c, err := parseCron(text)
	if err != nil {
		f.Reject(p, "is not a cron expression: "+err.Error(), cronAllowed)
	}
	return c
}

// momentLayouts contains the formats of a time without a zone. The first format is a date without a time of day.
var momentLayouts = []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02 15:04:05"}

// readMoment parses the field from or until of a window, in the window's time zone. end is true for the field until. If until is a date
// without a time of day, the window includes the whole day.
func readMoment(f *decode.Collector, text string, p *decode.Path, zone *time.Location, end bool) time.Time {
	if text == "" {
		return time.Time{}
	}
	for i, layout := range momentLayouts {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		if end && i == 0 {
			t = t.AddDate(0, 0, 1)
		}
		if end {
			return calendar.EndsAt(zone, t)
		}
		return calendar.StartsAt(zone, t)
	}
	f.Reject(p, "is not a day or a time", "2026-11-27, or 2026-11-27T18:00 in the time zone")
	return time.Time{}
}
