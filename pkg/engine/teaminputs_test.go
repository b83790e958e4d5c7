package engine

import (
	"math"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// teamOfTwo is a team with the workloads a and b. Their policies have no stabilization windows and minReplicas 0. Each replica requests one
// GPU.
type teamOfTwo struct {
	*fakeTeam
	t *testing.T
	e *Engine
}

func newTeamOfTwo(t *testing.T, limit int64) *teamOfTwo {
	w := &teamOfTwo{newFakeTeam(limit, "a", "b"), t, nil}
	w.e = New(w.fakeTeam, w.fakeTeam, w.fakeTeam, Options{})
	for i := range w.workloads {
		w.policy(i, func(p *scaling.Policy) { p.MinReplicas, p.ScaleDown = 0, scaling.Direction{} })
		w.set(i, 0, 0)
	}
	return w
}

func (w *teamOfTwo) policy(i int, change func(*scaling.Policy)) { change(w.workloads[i].Policy) }

// set changes workload i: its queue needs the given number of replicas (needs), and another number of replicas exists (running).
func (w *teamOfTwo) set(i int, needs, running int32) {
	w.backlog[w.workloads[i].Key] = float64(10 * needs)
	w.view(i, func(v *View) { v.Replicas, v.Ready = running, running })
}

func (w *teamOfTwo) tickAndExpect(when string, want ...int32) {
	w.t.Helper()
	w.tick(w.e)
	w.expect(w.t, w.e, when, want...)
}

// The GPUs per replica of a workload can no longer be read. Its team's limits are divided with the last known number, even after the
// policies are edited.
func TestLastKnownAmountSurvivesAnEdit(t *testing.T) {
	w := newTeamOfTwo(t, 10)
	w.requests[w.workloads[0].Key] = 2
	w.set(0, 2, 2)
	w.tickAndExpect("two replicas of two units", 2, 0)
	delete(w.requests, w.workloads[0].Key)
	w.setLimit(10)
	w.set(1, 9, 0)
	w.tickAndExpect("its four units are not available to the other workload", 2, 6)
}

// The division of a team's limit grants GPUs to a scale-up. They stay granted until the HPA applies the target, the scale target is
// replaced, or the decision is too old.
func TestGrantedRaiseEndsWithTheObjectOrTheDecision(t *testing.T) {
	for name, change := range map[string]func(w *teamOfTwo){
		"another object": func(w *teamOfTwo) { w.view(0, func(v *View) { v.UID = "new" }) },
		"too old":        func(w *teamOfTwo) { w.now = w.now.Add(2 * DefaultMaxAge) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newTeamOfTwo(t, 4)
			w.set(0, 4, 1)
			w.tickAndExpect("all of the limit is granted", 4, 0)
			w.set(1, 4, 0)
			change(w)
			w.tickAndExpect("only what runs is kept", 2, 2)
		})
	}
	w := newTeamOfTwo(t, 4)
	w.set(0, 4, 1)
	w.tickAndExpect("all of the limit is granted", 4, 0)
	w.set(1, 4, 0)
	w.tickAndExpect("the HPA has not followed yet, and the raise is kept", 4, 0)
}

// The minimum of a workload is granted before other demand of the team. For a paused workload, it is the number of its replicas. During an
// override by a user, it is the minimum of the override. Otherwise, it is minReplicas.
func TestMinimumOfAMember(t *testing.T) {
	for name, c := range map[string]struct {
		operator scaling.Operator
		minimum  int32
		want     [2]int32
	}{
		"no minimum":             {scaling.NoOperator, 0, [2]int32{1, 3}},
		"paused":                 {scaling.Operator{Paused: true, Min: -1, Max: -1}, 0, [2]int32{2, 2}},
		"an override":            {scaling.Operator{Min: 3, Max: -1, Until: nine.Add(time.Hour)}, 0, [2]int32{2, 2}},
		"an override that ended": {scaling.Operator{Min: 3, Max: -1, Until: nine}, 0, [2]int32{1, 3}},
		"an override below it":   {scaling.Operator{Min: 1, Max: -1, Until: nine.Add(time.Hour)}, 3, [2]int32{2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTeamOfTwo(t, 4)
			w.set(0, 3, 3)
			w.set(1, 3, 0)
			w.policy(0, func(p *scaling.Policy) { p.MinReplicas = c.minimum })
			w.policy(1, func(p *scaling.Policy) { p.MinReplicas = 3 })
			w.view(0, func(v *View) { v.Operator = c.operator })
			w.tickAndExpect(name, c.want[0], c.want[1])
		})
	}
}

