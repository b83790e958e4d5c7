package objective

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// usualRates changes the evidence to what a usual installation measures: the queue and rates over a minute, scraped every 15 s and read
// 10 s later.
func (w *workload) usualRates() {
	var arrived, served []float64
	var scraped, sample Evidence
	n := 0
	w.change = func(e *Evidence) {
		arrived, served = append(arrived, e.Arrivals.V), append(served, e.Served.V)
		rate := func(of []float64) Value {
			return Value{V: meanOfLast(of, 12), At: w.now, Known: len(of) >= 12, Window: time.Minute}
		}
		if n++; n%3 == 0 {
			scraped = Evidence{Arrivals: rate(arrived), Served: rate(served), Queued: e.Queued}
		}
		if n%3 == 2 {
			sample = scraped
		}
		e.Arrivals, e.Served, e.Queued = sample.Arrivals, sample.Served, sample.Queued
	}
}

// TestQueueInAPartOfTheMinuteIsNotSaturation serves bursts with one replica. Each burst saturates the replica for a minute, so most rates
// over a minute include a time in which the replica was not saturated. Before a correction, these rates were taken as the capacity, and the
// model learned 0.77 of the true capacity.
func TestQueueInAPartOfTheMinuteIsNotSaturation(t *testing.T) {
	w := newWorkload()
	w.usualRates()
	w.l.Min, w.l.Max = 1, 1
	for hour := range 4 {
		for range 6 {
			w.run(t, 30*time.Second, 2)
			w.run(t, 9*time.Minute+30*time.Second, 0.1)
		}
		if got := w.m.Learned().Capacity.P50; got < 0.95 || got > 1.05 {
			t.Errorf("hour %d: learned %.3f, want the true capacity of 1", hour+1, got)
		}
	}
}

// TestCapacityIsLearnedWhileReplicasStart starts with a load for ten replicas and one replica. While the queue is long, the number of
// replicas changes within most rates over a minute.
func TestCapacityIsLearnedWhileReplicasStart(t *testing.T) {
	w := newWorkload()
	w.usualRates()
	w.run(t, 20*time.Minute, 9.5)
	if got := w.m.Learned().Capacity; got.Count == 0 || got.P50 < 0.97 || got.P50 > 1.03 {
		t.Errorf("learned %+v, want the true capacity of 1", got)
	}
}

// TestAgeOfTheLoadIsPartOfTheDeadTime doubles the load. The simulated fleet of a rule must be ready later by the age of the load than the
// fleet of a workload whose load is known immediately.
func TestAgeOfTheLoadIsPartOfTheDeadTime(t *testing.T) {
	readyAfter := func(change func(*workload)) time.Duration {
		w := newWorkload()
		w.cold = time.Minute
		change(w)
		w.run(t, 2*time.Hour, 4.2)
		b, step := &w.m.saved.B, w.now
		ready := func() uint16 {
			x := w.m.plant()
			_, count := division(x.dead() + 1)
			return b.Experts[0].ready(count) // the first rule proposes the replicas for the mean load of 30 s
		}
		for before := ready(); ready() < 2*before-1 && w.now.Before(step.Add(time.Hour)); {
			w.run(t, 5*time.Second, 8.4)
		}
		return w.now.Sub(step)
	}
	exact, aged := readyAfter(func(*workload) {}), readyAfter((*workload).usualRates)
	if more := aged - exact; more < 45*time.Second || more > 120*time.Second {
		t.Errorf("the fleet is ready after %v with exact values and after %v with aged ones; the load is 45 s old", exact, aged)
	}
}

// TestQueueShowsABurstWithinAMinute serves bursts of half a minute. A rate over a minute is only half as great as the load of the burst,
// but the queue shows how much work arrived. The greatest need of the last hour must be the need of the true load.
func TestQueueShowsABurstWithinAMinute(t *testing.T) {
	w := newWorkload()
	w.usualRates()
	w.l.Min, w.l.Max = 2, 2
	for range 6 {
		w.run(t, 30*time.Second, 6)
		w.run(t, 9*time.Minute+30*time.Second, 0.5)
	}
	need := 30 * 6 / (30 + w.o.Limit.Seconds())
	if got := w.m.saved.F.Hold[1].value(); got < 0.8*need || got > 1.4*need {
		t.Errorf("need %.2f, want about %.2f; the greatest rate over a minute is about 3.25", got, need)
	}
}

