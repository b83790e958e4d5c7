package calendar_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

// cronText draws any five-field expression that robfig/cron accepts.
func cronText() *rapid.Generator[string] {
	field := func(low, high int) *rapid.Generator[string] {
		part := rapid.Custom(func(t *rapid.T) string {
			a := rapid.IntRange(low, high).Draw(t, "from")
			b := rapid.IntRange(a, high).Draw(t, "to")
			step := rapid.IntRange(1, high).Draw(t, "step")
			return rapid.SampledFrom([]string{
				"*", "*", fmt.Sprint(a), fmt.Sprintf("%d-%d", a, b), fmt.Sprintf("*/%d", step),
				fmt.Sprintf("%d/%d", a, step), fmt.Sprintf("%d-%d/%d", a, b, step), fmt.Sprintf("%d,%d", a, b),
			}).Draw(t, "part")
		})
		return part
	}
	return rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf("%s %s %s %s %s", field(0, 59).Draw(t, "minute"), field(0, 23).Draw(t, "hour"),
			field(1, 31).Draw(t, "day of month"), field(1, 12).Draw(t, "month"), field(0, 6).Draw(t, "day of week"))
	})
}

func instant() *rapid.Generator[time.Time] {
	return rapid.Map(rapid.Int64Range(y1970.Unix(), y2040.Unix()), func(s int64) time.Time { return time.Unix(s, 0).UTC() })
}

// Cron libraries handle clock changes differently. UTC has no clock changes, so in UTC the results must equal the results of robfig/cron.
func TestTheSearchAgreesWithRobfigCronInUTC(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text, from := cronText().Draw(rt, "cron"), instant().Draw(rt, "from")
		schedule, err := cron.ParseStandard("CRON_TZ=UTC " + text)
		if err != nil {
			rt.Fatalf("%q: %v", text, err)
		}
		c, want := bits(t, text), schedule.Next(from)
		next, ok := c.After(from)
		if want.IsZero() { // robfig/cron searches only five years ahead, and 29 February can be eight years away
			if ok && next.Before(from.AddDate(5, 0, 0)) {
				rt.Fatalf("%q from %s: next %s, robfig/cron has none", text, from, next)
			}
			return
		}
		if !ok || !next.Equal(want) {
			rt.Fatalf("%q from %s: next %s, %v; want %s", text, from, next, ok, want)
		}
		if back, ok := c.AtOrBefore(next); !ok || !back.Equal(next) {
			rt.Fatalf("%q: at or before the match %s is %s", text, next, back)
		}
		if back, ok := c.AtOrBefore(next.Add(-time.Second)); ok && back.After(from) {
			rt.Fatalf("%q: %s lies between %s and its next %s", text, back, from, next)
		}
	})
}

// searchMonths is sufficient only if the next matching day is at most 40 years away. The test uses the rarest days, 29 February on each
// weekday.
func TestNoDayIsOutOfReach(t *testing.T) {
	const star = 1 << 63
	longest := time.Duration(0)
	for weekday := range 7 {
		c := calendar.Cron{Minute: 1, Hour: 1, DayOfMonth: 1<<29 | star, Month: 1 << 2, DayOfWeek: 1 << weekday}
		end := time.Date(2400, 3, 1, 0, 0, 0, 0, time.UTC) // the calendar repeats after 400 years
		for now := time.Date(2000, 3, 1, 0, 0, 0, 0, time.UTC); now.Before(end); {
			next, ok := c.After(now)
			if !ok || next.Day() != 29 || next.Month() != 2 || int(next.Weekday()) != weekday {
				t.Fatalf("after %s, 29 February on weekday %d: %s, %v", now, weekday, next, ok)
			}
			if back, ok := c.AtOrBefore(next.Add(-time.Minute)); ok && back.After(now) {
				t.Fatalf("%s was passed over on the way from %s to %s", back, now, next)
			}
			longest, now = max(longest, next.Sub(now)), next
		}
	}
	if years := int(longest.Hours() / 24 / 365.2425); years < 39 || years > 40 {
		t.Errorf("the longest wait is %d years, the search is built for 40", years)
	}
}

func TestBitsOutsideTheirFieldMatchNothing(t *testing.T) {
	noon := calendar.Cron{Minute: 1 << 60, Hour: 1 << 24, DayOfMonth: 1, Month: 1, DayOfWeek: 1 << 7}
	every := calendar.Cron{Minute: ^uint64(0), Hour: ^uint64(0), DayOfMonth: ^uint64(0), Month: ^uint64(0), DayOfWeek: ^uint64(0)}
	if next, ok := noon.After(y1970); ok {
		t.Errorf("bits beyond the fields match at %s", next)
	}
	for _, field := range []struct {
		name string
		set  func(*calendar.Cron)
	}{
		{"minute", func(c *calendar.Cron) { c.Minute = noon.Minute }},
		{"hour", func(c *calendar.Cron) { c.Hour = noon.Hour }},
		{"day of month", func(c *calendar.Cron) { c.DayOfMonth = noon.DayOfMonth }},
		{"month", func(c *calendar.Cron) { c.Month = noon.Month }},
		{"day of week", func(c *calendar.Cron) { c.DayOfWeek = noon.DayOfWeek }},
	} {
		c := every
		field.set(&c)
		if next, ok := c.After(y1970); ok {
			t.Errorf("a %s beyond its range matches at %s", field.name, next)
		}
	}
	if next, ok := every.After(y1970); !ok || next.Sub(y1970) != time.Minute {
		t.Errorf("every minute: next after %s is %s", y1970, next)
	}
}
