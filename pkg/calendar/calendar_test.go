package calendar_test

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

const layout = "2006-01-02 15:04:05 -0700"

// at parses an instant in the zone of the window. A time that occurs twice in a fold must be written with its offset, in the format of the
// constant layout.
func at(t testing.TB, w *calendar.Window, text string) time.Time {
	t.Helper()
	if instant, err := time.Parse(layout, text); err == nil {
		return instant
	}
	instant, err := time.ParseInLocation("Mon 2006-01-02 15:04", text, w.Location)
	if err != nil {
		t.Fatal(err)
	}
	if back := instant.Format("Mon 2006-01-02 15:04"); back != text {
		t.Fatalf("%q is no such weekday or time in %s: %q", text, w.Location, back)
	}
	return instant
}

// beat is one call of At with its expected results: at the instant now, the window is open or closed, and it remains open or closed until
// the instant until.
type beat struct {
	now   string
	open  bool
	until string // empty means never
}

func checkStory(t *testing.T, w *calendar.Window, story []beat) {
	t.Helper()
	for _, b := range story {
		now := at(t, w, b.now)
		open, until := w.At(now)
		if open != b.open {
			t.Errorf("%s: open is %v, want %v", b.now, open, b.open)
		}
		switch {
		case b.until == "" && !until.IsZero():
			t.Errorf("%s: until %s, want never", b.now, until)
		case b.until != "" && !until.Equal(at(t, w, b.until)):
			t.Errorf("%s: until %s, want %s", b.now, until, b.until)
		}
	}
}

func TestOfficeHoursOpenInTheMorningAndCloseAtNight(t *testing.T) {
	w := window(t, "Europe/Berlin", "0 8 * * 1-5", "0 20 * * 1-5")
	checkStory(t, w, []beat{
		{"Fri 2026-11-20 07:59", false, "Fri 2026-11-20 08:00"},
		{"2026-11-20 07:59:59 +0100", false, "Fri 2026-11-20 08:00"},
		{"Fri 2026-11-20 08:00", true, "Fri 2026-11-20 20:00"}, // the window is open at its start
		{"2026-11-20 19:59:59 +0100", true, "Fri 2026-11-20 20:00"},
		{"Fri 2026-11-20 20:00", false, "Mon 2026-11-23 08:00"}, // the window is closed at its end
		{"Sat 2026-11-21 12:00", false, "Mon 2026-11-23 08:00"},
		{"2026-11-23 09:00:00 +0200", true, "Mon 2026-11-23 20:00"}, // 08:00 in Berlin; the argument of At may be in any time zone
	})
}

func TestTheWindowIsClosedUntilTheStart(t *testing.T) {
	w := window(t, "Europe/Berlin", "0 8 * * *", "0 20 * * *")
	start := at(t, w, "Fri 2026-11-20 08:00")
	if open, until := w.At(start.Add(-time.Nanosecond)); open || !until.Equal(start) {
		t.Errorf("a nanosecond before: open %v until %s, want shut until %s", open, until, start)
	}
}

func TestTheNightSpansMidnight(t *testing.T) {
	w := window(t, "America/New_York", "0 23 * * *", "0 6 * * *")
	checkStory(t, w, []beat{
		{"Tue 2026-11-17 22:59", false, "Tue 2026-11-17 23:00"},
		{"Tue 2026-11-17 23:00", true, "Wed 2026-11-18 06:00"},
		{"Wed 2026-11-18 00:00", true, "Wed 2026-11-18 06:00"},
		{"Wed 2026-11-18 05:59", true, "Wed 2026-11-18 06:00"},
		{"Wed 2026-11-18 06:00", false, "Wed 2026-11-18 23:00"},
	})
}

func TestTheWeekendRunsFromFridayEveningToMondayMorning(t *testing.T) {
	w := window(t, "Asia/Tokyo", "0 20 * * 5", "0 8 * * 1")
	checkStory(t, w, []beat{
		{"Fri 2026-11-20 19:59", false, "Fri 2026-11-20 20:00"},
		{"Fri 2026-11-20 20:00", true, "Mon 2026-11-23 08:00"},
		{"Sun 2026-11-22 12:00", true, "Mon 2026-11-23 08:00"},
		{"Mon 2026-11-23 08:00", false, "Fri 2026-11-27 20:00"},
	})
}

