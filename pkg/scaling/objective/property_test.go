package objective

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawnValue draws a measured value: usual, missing or implausible.
func drawnValue(t *rapid.T, name string, at time.Time, most float64) Value {
	switch rapid.IntRange(0, 9).Draw(t, name+" kind") {
	case 0:
		return Value{}
	case 1:
		return Value{V: rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), -1, 1e300, 1e12}).Draw(t, name+" absurd"), At: at, Known: true}
	default:
		return known(rapid.Float64Range(0, most).Draw(t, name), at)
	}
}

func drawnEvidence(t *rapid.T, at time.Time) Evidence {
	e := Evidence{Arrivals: drawnValue(t, "arrivals", at, 20), Served: drawnValue(t, "served", at, 20),
		Queued: drawnValue(t, "queued", at, 100), InFlight: drawnValue(t, "in flight", at, 40),
		Busy: drawnValue(t, "busy", at, 1), Latency: drawnValue(t, "latency", at, 30), Ready: rapid.Int32Range(-1, 20).Draw(t, "ready"),
		Starting: make([]time.Duration, rapid.IntRange(0, 5).Draw(t, "starting")), Version: rapid.Uint64Range(0, 3).Draw(t, "version")}
	if rapid.IntRange(0, 5).Draw(t, "cold start") == 0 {
		e.ColdStarts = []ColdStart{{Total: time.Duration(rapid.Int64Range(-1, 1e12).Draw(t, "total"))}}
	}
	return e
}

func drawnObjective(t *rapid.T) Objective {
	return Objective{Kind: Kind(rapid.IntRange(0, 3).Draw(t, "kind")), Percentile: rapid.Float64Range(50, 99.99).Draw(t, "percentile"),
		Limit: time.Duration(rapid.Int64Range(1e6, 4e12).Draw(t, "limit"))}
}

// TestPlansAreDeterministicAndBounded runs two models with the same evidence. One of them is saved and restored between the ticks. Both
// models must compute the same plans, and the plans must be within the limits.
func TestPlansAreDeterministicAndBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, n, o, now := New(), New(), drawnObjective(t), start
		l := Limits{Min: rapid.Int32Range(0, 3).Draw(t, "min"), Max: rapid.Int32Range(3, 40).Draw(t, "max")}
		for range rapid.IntRange(1, 40).Draw(t, "ticks") {
			now = now.Add(time.Duration(rapid.Int64Range(1e9, 4e11).Draw(t, "elapsed")))
			e := drawnEvidence(t, now)
			before := m.saved.Planned
			m.Observe(now, &e)
			n.Observe(now, &e)
			p, q := m.Plan(now, o, l), n.Plan(now, o, l)
			if again := m.Plan(now, o, l); p != q || p.Replicas != again.Replicas {
				t.Fatalf("plans %+v, %+v and %+v for the same evidence", p, q, again)
			}
			sum := int32(0)
			for _, added := range p.Added {
				sum += added
			}
			if sum != p.Replicas || sum < l.Min || sum > l.Max {
				t.Fatalf("%+v: the terms add up to %d, limits %+v", p, sum, l)
			}
			if !usable(e.Arrivals) && !usable(e.Queued) && p.Replicas < before {
				t.Fatalf("missing evidence lowers the plan from %d to %d", before, p.Replicas)
			}
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				n = restored(t, n)
			}
		}
	})
}

func restored(t *rapid.T, m *Model) *Model {
	data, err := m.AppendBinary(nil)
	if err != nil || len(data) > MaxEncoded {
		t.Fatalf("%d bytes, error %v, want at most %d", len(data), err, MaxEncoded)
	}
	out := New()
	if err := out.UnmarshalBinary(data); err != nil {
		t.Fatalf("%v", err)
	}
	if again, _ := out.AppendBinary(nil); !bytes.Equal(again, data) {
		t.Fatal("another encoding after a restart")
	}
	return out
}

