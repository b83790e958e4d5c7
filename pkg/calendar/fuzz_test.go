package calendar_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

// checkAnswer fails the test if the results of At and NextStart contradict each other for a window and an instant.
func checkAnswer(t interface{ Fatalf(string, ...any) }, w *calendar.Window, now time.Time) {
	open, until := w.At(now)
	if again, same := w.At(now); again != open || !same.Equal(until) {
		t.Fatalf("%+v at %s: answers %v, %s, then %v, %s", w, now, open, until, again, same)
	}
	next, again := w.NextStart(now)
	if w.NeverFires() && (open || again || !until.IsZero()) {
		t.Fatalf("%+v at %s: never fires, but %v until %s", w, now, open, until)
	}
	if until.IsZero() {
		if again {
			t.Fatalf("%+v at %s: nothing changes any more, but it starts at %s", w, now, next)
		}
		return
	}
	if !until.After(now) {
		t.Fatalf("%+v at %s: until %s is not later", w, now, until)
	}
	if then, _ := w.At(until); then == open {
		t.Fatalf("%+v at %s: nothing changes at %s", w, now, until)
	}
	if then, same := w.At(until.Add(-1)); then != open || !same.Equal(until) {
		t.Fatalf("%+v at %s: %v until %s, but just before that %v until %s", w, now, open, until, then, same)
	}
	if !open && (!again || !next.Equal(until)) {
		t.Fatalf("%+v at %s: shut until %s, but next start %s, %v", w, now, until, next, again)
	}
	if again {
		if then, _ := w.At(next); !then || !next.After(now) {
			t.Fatalf("%+v at %s: next start %s does not open", w, now, next)
		}
	}
}

func TestEveryAnswerHoldsUntilItsEnd(t *testing.T) {
	names := zoneNames(t)
	rapid.Check(t, func(rt *rapid.T) {
		w := window(t, rapid.SampledFrom(names).Draw(rt, "zone"), cronText().Draw(rt, "start"), cronText().Draw(rt, "end"))
		if rapid.Bool().Draw(rt, "has from") {
			w.From = instant().Draw(rt, "from")
		}
		if rapid.Bool().Draw(rt, "has to") {
			w.To = instant().Draw(rt, "to").Add(rapid.Custom(func(rt *rapid.T) time.Duration {
				return time.Duration(rapid.IntRange(0, 999_999_999).Draw(rt, "nanoseconds"))
			}).Draw(rt, "fraction"))
		}
		checkAnswer(rt, w, instant().Draw(rt, "now"))
	})
}

// FuzzAt calls At with arbitrary bit sets, dates and instants. At must not panic, must terminate, and must return a result that is valid
// until the instant that it returns.
func FuzzAt(f *testing.F) {
	every := uint64(math.MaxUint64)
	f.Add(every, uint64(1<<8), every, every, every, uint64(1), uint64(1<<20), every, every, every, int64(0), int64(0),
		int64(1_795_000_000), uint16(0))
	f.Add(every, every, every, every, every, every, every, every, every, every, int64(0), int64(0), int64(1_325_239_200), uint16(400))
	f.Add(uint64(0x55555555), every, every, every, every, uint64(0xaaaaaaaa), every, every, every, every, int64(0), int64(0),
		int64(1_325_200_000), uint16(410))
	f.Add(every, every, uint64(1<<30), uint64(1<<2), every, every, every, every, every, every, int64(5), int64(1),
		int64(math.MaxInt64), uint16(7))
	names := zoneNames(f)
	f.Fuzz(func(t *testing.T, m1, h1, dom1, mo1, dow1, m2, h2, dom2, mo2, dow2 uint64, from, to, now int64, place uint16) {
		w := &calendar.Window{
			Location: zone(t, names[int(place)%len(names)]),
			Start:    calendar.Cron{Minute: m1, Hour: h1, DayOfMonth: dom1, Month: mo1, DayOfWeek: dow1},
			End:      calendar.Cron{Minute: m2, Hour: h2, DayOfMonth: dom2, Month: mo2, DayOfWeek: dow2},
		}
		if from != 0 {
			w.From = time.Unix(from, 0)
		}
		if to != 0 {
			w.To = time.Unix(to, 0)
		}
		const year9999 = 253_402_300_799
		if instant := time.Unix(now, 0); now < -year9999 || now > year9999 || from < -year9999 || from > year9999 {
			w.At(instant) // arithmetic on such instants overflows, so the test only checks that At does not panic
			w.NextStart(instant)
			return
		}
		checkAnswer(t, w, time.Unix(now, 0))
	})
}