// In kedacore/keda#4677, the start and the end of a cron trigger match on different days of the week, and KEDA keeps the pods from Friday
// to Sunday. Package calendar has the same rule: a window is open from a start until the first time after it at which the end matches,
// even if that is on another day.
func TestAWindowLastsUntilTheFirstEndAfterItsStart(t *testing.T) {
	nights := window(t, "Europe/Berlin", "0 22 * * 1-5", "0 6 * * 1-5")
	checkStory(t, nights, []beat{
		{"Thu 2026-11-19 23:00", true, "Fri 2026-11-20 06:00"},
		// No end matches on Saturday or Sunday, so the window that opens on Friday evening closes on Monday. Package policy reports a warning for
		// such a window.
		{"Fri 2026-11-20 23:00", true, "Mon 2026-11-23 06:00"},
	})
	meant := window(t, "Europe/Berlin", "0 22 * * 1-5", "0 6 * * *")
	checkStory(t, meant, []beat{
		{"Fri 2026-11-20 23:00", true, "Sat 2026-11-21 06:00"},
		{"Sat 2026-11-21 06:00", false, "Mon 2026-11-23 22:00"},
	})
}

func TestStartsWithinAnOpenWindowChangeNothing(t *testing.T) {
	w := window(t, "UTC", "*/10 * * * *", "0 20 * * *")
	checkStory(t, w, []beat{
		// At 20:00 both Start and End match, and the end takes precedence. The window is closed until the next start ten minutes later.
		{"Fri 2026-11-20 20:00", false, "Fri 2026-11-20 20:10"},
		{"Fri 2026-11-20 20:10", true, "Sat 2026-11-21 20:00"},
		{"Sat 2026-11-21 12:34", true, "Sat 2026-11-21 20:00"},
	})
}

func TestTheEndWinsWhereStartAndEndCoincide(t *testing.T) {
	w := window(t, "UTC", "0 8 * * *", "0 8 * * 1-5") // opens only on weekends
	checkStory(t, w, []beat{
		{"Fri 2026-11-20 08:00", false, "Sat 2026-11-21 08:00"},
		{"Sat 2026-11-21 08:00", true, "Mon 2026-11-23 08:00"},
	})
}

// kedacore/keda#3566 requests a window that opens only once, at a certain date, for example for a promotion.
func TestAOneTimeWindowOpensOnceAndIsOver(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	day := func(y, m, d, h int) time.Time { return time.Date(y, time.Month(m), d, h, 0, 0, 0, time.UTC) }
	w := &calendar.Window{
		Name: "black-friday", Location: berlin,
		From: calendar.StartsAt(berlin, day(2026, 11, 27, 6)),
		To:   calendar.EndsAt(berlin, day(2026, 11, 28, 0)),
	}
	checkStory(t, w, []beat{
		{"Sat 2026-11-21 12:00", false, "Fri 2026-11-27 06:00"},
		{"Fri 2026-11-27 06:00", true, "Sat 2026-11-28 00:00"},
		{"2026-11-27 23:59:59 +0100", true, "Sat 2026-11-28 00:00"},
		{"Sat 2026-11-28 00:00", false, ""},
	})
}

func TestASeasonCutsTheRecurringWindowAtBothDates(t *testing.T) {
	w := window(t, "Europe/Berlin", "0 8 * * 1-5", "0 20 * * 1-5")
	w.From, w.To = at(t, w, "Mon 2026-11-23 12:00"), at(t, w, "Wed 2026-11-25 08:00")
	checkStory(t, w, []beat{
		{"Mon 2026-11-23 09:00", false, "Mon 2026-11-23 12:00"}, // open according to Start and End, but closed because it is before From
		{"Mon 2026-11-23 12:00", true, "Mon 2026-11-23 20:00"},
		{"Mon 2026-11-23 20:00", false, "Tue 2026-11-24 08:00"},
		{"Tue 2026-11-24 20:00", false, ""}, // the window of Wednesday would open exactly at To, so it does not open
		{"Wed 2026-11-25 09:00", false, ""},
	})
	w.To = at(t, w, "Tue 2026-11-24 09:30")
	checkStory(t, w, []beat{{"Tue 2026-11-24 08:00", true, "Tue 2026-11-24 09:30"}})
}

func TestAHalfOpenSeasonHasOneDate(t *testing.T) {
	w := &calendar.Window{Location: zone(t, "UTC"), From: y2040}
	checkStory(t, w, []beat{
		{"Fri 2026-11-20 08:00", false, "Sun 2040-01-01 00:00"},
		{"Sun 2040-01-01 00:00", true, ""},
	})
	w = &calendar.Window{Location: zone(t, "UTC"), To: y2040}
	checkStory(t, w, []beat{
		{"Fri 2026-11-20 08:00", true, "Sun 2040-01-01 00:00"},
		{"Sun 2040-01-01 00:00", false, ""},
	})
}

