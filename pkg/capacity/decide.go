package capacity

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// Decide returns the actions, the advice and the reasons for one tick, and the state for the next tick. It is pure, never blocks and
// never fails. After Decide returns, the caller may change o.
func Decide(g *Group, o Observation, s State, now time.Time) (Decision, State) {
	var d Decision
	s.Decide(g, &o, now, &d)
	return d, s
}

// Decide computes the same as the function Decide, for a caller that decides for many groups in a loop. It changes the state in place and
// reuses the slices of d. A tick in which nothing changes allocates no memory.
func (s *State) Decide(g *Group, o *Observation, now time.Time, d *Decision) {
	var t tick
	t.begin(g, o, s, now, d)
	t.run()
}

// Release restores every field of the group's NodePools and removes every annotation of gpuscaler. It is used when the group's policy is
// removed, or when the owner of the NodePools requests it. The caller must call Release in each tick until it returns no action.
func (s *State) Release(g *Group, o *Observation, now time.Time, d *Decision) {
	t := tick{releasing: true}
	t.begin(g, o, s, now, d)
	t.run()
}

// Shutdown restores the limits of NodePools, because a limit must not remain without a running controller. It keeps weights and the
// record annotations, because the next leader continues with them. A consolidation freeze ends by itself.
func (s *State) Shutdown(g *Group, o *Observation, now time.Time, d *Decision) {
	t := tick{leaving: true}
	t.begin(g, o, s, now, d)
	t.run()
}

// tick is the state of one pass over the rules. A rule reads the analysis, changes its own part of the state and requests values for
// fields of NodePools. Only the method write turns these requests into patches.
type tick struct {
	analysis
	s *State
	d *Decision

	releasing, leaving bool
	freezeForSpot      bool // whether the phase needs a consolidation freeze of the on-demand NodePools
	fields             override.Fields
}

func (t *tick) begin(g *Group, o *Observation, s *State, now time.Time, d *Decision) {
	s.begin(g, now)
	d.reset(len(o.Workloads))
	t.g, t.o, t.s, t.d, t.now, t.at, t.returning = g, o, s, d, now, s.At, d.returning
	t.fields.Group = override.Group{Name: g.Name, Resource: g.Resource, Advisory: g.Advisory, CountsDevices: g.countsDevices()}
	t.fields.At, t.fields.Releasing, t.fields.Leaving = t.at, t.releasing, t.leaving
	t.fields.State, t.fields.Report = &s.State, &d.Report
	for i := range t.views() {
		t.fields.Views[i] = &o.Pools[i].View
	}
}

// reset empties a decision for the next tick and reuses the memory of its slices. Each workload gets NoAdvice.
func (d *Decision) reset(workloads int) {
	d.Actions, d.Plan, d.Findings, d.Reasons = d.Actions[:0], d.Plan[:0], d.Findings[:0], d.Reasons[:0]
	d.Advice, d.Closed, d.Until = d.Advice[:0], d.Closed[:0], time.Time{}
	for range workloads {
		d.Advice = append(d.Advice, NoAdvice)
	}
	d.Demand = Demand{}
}

// run applies the rules in the order of the package documentation.
func (t *tick) run() {
	t.adoptRecords()
	t.settleOverrides()
	t.countNodes()
	t.countDemand()
	t.trackDemand()
	if t.releasing {
		t.release()
	} else {
		t.applyRules()
	}
	t.annotatePods()
	if t.leaving {
		t.fields.DropLimits()
	}
	t.write()
	if t.g.Advisory || t.releasing {
		// for advisory and released groups, no target changes, but the reasons still contain the replicas that would be added
		for i := range t.d.Advice {
			t.d.Advice[i] = NoAdvice
		}
		t.d.Closed, t.d.Until = t.d.Closed[:0], time.Time{}
	}
	t.d.Phase, t.d.Demand, t.d.returning = t.s.Spot.Phase, t.demand, t.returning
}

func (t *tick) applyRules() {
	t.schedule()
	t.updatePhase()
	t.base()
	t.fallback()
	t.probe()
	t.returnToSpot()
	t.capOnDemand()
	t.limitToZero()
	t.freezeConsolidation()
	t.addAtRisk()
	t.surgeBeforeEviction()
	t.capTargets()
	t.buffer()
	t.check()
}

// adoptRecords reads the overrides of a previous leader from the record annotations of the NodePools.
func (t *tick) adoptRecords() {
	for i := range t.views() {
		if t.o.Pools[i].Exists {
			t.fields.Adopt(i)
		}
	}
}

// settleOverrides compares every override with the observed value of its field.
func (t *tick) settleOverrides() {
	for i := range t.views() {
		if t.o.Pools[i].Exists {
			t.fields.Settle(i)
		} else {
			t.s.Pools[i] = override.Pool{} // the overrides were deleted with the NodePool
		}
	}
}

// write turns the requested field values into patches, one for each NodePool that changes.
func (t *tick) write() {
	for i := range t.views() {
		if !t.o.Pools[i].Exists {
			continue
		}
		patch, plan, due := t.fields.Write(i)
		if due {
			t.d.Actions = append(t.d.Actions, NodePoolPatch{t.g.Pools[i].Name, patch})
		}
		if len(plan.Changes) > 0 {
			t.d.Plan = append(t.d.Plan, NodePoolPatch{t.g.Pools[i].Name, plan})
		}
	}
}

// because adds a reason to the decision.
func (t *tick) because(r explain.Reason) { t.d.Because(r) }

// find adds a finding to the decision.
func (t *tick) find(f explain.Finding) { t.d.Find(f) }

// release resets the state of the rules and requests no override. As a result, the method write restores every field, and annotatePods
// removes every annotation.
func (t *tick) release() {
	s := t.s
	s.Move, s.ZeroLimit, s.TargetCap, s.Pace, s.Reserve = statemachine.Move{}, statemachine.ZeroLimit{}, statemachine.TargetCap{},
		statemachine.Pace{}, statemachine.Reserve{}
	if s.Spot != (statemachine.SpotState{}) {
		s.Spot = statemachine.SpotState{}
		s.MarkRecordsStale()
	}
	s.Surges, s.LastSurge = [statemachine.MaxSurges]statemachine.Surge{}, ""
	s.ForgetEdits()
	for i := range t.o.Workloads {
		t.setBuffer(&t.o.Workloads[i], 0)
	}
	t.because(explain.Reason{Rule: explain.RuleRelease, Pool: -1})
}