func TestMeanAge(t *testing.T) {
	w := newWorkload()
	w.usualRates()
	w.run(t, time.Hour, 4.2)
	// A sample is read 10 s after its scrape and replaced 15 s later, so the queue is 15 s old on average. The rate is 30 s older.
	if a := w.m.saved.Ages; math.Abs(a.Queue-15) > 0.5 || math.Abs(a.Load-45) > 0.5 || a.Span != 60 {
		t.Errorf("queue %.1f s, load %.1f s, mean of %.0f s; want 15, 45 and 60", a.Queue, a.Load, a.Span)
	}
	w.change = nil
	w.run(t, 2*time.Hour, 4.2)
	if a := w.m.saved.Ages; a.Queue > 0.1 || math.Abs(a.Load-2.5) > 0.5 {
		t.Errorf("queue %.1f s, load %.1f s, want 0 and half of the 5 s between two samples", a.Queue, a.Load)
	}
}

// TestSharpenedLoadHasTheSameWork draws a load, a queue and a number of ready replicas. The work that sharpened moves to an earlier time
// must be subtracted later, and it must not exceed the limit, however wrong the queue is.
func TestSharpenedLoadHasTheSameWork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := New()
		s := &m.saved
		s.Capacity.Value, s.L.Max = rapid.Float64Range(0.01, 10).Draw(t, "capacity"), rapid.Int32Range(0, 40).Draw(t, "max")
		s.Ages.Load, s.Ages.Span = rapid.Float64Range(5, 120).Draw(t, "age"), hidingSpan
		most := 2 * s.Ages.Load * float64(max(s.L.Max, 1)) * s.Capacity.Value
		measured, sharp := 0.0, 0.0
		for range rapid.IntRange(1, 60).Draw(t, "ticks") {
			s.Ready = rapid.Int32Range(0, 40).Draw(t, "ready")
			isNew := rapid.Bool().Draw(t, "new")
			if isNew {
				s.Before, s.Queued = s.Queued, rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 1e3), rapid.Just(maxValue)).Draw(t, "queue")
				s.Growth = signedFloat((s.Queued - s.Before) / 15)
				s.Ages.Since = 0
				if s.Queued > 0 {
					s.Ages.Since = 1
				}
			}
			work := rapid.Float64Range(0, 100).Draw(t, "work")
			got := m.sharpened(work, 5, isNew)
			measured, sharp = measured+work, sharp+got
			if got < 0 || got > work+most*(1+1e-9) {
				t.Fatalf("%v of %v measured, want at least 0 and at most %v more", got, work, most)
			}
			if math.Abs(sharp-measured-s.Ages.Hidden) > 1e-6*(1+measured+sharp) || s.Ages.Hidden > most*(1+1e-9) {
				t.Fatalf("%v of %v measured, %v hidden, limit %v", sharp, measured, s.Ages.Hidden, most)
			}
		}
		s.Queued, s.Ages.Since = 0, 0
		for range 10_000 {
			sharp, measured = sharp+m.sharpened(most/1000, 5, false), measured+most/1000
		}
		if math.Abs(sharp-measured) > 1e-6*(1+sharp) {
			t.Fatalf("%v after the queue ended, want the measured %v", sharp, measured)
		}
	})
}

