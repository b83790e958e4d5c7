package history

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

var nine = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC) // a Monday

// event is a number of replicas and the time from which it is valid.
type event struct {
	at time.Time
	n  int32
}

// exactWindow is a stabilization window that stores every proposal, as an HPA does. Tests compare the results of Window with it.
type exactWindow []event

// greatest returns the greatest proposal in the window of the given length that ends at now.
func (w exactWindow) greatest(now time.Time, length time.Duration) (n int32) {
	for i := len(w) - 1; i >= 0 && w[i].at.After(now.Add(-length)); i-- {
		n = max(n, w[i].n)
	}
	return n
}

func TestWindowIsExactForAsManyValuesAsItHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int32{5, windowSize, 1000}).Draw(t, "most")
		var w Window
		var all []event
		now, last := nine, int32(1000)
		for range rapid.IntRange(1, 300).Draw(t, "ticks") {
			now = now.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "step")) * time.Second)
			cutoff := now.Add(-time.Minute * 5)
			n, want := rapid.Int32Range(1, most).Draw(t, "n"), int32(0)
			if most == 1000 {
				n = max(last-rapid.Int32Range(-3, 12).Draw(t, "fall"), 1) // while the values decrease, the window needs an entry for each value
			}
			last = n
			w.Expire(Stamp(cutoff))
			w.Push(Stamp(now), n, 0)
			all = append(all, event{now, n})
			longest := int32(0)
			for _, e := range all {
				if e.at.After(cutoff) {
					want = max(want, e.n)
				}
				if e.at.After(cutoff.Add(-5 * time.Minute / overhold)) {
					longest = max(longest, e.n)
				}
			}
			got := w.Greatest(Stamp(cutoff), n)
			if got < want || got > longest || most <= windowSize && got != want {
				t.Fatalf("Window returns %d, want %d to %d, the results of exact windows of its length and a seventh longer", got, want, longest)
			}
		}
	})
}

// For random recommendations and last targets, a recommendation must have an effect for at least the length of the window, and for at most
// one seventh of this length longer.
func TestRecommendationCountsForTheWindowAndAtMostASeventhMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const length = 5 * time.Minute
		var w Window
		var all exactWindow
		now, last, inForce := nine, int32(1000), int32(0)
		even := time.Duration(rapid.IntRange(0, 30).Draw(t, "even")) * time.Second // interval between readings; 0 means random intervals
		for range rapid.IntRange(1, 300).Draw(t, "ticks") {
			step := even
			if step == 0 {
				step = time.Duration(rapid.IntRange(0, 30_000).Draw(t, "step")) * time.Millisecond
			}
			now = now.Add(step)
			n := max(last-rapid.Int32Range(-1, 12).Draw(t, "fall"), 1)
			if rapid.IntRange(0, 20).Draw(t, "moves") == 0 {
				inForce = rapid.Int32Range(0, 1000).Draw(t, "inForce")
			}
			last = n
			w.Expire(Stamp(now.Add(-length)))
			w.Push(Stamp(now), n, inForce)
			all = append(all, event{now, n})
			got := w.Greatest(Stamp(now.Add(-length)), n)
			if least, most := all.greatest(now, length), all.greatest(now, length+length/overhold); got < least || got > most {
				t.Fatalf("Window returns %d, want %d to %d, the results of exact windows of its length and a seventh longer", got, least, most)
			}
		}
	})
}

// Many lower recommendations are added, so that entries are merged. The recommendation of the last target must expire at the same time as
// without merging.
func TestMergeDoesNotMoveTheEndOfTheLastTarget(t *testing.T) {
	for lead := range int32(40) {
		var w Window
		at := Stamp(nine)
		for i := range lead {
			w.Push(at+int64(i)*1000, 1000-i, 500)
		}
		held := at + 60_000
		w.Push(held, 500, 500)
		for i := range int32(200) {
			w.Push(held+1000+int64(i)*1000, 499-i, 500)
			if got, ok := w.Last(500); !ok || got != held {
				t.Fatalf("%d greater and %d lower proposals: the last target was proposed at %d, stored as %d", lead, i+1, held, got)
			}
		}
	}
}
