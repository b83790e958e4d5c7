package objective

import (
	"testing"
	"time"
)

// TestLyingMetrics runs a workload whose arrivals are reported 10 times too high, 10 times too low, or always with the same value. Queue
// and throughput show the true load. The number of replicas must stay within a factor of two of the number with a correct metric, and the
// work must be served.
func TestLyingMetrics(t *testing.T) {
	honest := newWorkload()
	honest.run(t, 2*time.Hour, 4.2)
	for name, lie := range map[string]func(v float64) float64{
		"10 times":         func(v float64) float64 { return 10 * v },
		"a tenth":          func(v float64) float64 { return v / 10 },
		"stuck at nothing": func(float64) float64 { return 0 },
	} {
		w := newWorkload()
		w.run(t, time.Hour, 4.2)
		w.change = func(e *Evidence) { e.Arrivals.V = lie(e.Arrivals.V) }
		w.run(t, 2*time.Hour, 4.2)
		paid, late := 0.0, 0.0
		for range 60 {
			w.run(t, time.Minute, 4.2)
			paid += float64(w.plan.Replicas) / 60
			late = max(late, w.queue)
		}
		if paid > 2*float64(honest.plan.Replicas) || paid < 4.2 || late > 10*4.2 {
			t.Errorf("%s: %.1f replicas and up to %.0f in the queue, want at most %d and 42", name, paid, late, 2*honest.plan.Replicas)
		}
	}
}

// TestQueueOnly runs a workload for which only the queue is measured.
func TestQueueOnly(t *testing.T) {
	w := newWorkload()
	w.change = func(e *Evidence) { e.Arrivals, e.Served = Value{}, Value{} }
	w.run(t, 4*time.Hour, 4.2)
	if w.plan.Replicas < 5 || w.queue > 4.2*60 {
		t.Errorf("%s, %.0f queued: want at least 5 replicas and less than a minute of work in the queue", w.plan.Text(), w.queue)
	}
	if l := w.m.Learned(); l.Capacity.P50 < 0.3 || l.Capacity.P50 > 1 {
		t.Errorf("learned capacity %v, want a lower bound of 1 that is not far from it", l.Capacity.P50)
	}
}

// A workload has a queue, but its GPUs are idle, because its server does not respond. The model must not learn the low throughput as the
// capacity, because a server is saturated only if its GPUs are busy.
func TestBusyGPUsConfirmSaturation(t *testing.T) {
	w := newWorkload()
	w.run(t, time.Hour, 4.2)
	w.capacity = 0.1
	w.change = func(e *Evidence) { e.Busy = known(0.05, w.now) }
	w.run(t, 20*time.Minute, 4.2)
	if got := w.m.Learned().Capacity.P50; got != 1 {
		t.Errorf("learned capacity %v from idle GPUs, want 1 as before", got)
	}
}

// TestScaleToZeroAndBack runs ten minutes of load every three hours. The allowed wait of five minutes is longer than a cold start.
// Therefore, no replica must run between the loads, and the first request of a load must start a replica.
func TestScaleToZeroAndBack(t *testing.T) {
	w := newWorkload()
	w.o.Limit = 5 * time.Minute
	zeros := 0
	for range 24 {
		w.run(t, 10*time.Minute, 0.8)
		if w.plan.Replicas == 0 {
			t.Fatalf("during a visit: %s", w.plan.Text())
		}
		w.run(t, 170*time.Minute, 0)
		if w.plan.Replicas == 0 {
			zeros++
		}
	}
	if zeros < 20 {
		t.Errorf("at zero before %d of 24 visits, want at least 20", zeros)
	}
	if l := w.m.Learned(); l.Attained < 0.99 || l.IdleGap < 2*time.Hour {
		t.Errorf("attained %v, idle gap %v, want 0.99 and about 170m", l.Attained, l.IdleGap)
	}
}

