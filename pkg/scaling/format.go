package scaling

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

// Format prints a value in its unit: 87, 91%, 250ms.
func (u Unit) Format(v float64) string {
	switch u {
	case Percent:
		return trim(v*100) + "%"
	case Seconds:
		if v < 1 {
			return trim(v*1000) + "ms"
		}
		return trim(v) + "s"
	}
	return trim(v)
}

// trim prints a value of at least 1 with at most one decimal, and a smaller one with two significant digits.
func trim(v float64) string {
	if v > 0 && v < 1 {
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
	s := strconv.FormatFloat(v, 'f', 1, 64)
	if n := len(s); n > 2 && s[n-2:] == ".0" {
		return s[:n-2]
	}
	return s
}

// length prints a number of seconds: in seconds below 15 minutes, otherwise in minutes.
func length(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if d >= 15*time.Minute {
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

func plural(n float64, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

func replicas(n float64) string { return fmt.Sprintf("%.0f %s", n, plural(n, "replica")) }

// until returns " until 15:04 UTC", or "" for the time 0, which means that the end is not known.
func until(unix float64) string {
	if unix == 0 {
		return ""
	}
	return " until " + clockIn(unix, time.UTC, "15:04")
}

// untilSchedule returns the same text as until, in the time zone of the schedule i.
func (p *Policy) untilSchedule(i int8, unix float64) string {
	if unix == 0 {
		return ""
	}
	return " until " + p.scheduleClock(i, unix)
}

// scheduleClock prints a time in the zone of a schedule. It includes the date for a window that occurs once, because that may be days
// ahead.
func (p *Policy) scheduleClock(i int8, unix float64) string {
	if i < 0 || int(i) >= len(p.Schedules) {
		return clockIn(unix, time.UTC, "15:04")
	}
	w := &p.Schedules[i].Window
	zone, layout := w.Location, "15:04"
	if zone == nil {
		zone = time.UTC
	}
	if (w.Start == calendar.Cron{}) {
		layout = "2006-01-02 15:04"
	}
	return clockIn(unix, zone, layout)
}

// clockIn formats Unix seconds with a layout, and adds the seconds only if they are not 0.
func clockIn(unix float64, zone *time.Location, layout string) string {
	t := time.UnixMilli(int64(unix * 1000)).In(zone)
	if t.Second() != 0 {
		layout += ":05"
	}
	return t.Format(layout) + " " + zone.String()
}

func (p *Policy) signalName(i int8) string {
	if i < 0 || int(i) >= len(p.Signals) {
		return "signal " + strconv.Itoa(int(i))
	}
	return p.Signals[i].Name
}

func (p *Policy) scheduleName(i int8) string {
	if i < 0 || int(i) >= len(p.Schedules) {
		return "schedule " + strconv.Itoa(int(i))
	}
	return "schedule " + p.Schedules[i].Window.Name
}

func (p *Policy) forecastOf(i int8) Forecast {
	if i < 0 || int(i) >= len(p.Signals) {
		return Forecast{}
	}
	return p.Signals[i].Forecast
}

func (p *Policy) unit(i int8) Unit {
	if i < 0 || int(i) >= len(p.Signals) {
		return Count
	}
	return p.Signals[i].Unit
}

// targetText prints the target of a signal: "target 10 per replica" for a total, "target 80%" for a mean.
func (p *Policy) targetText(i int8) string {
	if i < 0 || int(i) >= len(p.Signals) {
		return "target not known"
	}
	s := &p.Signals[i]
	if s.Kind == Total {
		return "target " + s.Unit.Format(s.Target) + " per replica"
	}
	return "target " + s.Unit.Format(s.Target)
}
