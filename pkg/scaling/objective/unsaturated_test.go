package objective

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// inFlightOnly changes the evidence to what a usual model server reports: arrivals as a rate over a minute, the queue, and the requests in
// flight, all read every 15 s. service is the service time of a request in seconds. The throughput is not measured.
func (w *workload) inFlightOnly(service float64) {
	var arrived []float64
	var sample Evidence
	n := 0
	w.change = func(e *Evidence) {
		arrived = append(arrived, e.Arrivals.V)
		if n++; n%3 == 1 {
			sample = Evidence{Arrivals: known(meanOfLast(arrived, 12), w.now), Queued: e.Queued, InFlight: known(e.Served.V*service, w.now)}
		}
		e.Arrivals, e.Served, e.Queued, e.InFlight = sample.Arrivals, Value{}, sample.Queued, sample.InFlight
	}
}

// runVarying continues the simulation with a load that varies around the parameter load with a period of two minutes. share is the
// amplitude as a share of that load. runVarying returns the share of the time in which more work waited than the replicas serve within the
// limit.
func (w *workload) runVarying(t *testing.T, length time.Duration, load, share float64) (late float64) {
	t.Helper()
	const step = 5 * time.Second
	n := 0.0
	for end := w.now.Add(length); w.now.Before(end); n++ {
		w.run(t, step, load*(1+share*math.Sin(2*math.Pi*n/24)))
		if w.queue > float64(w.ready)*w.capacity*w.o.Limit.Seconds() {
			late++
		}
	}
	return late / n
}

// TestLearnsCapacityWithoutSaturation begins with more than twice the replicas that the load needs, so that no replica is saturated. After
// an hour, the model must know the capacity so well that at most a few unnecessary replicas run. Some work is late while plans assume
// greater capacities, but the day must meet the SLO.
func TestLearnsCapacityWithoutSaturation(t *testing.T) {
	const service, slots = 6.5, 8 // capacity 1.23/s
	for _, c := range []struct {
		name        string
		load, share float64
		found       int32
		most        int32 // the maximum number of replicas after the first hour
	}{
		{"twelve for five", 5.4, 0.1, 12, 7},
		{"six for three", 3, 0.2, 6, 4},
		{"three for one", 0.6, 0.1, 3, 1},
	} {
		w := newWorkload()
		w.capacity, w.ready = slots/service, c.found
		w.inFlightOnly(service)
		first := w.runVarying(t, time.Hour, c.load, c.share)
		got := w.m.Learned().Capacity
		if got.P50 < 0.5*w.capacity || got.P50 > 1.25*w.capacity || got.P10 <= 0 || got.P10 > 1.05*w.capacity || got.P10 > got.P50 {
			t.Errorf("%s: learned %+v, want about %.2f with a lower bound that is not above it", c.name, got, w.capacity)
		}
		if w.plan.Replicas > c.most || first > 0.06 {
			t.Errorf("%s: %s, late in %.2f%% of the hour, want at most %d replicas and a quarter of the late budget of the day, 6%%",
				c.name, w.plan.Text(), 100*first, c.most)
		}
		if day := (first + 23*w.runVarying(t, 23*time.Hour, c.load, c.share)) / 24; day > 0.01 {
			t.Errorf("%s: late in %.2f%% of the day, want at most 1%%", c.name, 100*day)
		}
	}
}

// TestExplorationIsTakenBack serves a load with the smallest sufficient number of replicas. When the model assumes a greater capacity and
// removes a replica, work waits, so the capacity is measured. The model must then add the replica again and must not remove it a second
// time.
func TestExplorationIsTakenBack(t *testing.T) {
	w := newWorkload()
	w.capacity, w.ready = 8/6.5, 5
	w.inFlightOnly(6.5)
	w.runVarying(t, 2*time.Hour, 5.4, 0.1)
	if late := w.runVarying(t, 6*time.Hour, 5.4, 0.1); late > 0.01 || w.plan.Replicas < 5 || w.plan.Replicas > 7 {
		t.Errorf("%s, late in %.2f%% of the time, want 5 to 7 replicas and at most 1%%", w.plan.Text(), 100*late)
	}
	if got := w.m.Learned().Capacity.P50; got > 1.1*w.capacity {
		t.Errorf("learned %v, want at most %v", got, w.capacity)
	}
}

// TestKeepsTheReplicasThatItFound adds an objective to a workload whose replicas serve its load. No replica may be removed while the model
// has few measurements.
func TestKeepsTheReplicasThatItFound(t *testing.T) {
	w := newWorkload()
	w.o.Capacity, w.ready = 1.2, 5
	w.inFlightOnly(6.5)
	for range 60 {
		w.run(t, 5*time.Second, 5)
		if w.plan.Safe != TooLittleData || w.plan.Replicas < 5 {
			t.Fatalf("%v after the start: %s, want at least the 5 replicas that were found", w.now.Sub(start), w.plan.Text())
		}
	}
}