// TestMoreLoadNeedsNoFewerReplicas compares two workloads in the safe policy. The second has several times as much work as the first, so
// its plan must not have fewer replicas.
func TestMoreLoadNeedsNoFewerReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		less, more := New(), New()
		factor := rapid.Float64Range(1, 5).Draw(t, "factor")
		o, l, now := Objective{Limit: 10 * time.Second, Percentile: 99, Capacity: 1}, Limits{Max: 1000}, start
		for range rapid.IntRange(2, 60).Draw(t, "ticks") {
			now = now.Add(5 * time.Second)
			rate, queue := rapid.Float64Range(0, 20).Draw(t, "rate"), rapid.Float64Range(0, 50).Draw(t, "queue")
			for m, by := range map[*Model]float64{less: 1, more: factor} {
				m.Observe(now, &Evidence{Arrivals: known(rate*by, now), Queued: known(queue*by, now), Ready: 2})
			}
			if a, b := less.Plan(now, o, l), more.Plan(now, o, l); a.Safe != TooLittleData || a.Replicas > b.Replicas {
				t.Fatalf("%s for a load, %s for %v times the load", a.Text(), b.Text(), factor)
			}
		}
	})
}

// TestHostileBytes checks bytes that AppendBinary did not write. UnmarshalBinary must return an error and must not change the model.
func TestHostileBytes(t *testing.T) {
	good, err := New().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		bad := bytes.Clone(good)
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			bad = rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		case 1:
			bad = bad[:rapid.IntRange(0, len(bad)-1).Draw(t, "length")]
		default:
			bad[rapid.IntRange(0, len(bad)-1).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		}
		if err := New().UnmarshalBinary(bad); !errors.Is(err, ErrEncoding) {
			t.Fatalf("error %v, want %v", err, ErrEncoding)
		}
	})
}

// TestTicksDoNotAllocate checks that neither a tick that completes a time slot nor another tick allocates memory.
func TestTicksDoNotAllocate(t *testing.T) {
	w := newWorkload()
	w.run(t, time.Hour, 3)
	e := Evidence{Ready: w.ready}
	for _, step := range []time.Duration{time.Second, 5 * time.Second} {
		if n := testing.AllocsPerRun(100, func() {
			w.now = w.now.Add(step)
			e.Arrivals, e.Served, e.Queued = known(3, w.now), known(3, w.now), known(0, w.now)
			w.m.Observe(w.now, &e)
			w.plan = w.m.Plan(w.now, w.o, w.l)
		}); n > 0 {
			t.Errorf("%v allocations in a tick of %v, want none", n, step)
		}
	}
}

// TestRoundingKeepsTheStateReadable checks ticks that are longer than a time slot. Before a correction, a rounding error made the remaining
// work negative, so that the saved model could not be read.
func TestRoundingKeepsTheStateReadable(t *testing.T) {
	m, now := New(), start
	for i := range 3000 {
		now = now.Add(time.Duration(1+i%17) * 5 * time.Second)
		m.Observe(now, &Evidence{Arrivals: known(0.1+float64(i%7)/3, now), Ready: 1})
		m.Plan(now, Objective{Limit: 10 * time.Second, Percentile: 99, Capacity: 0.3}, Limits{Max: 5})
		data, err := m.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := New().UnmarshalBinary(data); err != nil {
			t.Fatalf("tick %d, rest %v in %v s: %v", i, m.saved.Pending, m.saved.Time, err)
		}
	}
}

// TestOneWrongThroughputHasALimitedEffect adds a sample with an absurd throughput to a model that has observed usual samples. The sample
// may increase the mean throughput of a replica to at most 100 times its value. Otherwise, plans would have too few replicas for hours. The
// first sample of a model has no limit, because no mean is known.
func TestOneWrongThroughputHasALimitedEffect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, now := New(), start
		step := func(served func(rate float64) float64) {
			now = now.Add(time.Duration(rapid.Int64Range(1e9, 2e11).Draw(t, "elapsed")))
			rate := rapid.Float64Range(1, 20).Draw(t, "rate")
			m.Observe(now, &Evidence{Arrivals: known(rate, now), Served: known(served(rate), now), Queued: known(0, now), Ready: 2,
				InFlight: known(rapid.Float64Range(1, 20).Draw(t, "in flight"), now)})
		}
		for range rapid.IntRange(20, 60).Draw(t, "ticks") {
			step(func(rate float64) float64 { return rate })
		}
		before := m.saved.Capacity.Served
		step(func(float64) float64 { return rapid.Float64Range(20, maxValue).Draw(t, "absurd") })
		if got := m.saved.Capacity.Served; before > 0 && got > maxRise*before {
			t.Fatalf("a mean of %g/s after %g/s, want at most %d times as much", got, before, maxRise)
		}
	})
}
