package schedule

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

// The years that overlaps are looked for in. They are fixed, and not counted from today: a policy that was accepted yesterday must
// not be refused after a restart. Four years hold every weekday of every date but a few, a leap day and eight clock changes.
var (
	overlapFrom = time.Date(2027, 12, 30, 0, 0, 0, 0, time.UTC)
	overlapTo   = time.Date(2032, 1, 3, 0, 0, 0, 0, time.UTC)
)

// mostSteps bounds the search of one policy, so that nobody's calendar can stall the others. Two windows of every day take 6,000
// steps through the four years; a pair that opens and closes every other minute is followed for weeks, and its weeks are alike.
const MostSteps = 40_000

// firstOverlap returns the first instant at which both windows are open. Two windows overlap where one opens while the other is
// open, so only the instants at which one of them changes are looked at, most of them at most.
func FirstOverlap(a, b *calendar.Window, most int) (time.Time, bool) {
	from, to := overlapFrom, overlapTo
	for _, w := range []*calendar.Window{a, b} {
		// A window that happens once, or in a season, sets the time to look at.
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
		// Neither answer changes before the earlier of the two.
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