// TestRatesOfAMinute uses the evidence of a usual installation: rates over the last minute, which are read every 15 s. After 20 minutes of
// a load that exceeds the capacity of one replica, the model must know the capacity within 10%.
func TestRatesOfAMinute(t *testing.T) {
	w := newWorkload()
	var arrived, served []float64
	var sample Evidence
	n := 0
	w.change = func(e *Evidence) {
		arrived, served = append(arrived, e.Arrivals.V), append(served, e.Served.V)
		if n++; n%3 == 1 {
			sample = Evidence{Arrivals: known(meanOfLast(arrived, 12), w.now), Served: known(meanOfLast(served, 12), w.now), Queued: e.Queued}
		}
		e.Arrivals, e.Served, e.Queued = sample.Arrivals, sample.Served, sample.Queued
	}
	w.run(t, 20*time.Minute, 4.2)
	if got := w.m.Learned().Capacity.P50; got < 0.9 || got > 1.1 {
		t.Errorf("learned capacity %v after 20 minutes, want 1 within 10%%", got)
	}
	w.run(t, 3*time.Hour, 4.2)
	if w.plan.Safe != NotSafe || w.plan.Replicas < 5 || w.plan.Replicas > 7 || w.queue > 4.2*10 {
		t.Errorf("after three hours: %s, want 5 to 7 replicas for 4.2/s at 1/s per replica", w.plan.Text())
	}
}

func meanOfLast(values []float64, n int) (mean float64) {
	last := values[max(len(values)-n, 0):]
	for _, v := range last {
		mean += v / float64(len(last))
	}
	return mean
}

// TestSlowTokensAddReplicas uses an objective for the time between two tokens. The capacity is unknown. While the time exceeds the limit,
// plans must double the replicas. While the measurement is missing, plans must not change them.
func TestSlowTokensAddReplicas(t *testing.T) {
	m, now, o := New(), time.Unix(1_700_000_000, 0), Objective{Kind: InterTokenLatency, Limit: 50 * time.Millisecond, Percentile: 95}
	plan := func(ready int32, latency Value) int32 {
		now = now.Add(time.Second)
		e := Evidence{Arrivals: known(1, now), Queued: known(0, now), Latency: latency, Ready: ready}
		m.Observe(now, &e)
		return m.Plan(now, o, Limits{Max: 20}).Replicas
	}
	plan(2, known(0.02, now)) // the first plan sets the objective in the model
	for _, step := range []struct {
		ready   int32
		latency Value
		want    int32
	}{{2, known(0.04, now), 2}, {2, known(0.06, now), 4}, {4, Value{}, 4}, {4, known(0.2, now), 8}, {8, known(0.03, now), 8}} {
		if got := plan(step.ready, step.latency); got != step.want {
			t.Errorf("%d ready, %v between tokens: %d replicas, want %d", step.ready, step.latency, got, step.want)
		}
	}
}

// The clock is set back by an hour, and then the load triples. For an hour, new samples have an earlier time than the last sample before
// the change. The queue must nevertheless increase the replicas, at most maxGap seconds later than with a correct clock.
func TestQueueIsReadAfterAClockWasSetBack(t *testing.T) {
	grown := func(back time.Duration) int32 {
		w := newWorkload()
		w.change = func(e *Evidence) { e.Arrivals, e.Served = Value{}, Value{} }
		w.run(t, 2*time.Hour, 4)
		w.now = w.now.Add(-back)
		w.run(t, 10*time.Minute, 12)
		return w.plan.Replicas
	}
	want := grown(0)
	for _, back := range []time.Duration{time.Minute, 4 * time.Minute, time.Hour, 24 * time.Hour} {
		if got := grown(back); got < want-1 {
			t.Errorf("%v back: %d replicas, want %d as without the step", back, got, want)
		}
	}
}

// One minute after the clock was set back, the number of replicas must count as unchanged again, so that the capacity can be measured.
func TestReplicasAreSteadyAfterAClockWasSetBack(t *testing.T) {
	m := New()
	e := Evidence{Version: 1, Ready: 3}
	m.Observe(start, &e)
	m.Observe(start.Add(-time.Hour), &e)
	if !m.steady(start.Add(-time.Hour + 70*time.Second)) {
		t.Error("three replicas of more than a minute are not steady")
	}
}