// A decision that was not published has no effect on later decisions: its recommendation is not in the stabilization window.
func TestUnpublishedDecisionLeavesTheStateUnchanged(t *testing.T) {
	w := newTeamOfTwo(t, 100)
	w.policy(0, func(p *scaling.Policy) { p.ScaleDown.StabilizationWindow = 5 * time.Minute })
	w.set(0, 1, 1)
	w.after(w.e, 10*time.Second)
	w.set(0, 30, 1)
	w.broken = true
	if out := w.tick(w.e); len(out.Errors) != 1 {
		t.Fatalf("errors %v, want the error of the team", out.Errors)
	}
	w.broken = false
	w.set(0, 1, 1)
	w.tickAndExpect("after the failed tick", 1, 0)
}

// A negative number of GPUs per replica counts as unknown. The workload is then not scaled up.
func TestNegativeAmountIsNotKnown(t *testing.T) {
	w := newTeamOfTwo(t, 4)
	w.requests[w.workloads[0].Key] = -1
	w.set(0, 9, 1)
	w.set(1, 9, 0)
	w.tickAndExpect("a is kept, b takes the rest", 1, 3)
}

// If the evaluation of a workload fails, its last target is served. Its running replicas and its target still use the team's limit, and a
// lower limit reduces its target.
func TestMemberThatFailsStillUsesTheLimit(t *testing.T) {
	w := newTeamOfTwo(t, 4)
	w.set(0, 1, 4)
	w.tickAndExpect("one replica is needed, four run", 1, 0)
	w.explode = []scaling.Key{w.workloads[0].Key}
	w.set(1, 4, 0)
	w.tickAndExpect("nothing is free while four run", 1, 0)
	w.set(0, 1, 1)
	w.explode = nil
	w.tick(w.e)
	w.explode = []scaling.Key{w.workloads[0].Key}
	w.tickAndExpect("three are free", 1, 3)
	w.setLimit(0)
	w.tickAndExpect("a limit of 0", 0, 0)
}

// The fields Since and Before of a record describe the last change, even after ticks without a change.
func TestRecordDescribesItsLastChange(t *testing.T) {
	w := newTeamOfTwo(t, 9)
	w.set(0, 2, 2)
	w.after(w.e, 10*time.Second)
	w.set(0, 5, 2)
	w.tick(w.e)
	changed := w.now
	w.after(w.e, 10*time.Second)
	if r, _ := w.e.Decisions().Record(w.workloads[0].Key); r.Before != 2 || !r.Since.Equal(changed) || r.Decision.Replicas != 5 {
		t.Errorf("%d -> %d since %v, want 2 -> 5 since %v", r.Before, r.Decision.Replicas, r.Since, changed)
	}
}

// Without policies, capacity groups and NodePools to restore, a tick does nothing and reports no error.
func TestTickWithoutPolicies(t *testing.T) {
	w := newFakeCluster()
	g := newFakeNodes()
	for name, o := range map[string]Options{"alone": {}, "with capacity groups": {Groups: g, Nodes: g}} {
		e := New(w, w, w, o)
		if out := w.after(e, 3*time.Second); len(out.Errors) != 0 || out.Decided != 0 || out.Unseen != 0 || len(out.Changes) != 0 {
			t.Errorf("%s: %+v", name, out)
		}
		if !e.Decisions().LastTick().Equal(w.now) || len(e.Decisions().Keys()) != 0 {
			t.Errorf("%s: last tick %v, want %v", name, e.Decisions().LastTick(), w.now)
		}
	}
}

