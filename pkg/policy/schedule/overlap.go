package schedule

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

// The years that are searched for overlaps. They are fixed, so that a policy that was accepted is accepted again after a restart at any
// time. Four years contain almost every combination of date and weekday, a leap day and eight clock changes.
var (
	overlapFrom = time.Date(2027, 12, 30, 0, 0, 0, 0, time.UTC)
	overlapTo   = time.Date(2032, 1, 3, 0, 0, 0, 0, time.UTC)
)

// MaxSteps limits the search for one policy, so that one complex calendar does not delay the others. Two daily windows take 6,000 steps
// for the four years. A pair that opens and closes every other minute is searched for weeks, which are all alike.
const MaxSteps = 40_000

// FirstOverlap returns the first time at which both windows are open. It visits only the times at which one of the windows changes, at
// most `most` of them.
func FirstOverlap(a, b *calendar.Window, most int) (time.Time, bool) {
	from, to := overlapFrom, overlapTo
	for _, w := range []*calendar.Window{a, b} {
		// a window that happens once, or in a season, determines the searched time
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
		// neither window changes before the earlier of the two times
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
