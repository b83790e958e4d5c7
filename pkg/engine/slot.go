package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

type slot struct {
	// The engine's own: touched by the tick alone.
	state   scaling.Packed
	advice  Advice      // of the nodes, from the tick before
	grouped bool        // decided with its capacity group
	member  *teamMember // decided with its team; nil: no limit of a team applies

	unseen   bool        // small fields are adjacent: there are ten thousand slots
	expired  bool        // the clock stepped back behind the last decision
	began    StateOrigin // of the last decision
	before   int32
	share    int32             // of the team's limits, where that is less than the target of the last decision; -1: none
	mu       sync.Mutex        // guards all but what is the engine's own
	refusal  string            // why the target is unseen, where it exists
	inForce  *scaling.Workload // in the engine's current policies
	workload *scaling.Workload // of the last decision: a copy that is never changed; records in the history share it
	view     View
	decision kept
	readings []scaling.Reading
	without  []Counterfactual // of the last tick that was news
	at       time.Time
	since    time.Time
}

// newSlot is a workload of which nothing is known yet: an operator's zero value would say "at most 0 replicas".
func newSlot(w *scaling.Workload) *slot {
	return &slot{share: -1, inForce: w, workload: copied(w), view: View{MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}}
}

// copied is a copy, because a pointer into the policies in force would keep all of them for as long as the history does.
func copied(w *scaling.Workload) *scaling.Workload {
	c := *w
	return &c
}

// kept is a scaling.Decision without the room for the reasons that it does not have, three quarters of it.
type kept struct {
	Replicas, Requested     int32
	Uncapped, Extra, Room   int32
	Active, Degraded        bool
	Binding, Tied           scaling.Rule
	BindingIndex, TiedIndex int8
	Proposals               [scaling.MaxSignals]int32
	Status                  [scaling.MaxSignals]scaling.SignalStatus
	EarliestScaleDown       time.Time
	ScaleDownRule           scaling.Rule
	Reasons                 []scaling.Reason
}

// take keeps d, in the memory of the decision before.
func (k *kept) take(d *scaling.Decision) {
	*k = kept{
		Replicas: d.Replicas, Requested: d.Requested, Uncapped: d.Uncapped, Extra: d.Extra, Room: d.Room, Active: d.Active, Degraded: d.Degraded, Binding: d.Binding, Tied: d.Tied,
		BindingIndex: d.BindingIndex, TiedIndex: d.TiedIndex, Proposals: d.Proposals, Status: d.Status, EarliestScaleDown: d.EarliestScaleDown, ScaleDownRule: d.ScaleDownRule,
		Reasons: append(k.Reasons[:0], d.Reasons.All()...),
	}
}

// whole is the decision that was taken.
func (k *kept) whole() scaling.Decision {
	return scaling.Decision{
		Replicas: k.Replicas, Requested: k.Requested, Uncapped: k.Uncapped, Extra: k.Extra, Room: k.Room, Active: k.Active, Degraded: k.Degraded, Binding: k.Binding, Tied: k.Tied,
		BindingIndex: k.BindingIndex, TiedIndex: k.TiedIndex, Proposals: k.Proposals, Status: k.Status, EarliestScaleDown: k.EarliestScaleDown, ScaleDownRule: k.ScaleDownRule,
		Reasons: scaling.ReasonsOf(k.Reasons),
	}
}

// adopt sets the version of the workload that is in force.
func (s *slot) adopt(w *scaling.Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inForce = w
}

// expire marks a decision of a time after now.
func (s *slot) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = s.expired || now.Before(s.at)
}

// unserved returns why the last decision is not served, or nil. The caller holds the lock.
func (s *slot) unserved(now time.Time, maxAge time.Duration) error {
	switch age := now.Sub(s.at); {
	case s.at.IsZero():
		return ErrUndecided
	case s.inForce.Mode == scaling.Hold || s.workload.Mode == scaling.Hold:
		return ErrHeld
	case s.inForce.Mode == scaling.Advisory || s.workload.Mode == scaling.Advisory:
		return ErrAdvisory
	case s.unseen && s.refusal != "":
		return &RefusedError{s.refusal}
	case s.unseen:
		return ErrUnseen
	case s.inForce.Target != s.workload.Target:
		return ErrReplaced
	case age < 0:
		return ErrFuture
	case age > maxAge || s.expired:
		return ErrStale
	}
	return nil
}

// superseded reports whether the last decision was made under another version of the policy, or for another scale target, than is in
// force. The caller holds the lock.
func (s *slot) superseded() bool {
	return !s.at.IsZero() && (s.inForce.Policy != s.workload.Policy || s.inForce.Target != s.workload.Target)
}