// A very large number of GPUs per replica does not overflow when the limits are divided.
func TestHugeAmountDoesNotOverflow(t *testing.T) {
	w := newTeamOfTwo(t, 4)
	w.requests[w.workloads[0].Key] = math.MaxInt64 / 3
	w.set(0, 4, 0)
	w.set(1, 9, 0)
	w.tickAndExpect("no replica of that size fits", 0, 4)
}

// A workload in mode hold runs two replicas with two GPUs each. First the GPUs per replica can no longer be read, and later its pods cannot
// be read either. Its replicas must still use four GPUs of the limit of ten.
func TestLastKnownAmountOfAWorkloadThatIsNotServed(t *testing.T) {
	w := newTeamOfTwo(t, 10)
	held := w.workloads[0].Key
	w.requests[held] = 2
	w.workloads[0].Mode = scaling.Hold
	w.set(0, 2, 2)
	w.set(1, 9, 0)
	w.tick(w.e)
	expect := func(when string, want int32) {
		t.Helper()
		w.tick(w.e)
		if got := w.targets(w.e)[1]; got != want {
			t.Errorf("%s: the other workload has %d replicas, want %d", when, got, want)
		}
	}
	expect("the amount is known", 6)
	delete(w.requests, held)
	w.pods[held] = 4
	expect("only its pods are known", 6)
	w.pods[held] = 0
	expect("nothing is known", 6)
}

// The scale target of a workload is replaced by an object that has replicas with an unknown number of GPUs. The last known number is used
// for them. A trial, which allows a first replica of unknown size, begins only for an object without replicas.
func TestReplacedObjectWithReplicasKeepsTheAmount(t *testing.T) {
	w := newTeamOfTwo(t, 10)
	w.requests[w.workloads[0].Key] = 2
	w.view(0, func(v *View) { v.UID = "old" })
	w.set(0, 2, 2)
	w.tickAndExpect("two replicas of two GPUs", 2, 0)
	delete(w.requests, w.workloads[0].Key)
	w.view(0, func(v *View) { v.UID = "new" })
	w.set(1, 9, 0)
	w.tickAndExpect("the new object has two replicas", 2, 6)
}

// The team's limit reduces the target of a workload, and then the evaluation of the workload fails. The record must no longer count this
// workload as one whose target the limit reduces.
func TestFailedMemberIsNotCountedAsCut(t *testing.T) {
	w := newTeamOfTwo(t, 4)
	w.set(0, 9, 2)
	w.set(1, 9, 2)
	w.tick(w.e)
	if u := w.e.Decisions().Teams()[0].Limits[0]; u.Cut != 2 {
		t.Errorf("%d of two workloads are cut, want 2", u.Cut)
	}
	w.explode = append(w.explode, w.workloads[0].Key)
	w.tick(w.e)
	if u := w.e.Decisions().Teams()[0].Limits[0]; u.Cut != 1 {
		t.Errorf("after one failed, %d are cut, want 1", u.Cut)
	}
	w.explode = nil
	w.set(0, 1, 2)
	w.set(1, 1, 2)
	w.tick(w.e)
	if u := w.e.Decisions().Teams()[0].Limits[0]; u.Cut != 0 {
		t.Errorf("with little load, %d are cut, want none", u.Cut)
	}
}

// A workload in mode hold without replicas uses no GPUs of the limit. The same applies if its number of replicas is unknown (-1).
func TestHeldWorkloadWithoutReplicasUsesNothing(t *testing.T) {
	for _, running := range []int32{0, -1} {
		w := newTeamOfTwo(t, 5)
		w.unmanaged = 1
		w.workloads[0].Mode = scaling.Hold
		w.set(0, 3, running)
		w.set(1, 9, 0)
		w.tick(w.e)
		if served, err := w.e.Decisions().Lookup(w.workloads[1].Key, w.now); err != nil || served.Replicas != 4 {
			t.Errorf("%d replicas run in mode hold: the other workload has the target %d, %v, want 4", running, served.Replicas, err)
		}
	}
}