func TestNextStartLooksPastTheOpenWindow(t *testing.T) {
	w := window(t, "Europe/Berlin", "0 8 * * 1-5", "0 20 * * 1-5")
	for _, c := range []struct{ now, want string }{
		{"Fri 2026-11-20 07:50", "Fri 2026-11-20 08:00"},
		{"Fri 2026-11-20 08:00", "Mon 2026-11-23 08:00"}, // the result is later than now and never equal to now
		{"Fri 2026-11-20 12:00", "Mon 2026-11-23 08:00"},
		{"Sun 2026-11-22 12:00", "Mon 2026-11-23 08:00"},
	} {
		got, ok := w.NextStart(at(t, w, c.now))
		if !ok || !got.Equal(at(t, w, c.want)) {
			t.Errorf("%s: next start %s, %v; want %s", c.now, got, ok, c.want)
		}
	}
	w.To = at(t, w, "Sat 2026-11-21 00:00")
	if got, ok := w.NextStart(at(t, w, "Fri 2026-11-20 12:00")); ok {
		t.Errorf("after the season the next start is %s, want none", got)
	}
	forGood := &calendar.Window{From: y1970}
	if got, ok := forGood.NextStart(y2040); ok {
		t.Errorf("a window that stays open starts again at %s, want never", got)
	}
}

func TestUntilDoesNotDependOnTheZoneOfNow(t *testing.T) {
	w := window(t, "Europe/Berlin", "0 8 * * 1-5", "0 20 * * 1-5")
	now := at(t, w, "Fri 2026-11-20 12:00")
	_, want := w.At(now)
	for _, name := range []string{"UTC", "Pacific/Kiritimati", "America/Los_Angeles"} {
		if _, until := w.At(now.In(zone(t, name))); until != want || until.Location() != w.Location {
			t.Errorf("now in %s: until %s, want %s", name, until, want)
		}
	}
}

func TestNoZoneIsUTC(t *testing.T) {
	w := &calendar.Window{Start: bits(t, "0 8 * * *"), End: bits(t, "0 20 * * *")}
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	if open, until := w.At(now); !open || !until.Equal(now.Add(12*time.Hour)) {
		t.Errorf("open %v until %s, want open until 20:00 UTC", open, until)
	}
}

func TestWindowsThatNeverFireAreReported(t *testing.T) {
	const office, evening = "0 8 * * 1-5", "0 20 * * 1-5"
	season := func(start, end, from, to string) *calendar.Window {
		w := window(t, "Europe/Berlin", start, end)
		w.From, w.To = at(t, w, from), at(t, w, to)
		return w
	}
	for _, c := range []struct {
		story string
		w     *calendar.Window
		never bool
	}{
		{"office hours", window(t, "UTC", office, evening), false},
		{"29 February", window(t, "UTC", "0 8 29 2 *", "0 20 29 2 *"), false},
		{"30 February", window(t, "UTC", "0 8 30 2 *", "0 20 * * *"), true},
		{"31 in months of 30 days", window(t, "UTC", "0 8 31 4,6,9,11 *", "0 20 * * *"), true},
		{"start is end", window(t, "UTC", office, office), true},
		{"each start is an end", window(t, "UTC", office, "*/15 * * * *"), true},
		{"all but one start is an end", window(t, "UTC", "*/15 8 * * *", "0,15,30 8 * * *"), false},
		{"each start day is an end day", window(t, "UTC", "0 8 1 * *", "0 8 * * *"), true},
		{"one start day is no end day", window(t, "UTC", "0 8 * * *", "0 8 * * 0-5"), false},
		{"nothing said", &calendar.Window{}, true},
		{"an end alone", &calendar.Window{End: bits(t, office)}, true},
		{"dates in the wrong order", &calendar.Window{From: y2040, To: y1970}, true},
		{"a season without its day", season(office, evening, "Sat 2026-11-21 00:00", "Mon 2026-11-23 00:00"), true},
		{"a season that begins in an open window", season(office, evening, "Fri 2026-11-20 19:59", "Mon 2026-11-23 00:00"), false},
		{"a season that is over", season(office, evening, "Fri 1999-11-19 00:00", "Sat 1999-11-20 00:00"), false},
	} {
		if got := c.w.NeverFires(); got != c.never {
			t.Errorf("%s: never fires is %v, want %v", c.story, got, c.never)
		}
		now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		open, until := c.w.At(now)
		if _, again := c.w.NextStart(now); c.never && (open || !until.IsZero() || again) {
			t.Errorf("%s: never fires, but At returns %v, %s", c.story, open, until)
		}
	}
}

func TestWindowsThatNeverEndAreReported(t *testing.T) {
	w := window(t, "UTC", "0 8 * * *", "0 20 30 2 *")
	if !w.NeverEnds() {
		t.Error("an end on 30 February: never ends is false, want true")
	}
	checkStory(t, w, []beat{{"Fri 2026-11-20 07:00", true, ""}}) // the window opened on the day before and never closes
	w.To = y2040
	if w.NeverEnds() {
		t.Error("the same within a season: never ends is true, want false")
	}
	if window(t, "UTC", "0 8 * * *", "0 20 * * *").NeverEnds() {
		t.Error("office hours: never ends is true, want false")
	}
	if window(t, "UTC", "0 8 30 2 *", "0 20 30 2 *").NeverEnds() {
		t.Error("a window that never fires: never ends is true, want false")
	}
}
