package engine

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// surgeRoom returns an engine and a function. The function returns the fields Room and Bounded of the first workload, as the capacity group
// last observed them. Room is the number of surge replicas that the team's limits and maxReplicas allow.
func surgeRoom(t *testing.T, w *fakeTeam) (room func() (int32, bool), e *Engine) {
	t.Helper()
	g := newFakeNodes(capacity.Group{Name: "gpu", Resource: gpu, Pools: []capacity.Pool{{Name: "pool", Type: capacity.OnDemand}}})
	var last capacity.Workload
	e = New(w, w, w, Options{Groups: g, Nodes: g, OnGroupTick: func(t GroupTick) { last = t.Observation.Workloads[0] }})
	w.workloads[0].Group = "gpu"
	return func() (int32, bool) { return last.Room, last.Bounded }, e
}

// The group observes how many surge replicas fit within maxReplicas and the unused part of the team's limit.
func TestRoomOfASurge(t *testing.T) {
	for name, c := range map[string]struct {
		limit  int64
		change func(w *fakeTeam)
		want   int32
	}{
		"the team has two units left":                     {5, func(*fakeTeam) {}, 2},
		"the team has none left":                          {3, func(*fakeTeam) {}, 0},
		"the team has more than its limit":                {2, func(*fakeTeam) {}, 0},
		"a replica requests two units":                    {10, func(w *fakeTeam) { w.requests[w.workloads[0].Key] = 2 }, 2},
		"pods without a policy use the rest":              {5, func(w *fakeTeam) { w.unmanaged = 1 }, 1},
		"another workload still has more replicas":        {5, func(w *fakeTeam) { w.view(1, func(v *View) { v.Replicas = 3 }) }, 0},
		"the amount per replica is not known":             {50, func(w *fakeTeam) { delete(w.requests, w.workloads[0].Key) }, 0},
		"another amount is not known: one unit each":      {5, func(w *fakeTeam) { delete(w.requests, w.workloads[1].Key) }, 2},
		"another workload failed and is served as before": {5, func(w *fakeTeam) { w.explode = []scaling.Key{w.workloads[1].Key} }, 2},
		"maxReplicas allows one more":                     {50, func(w *fakeTeam) { w.workloads[0].Policy.MaxReplicas = 3 }, 1},
		"at maxReplicas":                                  {50, func(w *fakeTeam) { w.workloads[0].Policy.MaxReplicas = 2 }, 0},
		"paused": {50, func(w *fakeTeam) {
			w.view(0, func(v *View) { v.Operator = scaling.Operator{Paused: true, Min: -1, Max: -1} })
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFakeTeam(c.limit, "a", "b")
			w.view(0, func(v *View) { v.Replicas, v.Ready = 2, 2 })
			w.view(1, func(v *View) { v.Replicas, v.Ready = 1, 1 })
			w.backlog[w.workloads[0].Key], w.backlog[w.workloads[1].Key] = 20, 10
			room, e := surgeRoom(t, w)
			w.tick(e)
			w.workloads[1].Policy.ScaleDown = scaling.Direction{}
			c.change(w)
			w.tick(e)
			if got, bounded := room(); !bounded || got != c.want {
				t.Errorf("room %d (bounded %v), want %d", got, bounded, c.want)
			}
		})
	}
}

// Surge replicas that the capacity group advises must stay within the team's limit. The group does not count them as demand.
func TestASurgeStaysWithinTheTeamLimit(t *testing.T) {
	w := newFakeTeam(3, "a", "b")
	w.backlog[w.workloads[0].Key], w.backlog[w.workloads[1].Key] = 20, 10
	w.view(0, func(v *View) { v.Replicas, v.Ready = 2, 2 })
	w.view(1, func(v *View) { v.Replicas, v.Ready = 1, 1 })
	e := New(w, w, w, Options{})
	w.tick(e)
	e.entries[0].advice = Advice{Surge: 1}
	w.tick(e)
	w.expect(t, e, "with a surge of 1", 2, 1)
	r, _ := e.Decisions().Record(w.workloads[0].Key)
	if d := &r.Decision; d.Extra != 0 || d.Uncapped != 2 {
		t.Errorf("extra %d, uncapped %d, want 0 and 2", d.Extra, d.Uncapped)
	}
}

// The group observes the learned cold start of a workload with an objective, rounded up to minutes so that a recording does not change in
// each tick. Without an objective, it observes a cold start of 0.
func TestGroupObservesTheLearnedColdStart(t *testing.T) {
	w := newFakeTeam(50, "a", "b")
	w.workloads[0].Policy = objectivePolicy()
	var last capacity.Observation
	g := newFakeNodes(capacity.Group{Name: "gpu", Resource: gpu, Pools: []capacity.Pool{{Name: "pool", Type: capacity.OnDemand}}})
	e := New(w, w, w, Options{Groups: g, Nodes: g, OnGroupTick: func(t GroupTick) { last = *t.Observation }})
	for i := range w.workloads {
		w.workloads[i].Group = "gpu"
		w.view(i, func(v *View) { v.Replicas, v.Ready = 1, 1 })
		w.backlog[w.workloads[i].Key] = 5
	}
	w.tick(e)
	if cold := last.Workloads[0].ColdStart; cold < time.Minute || cold%time.Minute != 0 {
		t.Errorf("cold start %v", cold)
	}
	if cold := last.Workloads[1].ColdStart; cold != 0 {
		t.Errorf("without an objective: cold start %v", cold)
	}
	if a, b := last.Workloads[0].LeadTime, last.Workloads[1].LeadTime; a != 0 || b != 0 {
		t.Errorf("lead times %v and %v before a cold start was observed", a, b)
	}
	w.view(0, func(v *View) { v.Replicas, v.Pending = 2, 1 })
	for range 100 {
		w.tick(e)
	}
	w.view(0, func(v *View) { v.Ready, v.Pending = 2, 0 })
	w.tick(e)
	cold := last.Workloads[0].LeadTime
	if cold < time.Minute || cold > 3*time.Minute || cold%time.Minute != 0 {
		t.Errorf("learned a lead time of %v from a start of 100 ticks", cold)
	}
	if other := last.Workloads[1].LeadTime; other != 0 {
		t.Errorf("without an objective: lead time %v", other)
	}
}
