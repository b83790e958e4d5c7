package explain

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// TimeForms lists the forms that ParseTime accepts, for error messages.
const TimeForms = "want 09:04, 09:04:05, 2026-11-22T09:04, 2026-11-22T09:04:00Z, or an age like 10m"

// Layouts of times without a zone.
var (
	dateAndTime = []string{"2006-01-02T15:04:05", "2006-01-02T15:04"}
	timeOfDay   = []string{"15:04:05", "15:04"}
)

// ParseTime parses a time of day, a date with a time, or an age. A time of day means its last occurrence before now. If the text contains
// no time zone, it is a time in zone. For an empty text, ParseTime returns the zero time, which callers treat as now.
func ParseTime(text string, now time.Time, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if age, err := time.ParseDuration(strings.TrimPrefix(text, "-")); err == nil {
		return now.Add(-age), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	for _, layout := range dateAndTime {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, nil
		}
	}
	for _, layout := range timeOfDay {
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
		return at(d - 1), nil // a time of day after now is a time of yesterday, for example 23:50 if now is 00:10
	}
	return time.Time{}, fmt.Errorf("at=%q: %s", text, TimeForms)
}

// maxZoneName is the maximum length of the name of a time zone in bytes. The longest name in the IANA database has 32 bytes.
const maxZoneName = 64

// ParseQuery parses the time in the query of a request. The query parameter `at` has one of the forms that ParseTime accepts. The query
// parameter `zone` is the time zone of a value of `at` that contains no time zone: a name (Europe/Berlin) or an offset (+02:00). Without
// this parameter, ParseQuery uses its argument zone.
func ParseQuery(v url.Values, now time.Time, zone *time.Location) (time.Time, error) {
	if name := v.Get("zone"); name != "" {
		var err error
		if zone, err = parseZone(name); err != nil {
			return time.Time{}, err
		}
	}
	return ParseTime(v.Get("at"), now, zone)
}

func parseZone(name string) (*time.Location, error) {
	if t, err := time.Parse("-07:00", name); err == nil {
		_, east := t.Zone()
		return time.FixedZone("UTC"+name, east), nil
	}
	if len(name) <= maxZoneName && name != "Local" { // "Local" would be the time zone of the server, which a client cannot mean
		if zone, err := time.LoadLocation(name); err == nil {
			return zone, nil
		}
	}
	return nil, fmt.Errorf("zone=%.64q: want a name like Europe/Berlin, or an offset like +02:00", name)
}
