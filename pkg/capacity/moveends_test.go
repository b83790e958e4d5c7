package capacity

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// inBatch returns a group whose workload has four replicas on on-demand nodes, and a state in which the given move is in progress.
func inBatch(t *testing.T, m statemachine.Move) (*Group, Observation, State) {
	g, o := pairOf(t, func(g *Group) { g.LeadTime = 5 * time.Minute })
	w := Workload{Key: "team/a", Uncapped: 4 + m.Count, Extra: m.Count, Current: 4 + m.Count, GPUs: 1, Known: true}
	for i := range 4 {
		n := usable(fmt.Sprint("od-", i), OnDemand)
		o.Pools[1].Nodes = append(o.Pools[1].Nodes, n)
		p := onNode(n.Name, 1, i)
		if m.Has(p.UID) && m.Step != statemachine.Surging {
			p.DeletionCost = Annotation{Value: lowestCost, Ours: true}
		}
		w.Pods = append(w.Pods, p)
	}
	o.Workloads = []Workload{w}
	s := State{memory: memory{At: statemachine.Stamp(midnight) - 1, KnownSince: statemachine.Stamp(midnight.Add(-time.Hour))}}
	s.adapt(g)
	s.Spot = statemachine.SpotState{Phase: statemachine.Returning, Cause: explain.CauseProbe, Since: s.KnownSince, Moved: m.Since}
	m.Workload = w.Key
	s.Move, s.Pace = m, statemachine.Pace{Width: 4, Until: statemachine.Stamp(midnight.Add(time.Hour))} // the next batch must wait for an hour
	return g, o, s
}

// batchOf returns a move that replaces the pods with the given UIDs. At midnight, its current step has lasted for the duration age.
func batchOf(step statemachine.MoveStep, age time.Duration, victims ...string) statemachine.Move {
	m := statemachine.Move{Step: step, Since: statemachine.Stamp(midnight.Add(-age)), Count: int32(len(victims))}
	copy(m.Victims[:], victims)
	return m
}

func TestSuccessorTimeout(t *testing.T) {
	for age, waits := range map[time.Duration]bool{
		0:                                true,
		successorTimeout:                 true,
		successorTimeout + 5*time.Minute: true,
		successorTimeout + 5*time.Minute + time.Second:  false,
		successorTimeout + 50*time.Minute + time.Second: false,
	} {
		g, o, s := inBatch(t, batchOf(statemachine.Surging, age, "od-0"))
		d, s := Decide(g, o, s, midnight)
		if waiting := s.Move.Step == statemachine.Surging; waiting != waits || waits != (d.Advice[0].Surge == 1) || waits == (s.Pace.Level > 0) {
			t.Errorf("after %v the batch waits: %v, surge %d, consecutive refusals %d", age, waiting, d.Advice[0].Surge, s.Pace.Level)
		}
	}
}

func TestShrinkTimeout(t *testing.T) {
	for age, waits := range map[time.Duration]bool{0: true, statemachine.ShrinkTimeout: true,
		statemachine.ShrinkTimeout + time.Millisecond: false,
		2 * statemachine.ShrinkTimeout:                false} {
		g, o, s := inBatch(t, batchOf(statemachine.Shrinking, age, "od-0"))
		o.Workloads[0].Uncapped, o.Workloads[0].Extra = 3, 0 // three replicas are needed, so the fourth pod will be deleted
		if _, s = Decide(g, o, s, midnight); (s.Move.Step == statemachine.Shrinking) != waits {
			t.Errorf("after %v: step %d", age, s.Move.Step)
		}
	}
}

// If demand grows so that all pods are needed, the batch ends. During the first minute of the step Shrinking the batch does not end,
// because the target has only just decreased.
func TestDemandGrowthEndsABatchAfterAMinute(t *testing.T) {
	for age, waits := range map[time.Duration]bool{0: true, statemachine.GrowthDelay: true,
		statemachine.GrowthDelay + time.Millisecond: false} {
		g, o, s := inBatch(t, batchOf(statemachine.Shrinking, age, "od-0"))
		o.Workloads[0].Uncapped, o.Workloads[0].Extra = 4, 0
		if _, s = Decide(g, o, s, midnight); (s.Move.Step == statemachine.Shrinking) != waits {
			t.Errorf("after %v: step %d", age, s.Move.Step)
		}
	}
}