// TestHiddenWorkIsForgottenAfterAGap stops the measurements of the load while a queue shows work that is not yet part of the load. This
// work can become part of the load during the gap, so it must not be subtracted from the load after the gap.
func TestHiddenWorkIsForgottenAfterAGap(t *testing.T) {
	w := newWorkload()
	w.usualRates()
	w.l.Min, w.l.Max = 2, 2
	w.run(t, 20*time.Minute, 1)
	measured := w.change
	w.run(t, 30*time.Second, 8)
	if w.m.saved.Ages.Hidden < 10 {
		t.Fatalf("%v hidden in the burst, so this test does not show its effect", w.m.saved.Ages.Hidden)
	}
	w.change = func(e *Evidence) { measured(e); e.Arrivals, e.Served, e.Queued = Value{}, Value{}, Value{} }
	w.run(t, time.Minute, 1)
	if w.m.saved.Ages.Hidden != 0 {
		t.Errorf("%v hidden after a minute without measurements, want none", w.m.saved.Ages.Hidden)
	}
}

// TestUnknownQueueShowsNoWork passes no work while the last known queue is long and the queue is now unknown.
func TestUnknownQueueShowsNoWork(t *testing.T) {
	m := New()
	s := &m.saved
	s.Capacity.Value, s.L.Max, s.Ready, s.Before, s.Queued = 1, 10, 5, 50, 100
	s.Ages = ages{Load: 45, Span: 60}
	if got := m.sharpened(0, 5, false); got != 0 || s.Ages.Hidden != 0 {
		t.Errorf("%v arrived and %v hidden, want none", got, s.Ages.Hidden)
	}
}

// TestIndexOfDispersion compares the index with its definition, for several kinds of arrivals and for rates over different times.
func TestIndexOfDispersion(t *testing.T) {
	const slot = 5.0
	for _, c := range []struct {
		name  string
		index float64 // true index of dispersion
		size  float64 // work of a request
		load  float64 // requests per second
	}{{"single requests", 1, 1, 2}, {"tokens", 300, 300, 2}, {"few requests", 1, 1, 0.2}} {
		for _, window := range []int{1, 3, 12} {
			r := rand.New(rand.NewPCG(1, 2))
			var s spread
			var recently recent
			var work []float64
			for range 40_000 {
				n := 0.0
				for at := r.ExpFloat64(); at < c.load*slot; at += r.ExpFloat64() {
					n++
				}
				if work = append(work, n*c.size); len(work) > window {
					work = work[1:]
				}
				sum := 0.0
				for _, w := range work {
					sum += w
				}
				recently.add(0, sum/float64(window)/slot, 1)
				s.add(&recently, float64(window)*slot, slot)
			}
			if s.Index < 0.7*c.index || s.Index > 1.2*c.index {
				t.Errorf("%s, mean of %d slots: %.2f, want about %v", c.name, window, s.Index, c.index)
			}
		}
	}
}

// TestApproximateDelays compares the approximation with a simulated queue at several loads.
func TestApproximateDelays(t *testing.T) {
	const capacity, limit = 0.2, 10.0
	for _, load := range []float64{0.9, 1.9, 4.7} {
		var d delays
		d.approximate(&plant{capacity: capacity, limit: limit, spread: 1}, load)
		lates := d.late[:d.count]
		first := slices.IndexFunc(lates, func(p float32) bool { return p > 0 })
		if first < 0 || !slices.IsSortedFunc(lates[first:], func(a, b float32) int { return int(math.Copysign(1, float64(b-a))) }) {
			t.Fatalf("load %v: %v, want decreasing probabilities", load, lates)
		}
		for n := first; n < d.count && d.late[n] > 0.002; n++ {
			got := lateShare(load, float64(n)*capacity, limit)
			if p := float64(d.late[n]); p < got/1.6-0.002 || p > 1.6*got+0.01 {
				t.Errorf("load %v, %d replicas: %.4f, the simulated queue has %.4f", load, n, p, got)
			}
		}
	}
}

// lateShare simulates requests that arrive at random and need a work of 1, and returns the share that waits longer than limit seconds.
func lateShare(load, capacity, limit float64) float64 {
	r := rand.New(rand.NewPCG(3, 4))
	late, wait := 0.0, 0.0
	const requests = 400_000
	for range requests {
		wait = max(wait-r.ExpFloat64()/load, 0)
		if wait > limit {
			late++
		}
		wait += 1 / capacity
	}
	return late / requests
}
