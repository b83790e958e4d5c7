package calendar_test

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

// Each case is a window and one clock change of its zone. The window is closed at the instant in the field from. After that, it opens and
// closes exactly at the instants in the field changes.
func TestWindowsAcrossClockChanges(t *testing.T) {
	for _, c := range []struct {
		story, zone, start, end string
		from                    string // the window is closed at this instant
		changes                 []string
	}{
		// Europe/Berlin, 2026-03-29: 02:00 +01:00 -> 03:00 +02:00. 2026-10-25: 03:00 +02:00 -> 02:00 +01:00.
		{"a start in the gap opens after it", "Europe/Berlin", "30 2 * * *", "0 8 * * *", "2026-03-28 12:00:00 +0100",
			[]string{"2026-03-29 03:00:00 +0200", "2026-03-29 08:00:00 +0200", "2026-03-30 02:30:00 +0200"}},
		{"an end in the gap shuts after it", "Europe/Berlin", "0 22 * * *", "30 2 * * *", "2026-03-28 12:00:00 +0100",
			[]string{"2026-03-28 22:00:00 +0100", "2026-03-29 03:00:00 +0200", "2026-03-29 22:00:00 +0200"}},
		{"a window within the gap does not happen", "Europe/Berlin", "15 2 * * *", "45 2 * * *", "2026-03-28 12:00:00 +0100",
			[]string{"2026-03-30 02:15:00 +0200", "2026-03-30 02:45:00 +0200"}},
		{"an end and the next start in one gap leave no hole", "Europe/Berlin", "45 2 * * *", "15 2 * * *", "2026-03-28 02:15:00 +0100",
			[]string{"2026-03-28 02:45:00 +0100", "2026-03-30 02:15:00 +0200", "2026-03-30 02:45:00 +0200"}},
		{"at the edge of the gap 02:00 is 03:00", "Europe/Berlin", "0 2 * * *", "30 3 * * *", "2026-03-28 12:00:00 +0100",
			[]string{"2026-03-29 03:00:00 +0200", "2026-03-29 03:30:00 +0200"}},
		{"a start in the fold opens the first time", "Europe/Berlin", "30 2 * * *", "0 8 * * *", "2026-10-24 12:00:00 +0200",
			[]string{"2026-10-25 02:30:00 +0200", "2026-10-25 08:00:00 +0100", "2026-10-26 02:30:00 +0100"}},
		{"an end in the fold shuts the last time", "Europe/Berlin", "0 22 * * *", "30 2 * * *", "2026-10-24 12:00:00 +0200",
			[]string{"2026-10-24 22:00:00 +0200", "2026-10-25 02:30:00 +0100", "2026-10-25 22:00:00 +0100"}},
		{"a window within the fold is one", "Europe/Berlin", "15 2 * * *", "45 2 * * *", "2026-10-24 12:00:00 +0200",
			[]string{"2026-10-25 02:15:00 +0200", "2026-10-25 02:45:00 +0100", "2026-10-26 02:15:00 +0100"}},
		// On 2026-10-25 the clock shows 02:00 to 03:00 twice. The window that opened on the day before ends at the second 02:15. The next
		// window opens earlier, at the first 02:45. The two overlap, so the schedule has no closed time on this day. If only the latest
		// event determined the state, the schedule would be closed from the second 02:15 until 02:45 on the next day.
		{"a nearly full day is not lost in the fold", "Europe/Berlin", "45 2 * * *", "15 2 * * *", "2026-10-24 02:15:00 +0200",
			[]string{"2026-10-24 02:45:00 +0200", "2026-10-26 02:15:00 +0100", "2026-10-26 02:45:00 +0100"}},
		{"at the edge of the fold 03:00 occurs once", "Europe/Berlin", "0 1 * * *", "0 3 * * *", "2026-10-24 12:00:00 +0200",
			[]string{"2026-10-25 01:00:00 +0200", "2026-10-25 03:00:00 +0100"}},
		{"every half hour, at the gap", "Europe/Berlin", "*/30 * * * *", "10/30 * * * *", "2026-03-29 01:20:00 +0100",
			[]string{"2026-03-29 01:30:00 +0100", "2026-03-29 01:40:00 +0100", "2026-03-29 03:00:00 +0200", "2026-03-29 03:10:00 +0200"}},
		{"every half hour, in the fold", "Europe/Berlin", "*/30 * * * *", "10/30 * * * *", "2026-10-25 01:20:00 +0200",
			[]string{"2026-10-25 01:30:00 +0200", "2026-10-25 01:40:00 +0200", "2026-10-25 02:00:00 +0200",
				"2026-10-25 02:40:00 +0100", "2026-10-25 03:00:00 +0100", "2026-10-25 03:10:00 +0100"}},
		// Lord Howe changes by half an hour: 2026-10-04 02:00 +10:30 -> 02:30 +11:00, 2026-04-05 02:00 +11:00 -> 01:30 +10:30.
		{"Lord Howe's half gap", "Australia/Lord_Howe", "15 2 * * *", "0 4 * * *", "2026-10-03 12:00:00 +1030",
			[]string{"2026-10-04 02:30:00 +1100", "2026-10-04 04:00:00 +1100"}},
		{"Lord Howe's half fold", "Australia/Lord_Howe", "35 1 * * *", "50 1 * * *", "2026-04-04 12:00:00 +1100",
			[]string{"2026-04-05 01:35:00 +1100", "2026-04-05 01:50:00 +1030"}},
		// Sao Paulo skipped midnight: 2018-11-04 00:00 -03 -> 01:00 -02, and repeated 23:00 on 2018-02-17.
		{"a day without midnight", "America/Sao_Paulo", "0 0 * * 0", "0 6 * * 0", "2018-11-03 12:00:00 -0300",
			[]string{"2018-11-04 01:00:00 -0200", "2018-11-04 06:00:00 -0200", "2018-11-11 00:00:00 -0200"}},
		{"a day that ends twice", "America/Sao_Paulo", "30 23 * * 6", "45 23 * * 6", "2018-02-17 12:00:00 -0200",
			[]string{"2018-02-17 23:30:00 -0200", "2018-02-17 23:45:00 -0300", "2018-02-24 23:30:00 -0300"}},
		// Beirut: 2026-03-29 00:00 +02 -> 01:00 +03.
		{"Beirut without midnight", "Asia/Beirut", "0 20 * * *", "0 0 * * *", "2026-03-28 12:00:00 +0200",
			[]string{"2026-03-28 20:00:00 +0200", "2026-03-29 01:00:00 +0300"}},
		// Apia crossed the date line: 2011-12-29 24:00 -10 -> 2011-12-31 00:00 +14. There was no Friday.
		{"the Friday that never was", "Pacific/Apia", "0 8 * * 5", "0 20 * * 5", "2011-12-29 12:00:00 -1000",
			[]string{"2012-01-06 08:00:00 +1400", "2012-01-06 20:00:00 +1400"}},
		{"the weekend that began on Saturday", "Pacific/Apia", "0 20 * * 5", "0 8 * * 1", "2011-12-29 12:00:00 -1000",
			[]string{"2011-12-31 00:00:00 +1400", "2012-01-02 08:00:00 +1400"}},
		{"a night over the missing day", "Pacific/Apia", "0 22 * * *", "0 6 * * *", "2011-12-29 12:00:00 -1000",
			[]string{"2011-12-29 22:00:00 -1000", "2011-12-31 06:00:00 +1400"}},
		// In Morocco the standard time is UTC+1, and the clock is set back by an hour during Ramadan: 2026-02-15 03:00 +01 -> 02:00 +00.
		{"Ramadan begins in Casablanca", "Africa/Casablanca", "0 0 * * *", "30 2 * * *", "2026-02-14 12:00:00 +0100",
			[]string{"2026-02-15 00:00:00 +0100", "2026-02-15 02:30:00 +0000"}},
		{"Ramadan ends in Casablanca", "Africa/Casablanca", "30 2 * * *", "0 4 * * *", "2026-03-21 12:00:00 +0000",
			[]string{"2026-03-22 03:00:00 +0100", "2026-03-22 04:00:00 +0100"}},
		// Troll changes by two hours: 2026-10-25 03:00 +02 -> 01:00 +00.
		{"Troll's double hour", "Antarctica/Troll", "30 1 * * *", "30 2 * * *", "2026-10-24 12:00:00 +0200",
			[]string{"2026-10-25 01:30:00 +0200", "2026-10-25 02:30:00 +0000"}},
		// Until 1972-01-07 00:00, the clock in Monrovia was 44 minutes and 30 seconds behind UTC. Then it was set to UTC.
		{"Monrovia's half minute", "Africa/Monrovia", "0 23 * * *", "20 0 * * *", "1972-01-06 12:00:00 -0000",
			[]string{"1972-01-06 23:44:30 -0000", "1972-01-07 00:44:30 -0000"}},
		// For years after 2037, Go computes clock changes from the rule of the zone and not from its table. 2040 is a leap year, and ZoneBounds
		// returns a wrong end on 31 December 2040.
		{"the last night of a leap year", "Europe/Berlin", "0 22 * * *", "0 6 * * *", "2040-12-31 12:00:00 +0100",
			[]string{"2040-12-31 22:00:00 +0100", "2041-01-01 06:00:00 +0100"}},
		{"a gap by rule", "Europe/Berlin", "30 2 * * *", "0 8 * * *", "2050-03-26 12:00:00 +0100",
			[]string{"2050-03-27 03:00:00 +0200", "2050-03-27 08:00:00 +0200"}},
	} {
		t.Run(c.story, func(t *testing.T) {
			w := window(t, c.zone, c.start, c.end)
			now := at(t, w, c.from)
			for i, change := range c.changes {
				active, until := w.At(now)
				if open := i%2 == 1; active != open {
					t.Fatalf("at %s: open is %v, want %v", now.In(w.Location), active, open)
				}
				if want := at(t, w, change); !until.Equal(want) {
					t.Fatalf("at %s: until %s, want %s", now.In(w.Location), until, want.In(w.Location))
				}
				now = until
			}
		})
	}
}

