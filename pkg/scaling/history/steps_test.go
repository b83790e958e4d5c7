package history

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestStepsContainEveryChangeOrItsRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Steps
		var all []event
		const keep = 120 * time.Second
		now := nine
		even := rapid.IntRange(0, 5).Draw(t, "even") // seconds between two changes; 0 means random intervals
		for range rapid.IntRange(1, 80).Draw(t, "ticks") {
			step := even
			if step == 0 {
				step = rapid.SampledFrom([]int{1, 1, 1, 1, 1, 30}).Draw(t, "step")
			}
			now = now.Add(time.Duration(step) * time.Second)
			n := rapid.Int32Range(0, 9).Draw(t, "n")
			if s.n == 0 || s.Last() != n {
				s.Push(Stamp(now), n, keep.Milliseconds())
			}
			all = append(all, event{now, n})
			at := now.Add(-time.Duration(rapid.IntRange(0, 120).Draw(t, "back")) * time.Second)
			want, least, most := all[0].n, int32(math.MaxInt32), int32(0) // the target at the time `at`, and the least and greatest target near it
			for i, e := range all {
				if !e.at.After(at) {
					want = e.n
				}
				ends := i+1 == len(all) || all[i+1].at.After(at.Add(-keep/overhold))
				if ends && !e.at.After(at.Add(keep/overhold)) {
					least, most = min(least, e.n), max(most, e.n)
				}
			}
			got := s.At(Stamp(at))
			if !at.Before(all[0].at) && (got.Low < least || got.High > most) {
				t.Fatalf("%v ago it was %d, within a seventh of the period %d..%d, stored as %d..%d",
					now.Sub(at), want, least, most, got.Low, got.High)
			}
			if got.Low > want || got.High < want || len(all) <= stepsSize && got.Low != got.High {
				t.Fatalf("%v ago it was %d, stored as %d..%d", now.Sub(at), want, got.Low, got.High)
			}
			if newest := s.list[s.n-1]; newest.Low != n || newest.High != n {
				t.Fatalf("now it is %d, stored as %+v", n, newest)
			}
		}
	})
}

// The target increases in up to 15 steps within a minute, and then remains the same for 20 minutes. After that, more steps are added, so
// that older steps are merged. The history must still contain the exact target of the 20 minutes. Otherwise a rate of 100% in 30 minutes
// would permit too small an increase.
func TestMergedStepsKeepTheReplicasOfAQuietTime(t *testing.T) {
	const period = 30 * time.Minute
	for launch := range int32(15) {
		var s Steps
		at := nine
		for n := range launch + 1 {
			s.Push(Stamp(at), n, period.Milliseconds())
			at = at.Add(4 * time.Second)
		}
		quiet := at.Add(10 * time.Minute)
		at = at.Add(20 * time.Minute)
		for n := range int32(60) {
			s.Push(Stamp(at), launch+1+n, period.Milliseconds())
			at = at.Add(4 * time.Second)
			if got := s.At(Stamp(quiet)); got.Low != launch || got.High != launch {
				t.Fatalf("%d steps before the quiet time and %d after it: it had %d replicas, stored as %d..%d",
					launch, n+1, launch, got.Low, got.High)
			}
		}
	}
}