// The next batch may be larger only if all successors of the previous batch became ready on spot.
func TestPartialBatchDoesNotWidenTheNext(t *testing.T) {
	for name, c := range map[string]struct {
		refused bool
		width   uint8
	}{"all of it": {false, 8}, "a part of it": {true, 4}} {
		m := batchOf(statemachine.Shrinking, time.Minute, "gone")
		m.Refused = c.refused
		g, o, s := inBatch(t, m)
		if _, s = Decide(g, o, s, midnight); s.Pace.Width != c.width || s.Move.Step != statemachine.NoMove {
			t.Errorf("%s: width %d, step %d", name, s.Pace.Width, s.Move.Step)
		}
	}
	// The batch replaces two pods. One of the new pods runs on spot, and the other on an on-demand node that existed before. The second pod
	// does not show that spot lacks capacity, so the next batch need not wait.
	g, o, s := inBatch(t, batchOf(statemachine.Surging, time.Minute, "od-0", "od-1"))
	o.Pools[0].Nodes = []Node{usable("spot", Spot)}
	o.Pools[0].Nodes[0].Created = midnight.Add(-30 * time.Second)
	o.Pools[1].Nodes[3].GPUs, o.Pools[1].Nodes[3].Used = 2, 2
	came, housed := onNode("came", 0, 0), onNode("housed", 1, 3)
	came.Since, housed.Since = midnight.Add(-30*time.Second), midnight.Add(-30*time.Second)
	o.Workloads[0].Pods = append(o.Workloads[0].Pods, came, housed)
	_, s = Decide(g, o, s, midnight)
	if s.Move.Step != statemachine.Annotating || s.Move.Count != 1 || !s.Move.Refused || s.Pace.Width != 4 || s.Pace.Level != 0 {
		t.Errorf("%+v, pace %+v; want a batch of one pod in the step Annotating", s.Move, s.Pace)
	}
}

// Replicas of the on-demand base must not move to spot: a batch contains only replicas on nodes that exceed the base.
func TestBatchLeavesTheBase(t *testing.T) {
	for base, want := range map[int64]int32{0: 4, 1: 3, 3: 1, 4: 0} {
		g, o, s := inBatch(t, statemachine.Move{})
		withBase := *g
		withBase.OnDemandBase, withBase.ReturnNodesPerHour = base, 600
		s.adapt(&withBase)
		s.Pace, s.Spot.Moved = statemachine.Pace{Width: statemachine.MaxBatch}, statemachine.Stamp(midnight.Add(-time.Hour))
		w := &o.Workloads[0]
		for i := range 12 { // sixteen replicas in total, so four (a quarter) may move at once
			n := usable(fmt.Sprint("spot-", i), Spot)
			o.Pools[0].Nodes = append(o.Pools[0].Nodes, n)
			w.Pods = append(w.Pods, onNode(n.Name, 0, i))
		}
		w.Uncapped, w.Current = 16, 16
		if d, _ := Decide(&withBase, o, s, midnight); d.Advice[0].Surge != want {
			t.Errorf("base %d: a batch of %d, want %d", base, d.Advice[0].Surge, want)
		}
	}
}

// After a batch that ends without a result, the next batch starts after about SettleTime. This does not count as a failure of spot.
func TestAbandonedBatchWaitsForThePace(t *testing.T) {
	g, o, s := inBatch(t, batchOf(statemachine.Surging, successorTimeout+6*time.Minute, "od-0"))
	s.Pace = statemachine.Pace{Width: 4}
	_, s = Decide(g, o, s, midnight)
	if s.Move.Step != statemachine.NoMove || s.Spot.Moved != statemachine.Stamp(midnight) || s.Pace.Width != 1 || s.Pace.Level != 1 {
		t.Fatalf("%+v, moved at %d, pace %+v", s.Move, s.Spot.Moved, s.Pace)
	}
	again := time.Duration(s.Pace.Until-s.At) * time.Millisecond
	if again < statemachine.SettleTime*4/5 || again > statemachine.SettleTime*6/5 {
		t.Errorf("tried again after %v, want about %v", again, statemachine.SettleTime)
	}
	w := &o.Workloads[0]
	w.Uncapped, w.Extra, w.Current = 4, 0, 4
	for at, want := range map[time.Duration]statemachine.MoveStep{again - time.Second: statemachine.NoMove, again: statemachine.Surging} {
		if _, next := Decide(g, o, s, midnight.Add(at)); next.Move.Step != want {
			t.Errorf("%v later: step %d", at, next.Move.Step)
		}
	}
}

// A batch must end, and request no additional replicas, in four cases: its workload is deleted, is paused or has no current decision, or
// another manager set the deletion cost of one of its pods.
func TestBatchEndsWithoutItsWorkload(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Observation)
		waits  bool
	}{
		"nothing changed":      {func(*Observation) {}, true},
		"its signals are lost": {func(o *Observation) { o.Workloads[0].Known = false }, false},
		"it is paused":         {func(o *Observation) { o.Workloads[0].Paused = true }, false},
		"its policy is gone":   {func(o *Observation) { o.Workloads[0].Key = "team/other" }, false},
		"a pod carries another controller's mark": {func(o *Observation) {
			o.Workloads[0].Pods[0].DeletionCost = Annotation{Value: "5"}
		}, false},
	} {
		g, o, s := inBatch(t, batchOf(statemachine.Surging, time.Minute, "od-0"))
		c.change(&o)
		d, s := Decide(g, o, s, midnight)
		if (d.Advice[0].Surge == 1) != c.waits || (s.Move.Step == statemachine.Surging) != c.waits {
			t.Errorf("%s: surge %d, step %d", name, d.Advice[0].Surge, s.Move.Step)
		}
	}
}
