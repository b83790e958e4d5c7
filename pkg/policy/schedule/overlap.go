package schedule

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

// overlapFrom and overlapTo limit the time that is searched for overlaps if the windows recur without an end. They are constant, so that
// the result does not depend on the current time. A policy that was accepted is therefore accepted again after a restart. The four years
// contain a leap day, eight changes between winter time and daylight saving time, and almost every combination of date and weekday.
var (
	overlapFrom = time.Date(2027, 12, 30, 0, 0, 0, 0, time.UTC)
	overlapTo   = time.Date(2032, 1, 3, 0, 0, 0, 0, time.UTC)
)

// MaxSteps is the maximum number of steps of FirstOverlap for all schedules of one policy. A step proceeds to the next time at which one of
// two windows opens or closes. One complex calendar therefore cannot delay the loading of other policies. Two daily windows need 6,000
// steps for four years. For windows that open and close every other minute, the search covers only some weeks, which is sufficient because
// all weeks are alike.
const MaxSteps = 40_000

// FirstOverlap returns the first time at which both windows are open, and false if it finds none. The search proceeds from each opening or
// closing of a window to the next one, and ends after `most` steps.
func FirstOverlap(a, b *calendar.Window, most int) (time.Time, bool) {
	from, to := overlapFrom, overlapTo
	for _, w := range []*calendar.Window{a, b} {
		// If a window has a date at which it begins or ends, the search begins or ends at this date.
		if !w.From.IsZero() && (w.From.After(from) || from.Equal(overlapFrom)) {
			from = w.From
			to = from.AddDate(4, 0, 0)
		}
	}
	for _, w := range []*calendar.Window{a, b} {
		if !w.To.IsZero() && w.To.Before(to) {
			to = w.To
			if w.From.IsZero() && !from.Before(to) {
				from = to.AddDate(-1, 0, 0)
			}
		}
	}
	for steps := 0; from.Before(to) && steps < most; steps++ {
		openA, untilA := a.At(from)
		openB, untilB := b.At(from)
		if openA && openB {
			return from, true
		}
		// Neither window opens or closes before the earlier of the two times.
		next := earlier(untilA, untilB)
		if next.IsZero() {
			return time.Time{}, false
		}
		from = next
	}
	return time.Time{}, false
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