// bounded returns the target of the last decision within the bounds of the policy in force: where that policy was edited and no decision
// was made under it yet, the target of its former version may lie outside of them. As in package scaling, a paused workload is not raised
// to the minimum, and the maximum wins over the minimum. The share of the team's limits wins over both. The caller holds the lock.
func (s *slot) bounded() int32 {
	n := s.withinPolicy()
	if s.share >= 0 {
		n = min(n, s.share)
	}
	return n
}

func (s *slot) withinPolicy() int32 {
	n := s.decision.Replicas
	if !s.superseded() {
		return n
	}
	p := s.inForce.Policy
	if !s.view.Operator.Paused {
		n = max(n, p.MinReplicas)
	}
	return max(min(n, p.MaxReplicas), 0)
}

// setShare bounds the target that is served without a decision of this tick; -1: no bound.
func (s *slot) setShare(n int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.share = n
}

// told is the part of an outcome whose change is news to a person.
//
// The binding rule is not: which of two rules holds a number that stays changes a hundred times a day.
type told struct {
	replicas         int32
	active, degraded bool
	mode             scaling.Mode
	operator         scaling.Operator
}

func (s *slot) told() told {
	d := &s.decision
	return told{d.Replicas, d.Active, d.Degraded, s.workload.Mode, s.view.Operator}
}

// thought is a decision that is not published yet, and what it was made from.
type thought struct {
	view     View
	readings []scaling.Reading
	decision scaling.Decision
	prior    scaling.Packed // before the tick
	began    StateOrigin
	made     bool
}

// think runs the brain on the thought's view and readings; awake is memory for the state.
func (s *slot) think(w *scaling.Workload, now time.Time, t *thought, awake *scaling.State) {
	s.state.Unpack(awake)
	t.began = s.beginning(w, &t.view, now)
	t.began.From(awake, w.Policy, t.view.Replicas, now)
	t.prior.Pack(awake)
	observation := observe(t.view, t.readings)
	t.decision = awake.Decide(w.Policy, &observation, now)
	s.state.Pack(awake)
	t.made = true
}

// limit decides again, from the state before the tick, within what the team's limits leave to the workload.
func (s *slot) limit(w *scaling.Workload, now time.Time, t *thought, awake *scaling.State) {
	t.prior.Unpack(awake)
	observation := observe(t.view, t.readings)
	t.decision = awake.Decide(w.Policy, &observation, now)
	s.state.Pack(awake)
}

// publish puts a decision on the board. Where it is news it returns a record of it.
func (s *slot) publish(w *scaling.Workload, t *thought, now time.Time) (news Record, first, isNews bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, first := s.told(), s.at.IsZero()
	if first {
		before.replicas = t.view.Replicas
	}
	if first || before.replicas != t.decision.Replicas {
		s.before, s.since = before.replicas, now
	}
	if len(s.readings) != len(t.readings) {
		s.readings = make([]scaling.Reading, len(t.readings))
	}
	copy(s.readings, t.readings)
	if *s.workload != *w {
		s.workload = copied(w)
	}
	s.decision.take(&t.decision)
	s.view, s.at, s.unseen, s.refusal, s.expired, s.began, s.share = t.view, now, false, "", false, t.began, -1
	if !first && before == s.told() {
		return Record{}, false, false
	}
	s.without = s.counterfactuals(&t.prior)
	news = s.record()
	news.Before = before.replicas
	return news, first, true
}

// miss records a tick in which the cluster did not show the target, and why where it exists.
func (s *slot) miss(w *scaling.Workload, refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unseen, s.refusal = true, refusal
	if s.at.IsZero() {
		s.workload = copied(w) // a decision is explained by the policy that made it; before the first there is only the newest
	}
}

func (s *slot) record() Record {
	return Record{
		Workload: *s.workload, View: s.view, Decision: s.decision.whole(), Before: s.before,
		Readings: slices.Clone(s.readings), Without: s.without, At: s.at, Since: s.since, Unseen: s.unseen, Refusal: s.refusal,
		Superseded: s.superseded(),
	}
}

// counterfactuals asks the brain again, once for each rule that took part, leaving that rule out; before is the state before the tick.
func (s *slot) counterfactuals(before *scaling.Packed) []Counterfactual {
	var from scaling.State
	before.Unpack(&from)
	reasons := s.decision.Reasons
	out := make([]Counterfactual, len(reasons))
	for i, r := range reasons {
		n := scaling.Without(s.workload.Policy, observe(s.view, s.readings), from, s.at, r.Rule, r.Index)
		out[i] = Counterfactual{Rule: r.Rule, Index: r.Index, Replicas: n}
	}
	return out
}