func TestDatesInGapsAndFolds(t *testing.T) {
	for _, c := range []struct{ story, zone, reading, starts, ends string }{
		{"ordinary", "Europe/Berlin", "2026-11-21 02:30", "2026-11-21 02:30:00 +0100", "2026-11-21 02:30:00 +0100"},
		{"gap", "Europe/Berlin", "2026-03-29 02:30", "2026-03-29 03:00:00 +0200", "2026-03-29 03:00:00 +0200"},
		{"fold", "Europe/Berlin", "2026-10-25 02:30", "2026-10-25 02:30:00 +0200", "2026-10-25 02:30:00 +0100"},
		{"midnight gap", "Asia/Beirut", "2026-03-29 00:00", "2026-03-29 01:00:00 +0300", "2026-03-29 01:00:00 +0300"},
		{"no such day", "Pacific/Apia", "2011-12-30 12:00", "2011-12-31 00:00:00 +1400", "2011-12-31 00:00:00 +1400"},
	} {
		t.Run(c.story, func(t *testing.T) {
			w := &calendar.Window{Location: zone(t, c.zone)}
			reading, err := time.Parse("2006-01-02 15:04", c.reading)
			if err != nil {
				t.Fatal(err)
			}
			// The zone of the reading is ignored.
			reading = time.Date(reading.Year(), reading.Month(), reading.Day(), reading.Hour(), reading.Minute(), 0, 0, time.FixedZone("", 3600))
			if got := calendar.StartsAt(w.Location, reading); !got.Equal(at(t, w, c.starts)) {
				t.Errorf("starts at %s, want %s", got, c.starts)
			}
			if got := calendar.EndsAt(w.Location, reading); !got.Equal(at(t, w, c.ends)) {
				t.Errorf("ends at %s, want %s", got, c.ends)
			}
		})
	}
}

// The clock shows 02:15 twice, and 02:15 is the end of the window. The window must stay open until the second 02:15, and must not close
// before it.
func TestTheFoldIsReadOnceAndDoesNotFlap(t *testing.T) {
	w := window(t, "Europe/Berlin", "0 22 * * *", "15 2 * * *")
	for now, end := at(t, w, "2026-10-25 01:00:00 +0200"), at(t, w, "2026-10-25 02:15:00 +0100"); now.Before(end); now = now.Add(time.Second) {
		if active, until := w.At(now); !active || !until.Equal(end) {
			t.Fatalf("at %s: open %v until %s, want open until %s", now.In(w.Location), active, until, end)
		}
	}
}
