package explain

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain/explaintest"
)

func TestParseTime(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 20, 9, 4, 30, 0, time.UTC)
	for _, c := range []struct {
		text string
		zone *time.Location
		want string
	}{
		{"", time.UTC, "0001-01-01T00:00:00Z"},
		{"09:04", time.UTC, "2026-11-20T09:04:00Z"},
		{"09:05", time.UTC, "2026-11-19T09:05:00Z"}, // 09:05 is later than now, so the result is 09:05 of yesterday
		{"03:12:07", time.UTC, "2026-11-20T03:12:07Z"},
		{"10:04", berlin, "2026-11-20T09:04:00Z"},
		{"10:05", berlin, "2026-11-19T09:05:00Z"},
		{"10m", berlin, "2026-11-20T08:54:30Z"},
		{"-1h", time.UTC, "2026-11-20T08:04:30Z"},
		{"2026-11-20T10:00", berlin, "2026-11-20T09:00:00Z"},
		{"2026-11-20T10:00:00+02:00", time.UTC, "2026-11-20T08:00:00Z"},
	} {
		got, err := ParseTime(c.text, now, c.zone)
		if err != nil || got.UTC().Format(time.RFC3339) != c.want {
			t.Errorf("%q in %s: %s, %v, want %s", c.text, c.zone, got, err, c.want)
		}
	}
	for _, text := range []string{"yesterday", "25:00", "9", "09:04Z", "2026-13-01T00:00"} {
		if got, err := ParseTime(text, now, time.UTC); err == nil || !strings.Contains(err.Error(), "want 09:04") {
			t.Errorf("%q: %s, %v, want an error that lists the accepted forms", text, got, err)
		}
	}
}

// In Berlin, 25 October 2026 has 25 hours. At 11:30 of this day in Berlin, the last 12:00 in Berlin was 24.5 hours ago.
func TestYesterdayIsInTheZoneOfTheRequest(t *testing.T) {
	now := time.Date(2026, 10, 25, 10, 30, 0, 0, time.UTC)
	at, err := ParseQuery(url.Values{"at": {"12:00"}, "zone": {"Europe/Berlin"}}, now, time.UTC)
	if want := time.Date(2026, 10, 24, 10, 0, 0, 0, time.UTC); err != nil || !at.Equal(want) {
		t.Errorf("%s, %v, want %s", at, err, want)
	}
}

func TestUnknownZonesAreRejected(t *testing.T) {
	now := explaintest.Start
	for _, zone := range []string{"Mars/Olympus", "../../etc/passwd", "/etc/passwd", "Local", "+2", strings.Repeat("x", 1000)} {
		at, err := ParseQuery(url.Values{"at": {"09:04"}, "zone": {zone}}, now, time.UTC)
		if err == nil || !strings.Contains(err.Error(), "Europe/Berlin") {
			t.Errorf("%.40q: %s, %v", zone, at, err)
		}
	}
	at, err := ParseQuery(url.Values{"at": {"10:00"}, "zone": {"+02:00"}}, now, time.UTC)
	if err != nil || !at.Equal(now.Add(-time.Hour)) {
		t.Errorf("an offset: %s, %v", at, err)
	}
}

// FuzzParseQuery checks that ParseQuery returns a time or an error for any text, and that a time of day is at most 26 hours ago.
func FuzzParseQuery(f *testing.F) {
	for _, seed := range [][2]string{
		{"09:04", "Europe/Berlin"}, {"2026-11-22T09:04:00Z", "+02:00"}, {"-10m", ""}, {"24:00", "../x"}, {"9223372036854775807ns", "UTC"},
		{"02:30", "America/Santiago"},
	} {
		f.Add(seed[0], seed[1])
	}
	now := explaintest.Start
	f.Fuzz(func(t *testing.T, text, zone string) {
		at, err := ParseQuery(url.Values{"at": {text}, "zone": {zone}}, now, time.UTC)
		if err != nil {
			return
		}
		if _, e := time.Parse("15:04", text); e == nil && (at.After(now) || now.Sub(at) > 26*time.Hour) {
			t.Fatalf("%q in %q is %s, which is not within the last day", text, zone, at)
		}
	})
}
