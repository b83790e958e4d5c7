package objective

import (
	"math"
	"testing"
)

// The results of Erlang's C formula are known for one and two serving slots: p and 2p²/(1+p), where p is the share of busy slots.
func TestDelaysOfKnownQueues(t *testing.T) {
	for _, c := range []struct {
		name        string
		busy        float64
		slots       int
		limit, want float64
	}{
		{"one slot, any wait", 0.5, 1, 0, 0.5},
		{"two slots, any wait", 1, 2, 0, 1. / 3},
		{"one slot, longer than twice the service time", 0.5, 1, 2, 0.5 * math.Exp(-1)},
		{"no free slot", 2, 2, 3, 1},
	} {
		q := queue{busy: c.busy, blocked: 1}
		if q.grow(c.slots); math.Abs(q.late(c.limit)-c.want) > 0.001 {
			t.Errorf("%s: probability %.4f, want %.4f", c.name, q.late(c.limit), c.want)
		}
	}
}

// TestReplicasForRandomArrivals compares plant.replicas with a search that computes the probability of late work for each number of
// replicas. Because plant.replicas interpolates, it may return one replica more than the search, but not one less.
func TestReplicasForRandomArrivals(t *testing.T) {
	for _, slots := range []float64{1, 4, 32} {
		for _, allowed := range []float64{0.05, 0.01, 0.001} {
			for _, limit := range []float64{0.1, 1.5, 10} {
				x := plant{capacity: slots / 6, concurrency: slots, service: 6, limit: 6 * limit, spare: &spare{}}
				x.spare.compute(limit, allowed)
				for _, load := range []float64{0.1, 0.5, 1, 2, 5, 20} {
					got, q, want := x.replicas(load), queue{busy: load * x.service, blocked: 1}, int32(0)
					for late := 1.0; late > allowed; late = q.late(limit) {
						want++
						q.grow(int(want) * int(slots))
					}
					if got < want && x.lateWith(got, load) > 1.3*allowed || got > want+1+want/10 {
						t.Errorf("%v slots, %v allowed, limit %v, load %v: %d replicas, want %d", slots, allowed, limit, load, got, want)
					}
				}
			}
		}
	}
}

// lateWith returns the probability that work waits longer than allowed, for a number of ready replicas.
func (x *plant) lateWith(replicas int32, load float64) float64 {
	var d delays
	d.compute(x, load)
	return d.of(uint16(replicas))
}

// TestVanishingLoadNeedsNoReplica checks loads near zero. After a load has ended, its mean becomes small but never 0. Free serving slots
// for such a mean must not keep a replica. A load of one request in a quarter of an hour needs a replica.
func TestVanishingLoadNeedsNoReplica(t *testing.T) {
	x := plant{capacity: 8. / 6, concurrency: 8, service: 6, limit: 10, spare: &spare{}}
	x.spare.compute(x.limit/x.service, 0.01)
	for load, want := range map[float64]int32{0: 0, 1e-300: 0, 1e-7: 0, 0.001: 1} {
		if got := x.replicas(load); got != want {
			t.Errorf("%d replicas for %g requests per second, want %d", got, load, want)
		}
	}
}

// TestFewRequestsAreDoubted checks Model.doubt, the factor by which the computed number of serving slots is multiplied because few requests
// were observed. The factor adds two standard errors of the product of load and service time. It is 1 if the number of serving slots of a
// replica was not measured.
func TestFewRequestsAreDoubted(t *testing.T) {
	for _, c := range []struct {
		full           float64
		requests, want float64
	}{{0, 2, 1}, {4, 0, 1 + 2*math.Sqrt2}, {4, 2, 3}, {4, 200, 1.2}, {4, 80000, 1.01}} {
		m := New()
		m.saved.Capacity.Weight, m.saved.B.Work, m.saved.B.NewWork = 600, c.requests/2, c.requests/2
		if c.full > 0 {
			m.saved.Capacity.Full.add(c.full)
		}
		if got := m.doubt(); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v slots and %v requests: factor %v, want %v", c.full, c.requests, got, c.want)
		}
	}
}

// If no replica is ready, or if the ready replicas have fewer serving slots than the load keeps busy, all work waits longer than allowed.
// Each further replica makes this less likely. With more replicas than the table contains, the probability is 0.
func TestMoreReplicasMakeWaitsLessLikely(t *testing.T) {
	x := plant{capacity: 8. / 6, concurrency: 8, service: 6, limit: 10}
	var d delays
	d.compute(&x, 2) // the load keeps 12 serving slots busy
	if d.of(0) != 1 || d.of(1) != 1 {
		t.Errorf("without enough slots, %v and %v of the work waits, want all", d.of(0), d.of(1))
	}
	for ready := uint16(2); d.of(ready-1) > 0; ready++ {
		if d.of(ready) >= d.of(ready-1) {
			t.Fatalf("%d replicas: %v of the work waits, as with one less", ready, d.of(ready))
		}
		if ready > 20 {
			t.Fatal("20 replicas for 12 busy slots")
		}
	}
	if d.of(2) < 1e-4 || d.of(1000) != 0 {
		t.Errorf("2 replicas: %v of the work waits, want some; 1000 replicas: %v, want none", d.of(2), d.of(1000))
	}
}

// The load was 1 for two days, except that it was 2 from 12:00 to 13:00. Twenty minutes before noon, the model expects that the load
// doubles within two cold starts of half an hour. Later in the day, and before it has observed a day, it expects no rise.
func TestRiseOfTheLoadOnPreviousDays(t *testing.T) {
	var f features
	x := &plant{cold: 2, slot: 900}
	at := func(hour, minute int64) int64 { return 2*86400 + hour*3600 + minute*60 }
	if got := f.rise(x, at(11, 40)); got != 1 {
		t.Errorf("before a day was observed, the expected increase is %v-fold, want 1", got)
	}
	for second := int64(0); second < 2*86400; second += 60 {
		rate := 1.0
		if second%86400/3600 == 12 {
			rate = 2
		}
		f.season(rate, second)
	}
	if got := f.usual(at(12, 0)); got != 1.5 {
		t.Errorf("the usual load at 12:00 is %v, want the mean of the quarters before and after", got)
	}
	for _, c := range []struct {
		hour, minute int64
		want         float64
	}{{10, 30, 1}, {11, 40, 2}, {12, 30, 1}, {15, 0, 1}} {
		if got := f.rise(x, at(c.hour, c.minute)); got != c.want {
			t.Errorf("%d:%d: the expected increase is %v-fold, want %v", c.hour, c.minute, got, c.want)
		}
	}
}