// TestFewRequestsNeedOneReplica simulates a day with a request of about 2 s every minute. One replica with 8 serving slots is enough, and
// the test checks the mean number of replicas in the second half of the day. Before a correction, the model kept five replicas. When the
// metrics are read, a request is rarely in flight. If one was in flight, its service time was computed from the arrivals of a minute, as if
// the request took a minute.
func TestFewRequestsNeedOneReplica(t *testing.T) {
	const every, service, tick = 60, 2, 5 * time.Second
	d := rand.New(rand.NewPCG(1, 2))
	m, o := New(), Objective{Limit: 10 * time.Second, Percentile: 99}
	var arrived, ends []float64 // times in seconds since the start of the simulation
	var e Evidence
	next, replicas, paid := 0.0, int32(1), 0.0
	for s := 0.0; s < 86400; s += tick.Seconds() {
		for ; next < s; next += every * d.ExpFloat64() {
			arrived, ends = append(arrived, next), append(ends, next+service*d.ExpFloat64())
		}
		now := start.Add(time.Duration(s) * time.Second)
		if int(s)%15 == 0 {
			since := func(list []float64, at float64) (n float64) {
				for i := len(list) - 1; i >= max(0, len(list)-100); i-- {
					if list[i] > at {
						n++
					}
				}
				return n
			}
			e = Evidence{Arrivals: known(since(arrived, s-60)/60, now), Queued: known(0, now), InFlight: known(since(ends, s), now)}
		}
		e.Ready = replicas // the replicas are ready immediately
		m.Observe(now, &e)
		replicas = m.Plan(now, o, Limits{Min: 1, Max: 20}).Replicas
		if s >= 43200 {
			paid += float64(replicas) / 43200 * tick.Seconds()
		}
	}
	if got := m.Learned().Capacity.P50; paid > 1.1 || got < 0.25 || got > 8/service {
		t.Errorf("%.2f replicas on average, learned a capacity of %.3f/s; want at most 1.1 replicas, and 0.25 to 4/s, which is between half "+
			"a request at once and 8", paid, got)
	}
}

// TestStrictObjectivesDoNotRelyOnFewRequests compares two SLOs with the same measurements. With an SLO of 99.9%, so little work may be late
// that a capacity that is too great is detected too late. Therefore the model must assume a smaller capacity than with 99%.
func TestStrictObjectivesDoNotRelyOnFewRequests(t *testing.T) {
	rate := func(percentile float64) float64 {
		m := New()
		m.saved.O.Percentile = percentile
		m.saved.Capacity.Weight = 600
		m.saved.Capacity.InFlight, m.saved.Capacity.Served = 0.1, 0.05
		return m.perInFlight()
	}
	if usual, strict := rate(99), rate(99.9); math.Abs(usual-0.5) > 1e-6 || math.Abs(strict-0.05) > 1e-6 {
		t.Errorf("%v/s per request in flight at 99%% and %v at 99.9%%, want 0.5 and a tenth of it", usual, strict)
	}
}

// TestRequestsThatNoSampleSees serves requests that are so short that no request is in flight when the metrics are read. The learned
// throughput per request in flight must be finite: the model must assume the greatest mean number of requests in flight that the samples
// could have missed.
func TestRequestsThatNoSampleSees(t *testing.T) {
	w := newWorkload()
	w.capacity, w.ready = 8, 2
	w.inFlightOnly(0)
	w.runVarying(t, time.Hour, 0.5, 0.1)
	if got := w.m.perInFlight(); got <= 0 || got > 0.5*maxWeight/lagSeconds {
		t.Errorf("%v/s per request in flight, want above 0 and at most %v", got, 0.5*maxWeight/lagSeconds)
	}
	if got := w.m.Learned().Capacity.P50; !(got > 0 && got < 100) || w.plan.Replicas < 1 || w.plan.Replicas > 2 {
		t.Errorf("learned %v, %s; want a finite capacity and at most the two replicas that were found", got, w.plan.Text())
	}
}

// TestTheTimeWithoutWorkHasNoWeight begins with an hour without work. After that, the first requests must determine the mean service time.
// Before a correction, the hour without work had as much weight as an hour of load.
func TestTheTimeWithoutWorkHasNoWeight(t *testing.T) {
	w := newWorkload()
	w.capacity, w.ready, w.l.Min = 8/6.5, 2, 2
	w.inFlightOnly(6.5)
	w.run(t, time.Hour, 0)
	if got := w.m.saved.Capacity.Weight; got != 0 {
		t.Errorf("the hour without work has a weight of %v s, want 0", got)
	}
	w.runVarying(t, 20*time.Minute, 1, 0.1)
	c := &w.m.saved.Capacity
	if service := c.InFlight / c.Served; c.Weight <= 0 || service < 5.5 || service > 7.5 {
		t.Errorf("a service time of %v s with the weight %v, want 6.5", service, c.Weight)
	}
}

// TestARiskyStepWaitsUntilItIsAffordable compares steps to one replica less. The late budget of one hour is less than the late work of a
// cold start in which half of the replicas are missing. It is more than the late work of a cold start in which one of twelve replicas is
// missing, because the other replicas serve the load for most of that time.
func TestARiskyStepWaitsUntilItIsAffordable(t *testing.T) {
	m := New()
	x := plant{slot: 5, cold: 36, limit: 10}
	m.saved.Capacity.Peak = 17
	hour := 0.01 * 3600 / 2
	two, twelve := m.expectedLate(&x, 2), m.expectedLate(&x, 12)
	if m.saved.Capacity.Peak = 1; m.expectedLate(&x, 2) >= two {
		t.Errorf("one request in flight is not safer than 17")
	}
	if m.saved.Capacity.Peak = 1000; m.expectedLate(&x, 2) < 200 {
		t.Errorf("late for %v s of a cold start of 180 s, want all of it, because a replica seldom serves more than 1000 requests at once",
			m.expectedLate(&x, 2))
	}
	if two < hour || twelve > hour/2 {
		t.Errorf("late for %v and %v s, want more than %v s and at most half of it", two, twelve, hour)
	}
}
