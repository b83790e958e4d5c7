package schedule

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

// overlapFrom and overlapTo limit the time that is searched for overlaps of windows that recur without an end. They are constant, so that
// the result does not depend on the current time and a policy that was accepted is accepted again after a restart. The four years contain a
// leap day, eight changes of daylight saving time, and almost every combination of date and weekday.
var (
	overlapFrom = time.Date(2027, 12, 30, 0, 0, 0, 0, time.UTC)
	overlapTo   = time.Date(2032, 1, 3, 0, 0, 0, 0, time.UTC)
)

// MaxSteps is the maximum number of steps that FirstOverlap makes for all schedules of one policy together. A step proceeds to the next
// time at which one of two windows opens or closes. The limit prevents a complex calendar from delaying the loading of other policies. Two
// daily windows need 6,000 steps for four years. For windows that open and close every other minute, the search covers only some weeks,
// which is sufficient because all weeks are alike.
const MaxSteps = 40_000

// FirstOverlap returns the first time at which both windows are open, or false if it finds no such time. The search proceeds from each
// opening or closing of a window to the next one, and ends after `most` steps.
func FirstOverlap(a, b *calendar.Window, most int) (time.Time, bool) {
	from, to := overlapFrom, overlapTo
	for _, w := range []*calendar.Window{a, b} {
		// If windows begin at a date, the four years of the search begin at the latest of these dates.
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
		// The result does not change before the earlier of untilA and untilB, because neither window opens or closes before that time.
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
