package scaling

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// exactWindow is a stabilization window as in an HPA, which stores every proposal, for comparison.
type exactWindow []event

// greatest returns the greatest proposal that is newer than length before now.
func (w exactWindow) greatest(now time.Time, length time.Duration) (n int32) {
	for i := len(w) - 1; i >= 0 && w[i].at.After(now.Add(-length)); i-- {
		n = max(n, w[i].n)
	}
	return n
}

// Demand decreases from 200 to 20 replicas in 30 minutes. The stabilization window contains more different recommendations than a window
// has entries, so entries are merged. The target must be at most slightly above that of an exact window.
func TestTargetFollowsALongDecrease(t *testing.T) {
	for _, c := range []struct {
		name   string
		scrape time.Duration
		window time.Duration
	}{
		{"readings every 15 seconds", 15 * time.Second, 5 * time.Minute},
		{"readings every second", time.Second, 5 * time.Minute},
		{"a window of an hour", 15 * time.Second, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &Policy{Signals: []Signal{queue(1)}, MinReplicas: 1, MaxReplicas: 400, ScaleDown: Direction{StabilizationWindow: c.window}}
			w := newScenario(t, p, 200)
			w.value = func(w *scenario, _ int) float64 {
				past := w.now.Sub(nine).Truncate(c.scrape)
				return max(200-180*past.Minutes()/30, 20)
			}
			var exact exactWindow
			var target, want, late float64
			for range int((30*time.Minute + c.window) / time.Second) {
				w.tick(time.Second)
				exact = append(exact, event{w.now, roundUp(w.value(w, 0))})
				n := exact.greatest(w.now, c.window)
				target, want = target+float64(w.last.Replicas), want+float64(n)
				if w.last.Replicas < n {
					t.Fatalf("%s: target %d, the exact window holds %d", w.now.Format("15:04:05"), w.last.Replicas, n)
				}
				if held := exact.greatest(w.now, c.window+c.window/overhold); w.last.Replicas > held {
					t.Fatalf("%s: target %d, no proposal was above %d for a window and a seventh", w.now.Format("15:04:05"), w.last.Replicas, held)
				}
				if w.last.Replicas > n {
					late++
				}
			}
			t.Logf("replica-hours %.2f%% above the exact window, target above it for %.0f s", 100*(target/want-1), late)
			if target > 1.02*want {
				t.Errorf("%.0f replica-seconds, an exact window takes %.0f", target, want)
			}
			if w.run(c.window / overhold); w.last.Replicas != 20 {
				t.Errorf("%d a window and a seventh after demand reached 20\n%s", w.last.Replicas, table(p, &w.last))
			}
		})
	}
}

// For any recommendations and any last target, a recommendation counts for at least the window, and for at most a seventh of it longer.
func TestRecommendationCountsForTheWindowAndAtMostASeventhMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const length = 5 * time.Minute
		var w window
		var all exactWindow
		now, last, inForce := nine, int32(1000), int32(0)
		even := time.Duration(rapid.IntRange(0, 30).Draw(t, "even")) * time.Second // readings at a fixed interval; 0: at any time
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
			w.expire(stamp(now.Add(-length)))
			w.push(stamp(now), n, inForce)
			all = append(all, event{now, n})
			got := w.greatest(stamp(now.Add(-length)), n)
			if least, most := all.greatest(now, length), all.greatest(now, length+length/overhold); got < least || got > most {
				t.Fatalf("window says %d, an exact one %d, one that is a seventh longer %d", got, least, most)
			}
		}
	})
}

// When entries are merged because many lower recommendations follow, the time at which the recommendation of the last target expires must
// not change.
func TestMergeDoesNotMoveTheEndOfTheLastTarget(t *testing.T) {
	for lead := range int32(40) {
		var w window
		at := stamp(nine)
		for i := range lead {
			w.push(at+int64(i)*1000, 1000-i, 500)
		}
		held := at + 60_000
		w.push(held, 500, 500)
		for i := range int32(200) {
			w.push(held+1000+int64(i)*1000, 499-i, 500)
			if got, ok := w.last(500); !ok || got != held {
				t.Fatalf("%d greater and %d lower proposals: the number in force was last proposed at %d, remembered as %d", lead, i+1, held, got)
			}
		}
	}
}

// The target rises in up to 15 steps within a minute and then does not change for 20 minutes. When further steps are added and older ones
// are merged, the history must still have the exact target of those 20 minutes. Otherwise a rate of 100% in 30 minutes would allow too
// small an increase.
func TestMergedStepsKeepTheReplicasOfAQuietTime(t *testing.T) {
	const period = 30 * time.Minute
	for launch := range int32(15) {
		var s steps
		at := nine
		for n := range launch + 1 {
			s.push(stamp(at), n, period.Milliseconds())
			at = at.Add(4 * time.Second)
		}
		quiet := at.Add(10 * time.Minute)
		at = at.Add(20 * time.Minute)
		for n := range int32(60) {
			s.push(stamp(at), launch+1+n, period.Milliseconds())
			at = at.Add(4 * time.Second)
			if got := s.list[s.before(stamp(quiet))]; got.low != launch || got.high != launch {
				t.Fatalf("%d steps before the quiet time and %d after it: it had %d replicas, remembered as %d..%d",
					launch, n+1, launch, got.low, got.high)
			}
		}
	}
}
