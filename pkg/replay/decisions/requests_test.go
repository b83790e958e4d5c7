package decisions

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// Two requests of 20 s arrive together. With one slot, the second waits for 20 s, which is too long. A second replica that is started at 5
// s is ready 10 s later, which is also too late.
func TestRequestsWaitForASlot(t *testing.T) {
	requests := []request{{61, 20}, {61, 20}}
	for _, c := range []struct {
		name            string
		slots, replicas int
		later           int32 // replicas that are requested from 65 s on
		want            score
	}{
		{"one slot", 1, 1, 1, score{Late: 1, Work: 2, Cost: 35}},
		{"two slots", 2, 1, 1, score{Late: 0, Work: 2, Cost: 35}},
		{"two replicas", 1, 2, 2, score{Late: 0, Work: 2, Cost: 70}},
		{"a replica that is started too late", 1, 1, 2, score{Late: 1, Work: 2, Cost: 65}},
	} {
		got := newServers(c.slots, c.replicas, 10*time.Second, 10*time.Second).serve(requests, 100,
			func(now time.Time, e *objective.Evidence) int32 {
				if now.Sub(epoch) < 65*time.Second {
					return int32(c.replicas)
				}
				return c.later
			})
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestObjectiveOnFewRequests runs workloads with so few requests that one replica serves them. The model must meet the SLO at about the
// cost of this replica, although it cannot measure the capacity, because no work ever waits.
func TestObjectiveOnFewRequests(t *testing.T) {
	g, f := grid{tuning: objective.DefaultTuning()}, requestFamilies[0]
	f.days = 1
	for _, slots := range []int{4, 8, 32} {
		requests, length := f.draw(1, slots)
		got, _ := g.learnRequests(newServers(slots, 1, 5*time.Minute, 10*time.Second), requests, length, 99)
		fleet := smallestFleet(requests, length, slots, 10*time.Second, allowedLate(99))
		if got.lateShare() > allowedLate(99) || got.Cost > 1.1*fleet.Cost {
			t.Errorf("%d slots, %d requests: %.2f%% late at %.2f of the cost of the smallest fixed fleet, want at most 1%% and 1.1", slots,
				len(requests), 100*got.lateShare(), got.Cost/fleet.Cost)
		}
	}
}

// TestObjectiveOnRandomRequests runs workloads that need several replicas, each of which processes one or eight requests at once. Requests
// wait although the replicas have enough capacity, because they arrive at random and take a random time. The model must learn how many free
// slots the fleet needs so that few requests wait, and must learn the capacity in the first minutes.
func TestObjectiveOnRandomRequests(t *testing.T) {
	g := grid{tuning: objective.DefaultTuning()}
	f := requestFamilies[slices.IndexFunc(requestFamilies, func(f requestFamily) bool { return f.name == "steady" })]
	for _, slots := range []int{1, 8} {
		requests, length := f.draw(3, slots)
		s := newServers(slots, 1, 3*time.Minute, 10*time.Second)
		got, m := g.learnRequests(s, requests, length, 99)
		fleet := smallestFleet(requests, length, slots, 10*time.Second, allowedLate(99))
		if got.lateShare() > allowedLate(99) || got.Cost > 1.1*fleet.Cost {
			t.Errorf("%d slots: %.2f%% late at %.2f of the cost of the smallest fixed fleet, want at most 1%% and 1.1", slots,
				100*got.lateShare(), got.Cost/fleet.Cost)
		}
		if s.before.lateShare() > 2.5*allowedLate(99) {
			t.Errorf("%d slots: %.2f%% late in the first hours, want at most 2.5%%", slots, 100*s.before.lateShare())
		}
		if capacity := m.Learned().Capacity.P50 * serviceSeconds / float64(slots); !(capacity >= 0.9 && capacity <= 1.1) {
			t.Errorf("%d slots: learned %.2f of the true capacity, want 0.9 to 1.1", slots, capacity)
		}
	}
}

// TestCapacityOfRareVisits runs a workload that has no work for an hour. Then requests arrive that are too much for one replica. In an
// earlier version, the first samples had most of the weight: the model learned a third of the true capacity from them and kept four
// replicas.
func TestCapacityOfRareVisits(t *testing.T) {
	const slots = 4
	g := grid{tuning: objective.DefaultTuning()}
	f := requestFamilies[slices.IndexFunc(requestFamilies, func(f requestFamily) bool { return f.name == "rare" })]
	requests, length := f.draw(10, slots)
	s := newServers(slots, 1, 3*time.Minute, 10*time.Second)
	got, m := g.learnRequests(s, requests, length, 99)
	if capacity := m.Learned().Capacity.P50 * serviceSeconds / slots; !(capacity >= 0.8 && capacity <= 1.2) {
		t.Errorf("learned %.2f of the true capacity, want 0.8 to 1.2", capacity)
	}
	if mean := got.Cost / (s.at - s.from); got.lateShare() > allowedLate(99) || mean > 2.5 {
		t.Errorf("%.2f%% late with %.1f replicas, want at most 1%% and 2.5", 100*got.lateShare(), mean)
	}
}
