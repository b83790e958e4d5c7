package schedule

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
)

// compile compiles a window and returns it with the field and message of its first problem.
func compile(w Text) (calendar.Window, string) {
	f := &decode.Collector{}
	out, ok := Compile(f, w, decode.Spec)
	if len(f.Problems) == 0 && ok {
		return out, ""
	}
	if len(f.Problems) == 0 || ok {
		return out, "the result contradicts the problems"
	}
	return out, strings.TrimPrefix(f.Problems[0].Field, "spec.") + ": " + f.Problems[0].Message
}

// A window opens at the first moment of its field from. If its field until is a day, the window includes this day. In the night of 29 March
// 2026, Berlin has no time between 2:00 and 3:00.
func TestMomentsOfAWindowInItsTimeZone(t *testing.T) {
	for _, c := range []struct{ from, until, opens, closes string }{
		{"2026-11-27", "2026-11-30", "2026-11-26T23:00:00Z", "2026-11-30T23:00:00Z"},
		{"2026-11-27", "2026-11-27", "2026-11-26T23:00:00Z", "2026-11-27T23:00:00Z"},
		{"2026-11-27T18:00", "2026-11-28 06:30", "2026-11-27T17:00:00Z", "2026-11-28T05:30:00Z"},
		{"2026-11-27 18:00:01", "2026-11-27T18:00:02", "2026-11-27T17:00:01Z", "2026-11-27T17:00:02Z"},
		{"2026-03-29T02:30", "2026-03-29", "2026-03-29T01:00:00Z", "2026-03-29T22:00:00Z"},
		{"2026-03-28", "2026-03-29T02:30", "2026-03-27T23:00:00Z", "2026-03-29T01:00:00Z"},
	} {
		w, problem := compile(Text{Name: "w", Timezone: "Europe/Berlin", From: c.from, Until: c.until})
		opens, closes := w.From.UTC().Format(time.RFC3339), w.To.UTC().Format(time.RFC3339)
		if problem != "" || opens != c.opens || closes != c.closes {
			t.Errorf("%s to %s: %s to %s %s, want %s to %s", c.from, c.until, opens, closes, problem, c.opens, c.closes)
		}
	}
}

