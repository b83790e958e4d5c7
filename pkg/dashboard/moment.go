package dashboard

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// MomentForms is what ParseMoment reads, in the words of an error.
const MomentForms = "want 09:04, 09:04:05, 2026-11-22T09:04, 2026-11-22T09:04:00Z, or an age like 10m"

// dated and clockOnly are the forms of a moment without a zone of its own.
var (
	dated     = []string{"2006-01-02T15:04:05", "2006-01-02T15:04"}
	clockOnly = []string{"15:04:05", "15:04"}
)

// ParseMoment reads a moment as people write it: a clock time of the 24 hours before now, a date with a time, or an age. What has no zone
// of its own is read in zone. Empty text is the zero time, which means now.
func ParseMoment(text string, now time.Time, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if age, err := time.ParseDuration(strings.TrimPrefix(text, "-")); err == nil {
		return now.Add(-age), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range dated {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, nil
		}
	}
	for _, layout := range clockOnly {
		clock, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		y, m, d := now.In(zone).Date()
		at := func(day int) time.Time {
			return time.Date(y, m, day, clock.Hour(), clock.Minute(), clock.Second(), 0, zone)
		}
		if t := at(d); !t.After(now) {
			return t, nil
		}
		return at(d - 1), nil // 23:50 asked at 00:10 was yesterday
	}
	return time.Time{}, fmt.Errorf("at=%q: %s", text, MomentForms)
}

// maxZone bounds the name of a zone; the longest one that there is has 32 bytes.
const maxZone = 64

// asked reads the moment of a question. Its clock is the page's own, which in a simulation is not the reader's; its zone is the
// reader's, who names it (Europe/Berlin) or, where its name is not known, the offset in force (+02:00).
func (o *Options) asked(v url.Values) (time.Time, error) {
	zone := o.Zone
	if name := v.Get("zone"); name != "" {
		var err error
		if zone, err = parseZone(name); err != nil {
			return time.Time{}, err
		}
	}
	return ParseMoment(v.Get("at"), o.Clock(), zone)
}

func parseZone(name string) (*time.Location, error) {
	if t, err := time.Parse("-07:00", name); err == nil {
		_, east := t.Zone()
		return time.FixedZone("UTC"+name, east), nil
	}
	if len(name) <= maxZone && name != "Local" { // ours is nobody's business
		if zone, err := time.LoadLocation(name); err == nil {
			return zone, nil
		}
	}
	return nil, fmt.Errorf("zone=%.64q: want a name like Europe/Berlin, or an offset like +02:00", name)
}