func TestWindowsThatAreRefused(t *testing.T) {
	good := Text{Name: "w", Timezone: "UTC", Start: "0 8 * * *", End: "0 20 * * *"}
	for _, c := range []struct {
		name   string
		change func(w *Text)
		want   string
	}{
		{"nothing", func(*Text) {}, ""},
		{"a name of 63 letters", func(w *Text) { w.Name = strings.Repeat("é", 63) }, ""},
		{"a name of 64 letters", func(w *Text) { w.Name = strings.Repeat("é", 64) }, "name: is not a valid schedule name"},
		{"a name that begins with a space", func(w *Text) { w.Name = " a" }, "name: is not a valid schedule name"},
		{"a start of 200 characters", func(w *Text) { w.Start = strings.Repeat("1,", 95) + "11 8 * * *" }, ""},
		{"a start of 201 characters", func(w *Text) { w.Start = strings.Repeat("1,", 96) + "1 8 * * *" },
			"start: is not a cron expression: it has more than 200 characters"},
		{"a zone in the expression", func(w *Text) { w.Start = "TZ=UTC 0 8 * * *" },
			"start: is not a cron expression: the time zone belongs into the field timezone"},
		{"no zone", func(w *Text) { w.Timezone = "" }, ""}, // the decoder reports a missing zone
		{"an unknown zone", func(w *Text) { w.Timezone = "Berlin" }, "timezone: is not a time zone"},
		{"no start", func(w *Text) { w.Start = "" }, "start: is missing"},
		{"no end", func(w *Text) { w.End = "" }, "end: is missing"},
		{"neither", func(w *Text) { w.Start, w.End = "", "" }, "start: is missing"},
		{"only from", func(w *Text) { w.Start, w.End, w.From = "", "", "2026-01-01" }, "until: a window that happens once needs both sides"},
		{"only until", func(w *Text) { w.Start, w.End, w.Until = "", "", "2026-01-01" }, "until: a window that happens once needs both sides"},
		{"recurring from a day", func(w *Text) { w.From = "2026-01-01" }, ""},
		{"recurring until a day", func(w *Text) { w.Until = "2026-01-01" }, ""},
		{"start equal to end", func(w *Text) { w.End = w.Start }, "end: equals start, so the window never opens"},
		{"until equal to from", func(w *Text) { w.From, w.Until = "2026-01-01T08:00", "2026-01-01T08:00" }, "until: is not after from"},
		{"until a second after from", func(w *Text) { w.From, w.Until = "2026-01-01T07:59:59", "2026-01-01T08:00:01" }, ""},
		{"never open within from and until", func(w *Text) { w.From, w.Until = "2026-01-01T21:00", "2026-01-02T07:00" },
			"start: the window never opens"},
		{"an end on a day that does not exist", func(w *Text) { w.End = "0 0 30 2 *" }, "end: the window never closes"},
		{"an end on a day that does not exist, and until", func(w *Text) { w.End, w.Until = "0 0 30 2 *", "2026-01-02" }, ""},
	} {
		w := good
		c.change(&w)
		if _, got := compile(w); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// FirstOverlap must find the same time as a search in steps of ten minutes. The windows have random days and times of day, and random dates
// from which and until which they apply.
func TestFirstOverlapIsTheFirstTimeInBothWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	day := func(n int) string { return time.Date(2026, 3, 27+n, 0, 0, 0, 0, time.UTC).Format(time.DateOnly) }
	pick := func(choices ...string) string { return choices[r.IntN(len(choices))] }
	window := func() calendar.Window {
		from := r.IntN(3)
		for {
			w, problem := compile(Text{Name: "w", Timezone: pick("UTC", "Europe/Berlin", "America/New_York"),
				Start: pick("0", "30") + " " + pick("1", "2", "8", "23") + " * * " + pick("*", "1-5", "0,6"),
				End:   pick("0", "30") + " " + pick("2", "3", "7", "9", "20") + " * * " + pick("*", "1-5"),
				From:  day(from), Until: day(from + r.IntN(3))})
			if problem == "" {
				return w
			}
		}
	}
	found := 0
	for range 60 {
		a, b := window(), window()
		var want time.Time
		for at := a.From.Add(-24 * time.Hour); at.Before(a.To.Add(24*time.Hour)) && want.IsZero(); at = at.Add(10 * time.Minute) {
			openA, _ := a.At(at)
			openB, _ := b.At(at)
			if openA && openB {
				want = at
			}
		}
		got, ok := FirstOverlap(&a, &b, MaxSteps)
		if ok == want.IsZero() || !got.Equal(want) {
			t.Errorf("%s and %s: %s, %v, want %s", describe(&a), describe(&b), got.UTC(), ok, want.UTC())
		}
		if ok {
			found++
		}
	}
	if found < 10 || found > 50 {
		t.Errorf("%d of 60 pairs overlap", found)
	}
}

func describe(w *calendar.Window) string {
	return w.From.Format(time.RFC3339) + " to " + w.To.Format(time.RFC3339)
}

// Windows without an end must be searched for four years from the end of 2027. The search must end after the given number of steps.
func TestOverlapOfWindowsThatRecur(t *testing.T) {
	leapDay := Text{Name: "w", Timezone: "UTC", Start: "0 8 29 2 *", End: "0 9 29 2 *"}
	for _, c := range []struct {
		name string
		a, b Text
		most int
		want string
	}{
		{"on 29 February", leapDay, Text{Timezone: "UTC", Start: "30 8 * * *", End: "0 20 * * *"}, MaxSteps, "2028-02-29T08:30:00Z"},
		{"too few steps", leapDay, Text{Timezone: "UTC", Start: "30 8 * * *", End: "0 20 * * *"}, 100, ""},
		{"on the first day", Text{Timezone: "UTC", Start: "0 0 30 12 *", End: "1 0 30 12 *"},
			Text{Timezone: "UTC", Start: "0 0 * 12 4", End: "1 0 * 12 4"}, MaxSteps, "2027-12-30T00:00:00Z"},
		{"on the last day", Text{Timezone: "UTC", Start: "58 23 2 1 *", End: "59 23 2 1 *"},
			Text{Timezone: "UTC", Start: "58 23 * 1 5", End: "59 23 * 1 5"}, MaxSteps, "2032-01-02T23:58:00Z"},
		{"after the last day", Text{Timezone: "UTC", Start: "0 8 3 1 *", End: "0 9 3 1 *"},
			Text{Timezone: "UTC", Start: "0 8 * 1 6", End: "0 9 * 1 6"}, MaxSteps, ""},
		{"never", leapDay, Text{Timezone: "UTC", Start: "0 9 * * *", End: "0 8 * * *"}, MaxSteps, ""},
		{"the second step", Text{Timezone: "UTC", Start: "0 8 * * *", End: "0 9 * * *"},
			Text{Timezone: "UTC", Start: "30 8 * * *", End: "0 20 * * *", From: "2028-01-01"}, 3, "2028-01-01T08:30:00Z"},
		{"before an until long ago", Text{Timezone: "UTC", Start: "0 8 * * *", End: "0 9 * * *", Until: "2020-06-30"},
			Text{Timezone: "UTC", Start: "30 8 * * *", End: "0 20 * * *"}, MaxSteps, "2019-07-01T08:30:00Z"},
		{"one ends before the other begins", Text{Timezone: "UTC", Start: "0 8 * * *", End: "0 9 * * *", Until: "2026-06-30"},
			Text{Timezone: "UTC", Start: "30 8 * * *", End: "0 20 * * *", From: "2026-07-01"}, MaxSteps, ""},
	} {
		a, problemA := compile(c.a)
		b, problemB := compile(c.b)
		if problemA+problemB != "" {
			t.Fatal(c.name, problemA, problemB)
		}
		for _, pair := range [][2]*calendar.Window{{&a, &b}, {&b, &a}} {
			got := ""
			if at, ok := FirstOverlap(pair[0], pair[1], c.most); ok {
				got = at.UTC().Format(time.RFC3339)
			}
			if got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
	}
}
