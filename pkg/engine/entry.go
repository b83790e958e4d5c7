package engine

import (
	"slices"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

type workloadEntry struct {
	// Only the tick uses the fields state, advice, member and grouped, so access to them needs no lock.
	state   scaling.Packed
	advice  Advice      // advice of the capacity group from the previous tick
	member  *teamMember // the membership of the workload in a team with limits; nil: none
	grouped bool        // true if the workload belongs to a capacity group; its target is then published in the tick of the group

	// Small fields are adjacent to avoid padding, because there can be ten thousand entries.
	unseen   bool        // the last tick did not find the scale target in the cluster
	expired  bool        // true if the time of the last decision was in the future at some tick, because the clock was set back
	origin   StateOrigin // the state from which the last decision started
	before   int32
	share    int32             // maximum for the last target from the team's limits, until the next decision; -1: no maximum
	mu       sync.Mutex        // guards unseen and all fields after it
	refusal  string            // why an existing scale target cannot be scaled; otherwise empty
	inForce  *scaling.Workload // the workload in the current policies
	workload *scaling.Workload // the workload at the last decision: a copy that never changes and that the history also refers to
	view     packedView
	decision packedDecision
	readings []scaling.Reading
	without  []Counterfactual // the counterfactuals of the last decision that was a change
	at       time.Time
	since    time.Time
	learning *learning // nil: the policy has no objective
}

// newWorkloadEntry returns an entry without a decision. It sets the bounds of the HPA to -1, which means that they are not known. Their
// zero values would mean "at most 0 replicas".
func newWorkloadEntry(w *scaling.Workload) *workloadEntry {
	return &workloadEntry{share: -1, inForce: w, workload: copied(w), view: packedView{MinReplicas: -1, MaxReplicas: -1}}
}

// copied returns a copy of w for the history. A pointer to w would keep the slice of all policies, of which w is an element, in memory.
func copied(w *scaling.Workload) *scaling.Workload {
	c := *w
	return &c
}

// adopt sets inForce to w, the workload in the current policies.
func (s *workloadEntry) adopt(w *scaling.Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inForce = w
}

// expire marks the last decision as expired if its time is in the future.
func (s *workloadEntry) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = s.expired || now.Before(s.at)
}

// unserved returns the reason why the last decision is not served, or nil if it is served. The caller holds the lock.
func (s *workloadEntry) unserved(now time.Time, maxAge time.Duration) error {
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

// superseded reports whether the policy or the scale target was replaced after the last decision. The caller holds the lock.
func (s *workloadEntry) superseded() bool {
	return !s.at.IsZero() && (s.inForce.Policy != s.workload.Policy || s.inForce.Target != s.workload.Target)
}

// bounded returns the target of the last decision within the bounds of the current policy. After an edit of the policy, the last target may
// be outside the new bounds until the next decision. As in package scaling, the target of a paused workload is not increased to the
// minimum, and the maximum has precedence over the minimum. The workload's share of the team's limits has precedence over minimum and
// maximum. The caller holds the lock.
func (s *workloadEntry) bounded() int32 {
	n := s.withinPolicy()
	if s.share >= 0 {
		n = min(n, s.share)
	}
	return n
}

func (s *workloadEntry) withinPolicy() int32 {
	n := s.decision.Replicas
	if !s.superseded() {
		return n
	}
	p := s.inForce.Policy
	if !s.view.operator().Paused {
		n = max(n, p.MinReplicas)
	}
	return max(min(n, p.MaxReplicas), 0)
}

// setShare limits the last target, which is still served, to n replicas, the workload's share of its team's limits; -1 means no limit. It
// is called in a tick that makes no decision for the workload.
func (s *workloadEntry) setShare(n int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.share = n
}

// transitionFields contains the fields of a decision that are compared with the same fields of the previous decision. If a field differs,
// the decision is a transition: it is added to the history and announced.
//
// The binding rule is not compared. If two rules result in the same target, the binding rule can alternate between them a hundred times a
// day.
type transitionFields struct {
	replicas         int32
	active, degraded bool
	mode             scaling.Mode
	operator         scaling.Operator
}

func (s *workloadEntry) transitionFields() transitionFields {
	d := &s.decision
	return transitionFields{d.Replicas, d.Active, d.Degraded, s.workload.Mode, s.view.operator()}
}

// evaluation contains a decision and its inputs until the decision is published.
type evaluation struct {
	view     View
	readings []scaling.Reading
	decision scaling.Decision
	prior    scaling.Packed // the state before the tick
	origin   StateOrigin
	decided  bool
	model    *objective.Model // nil: the policy has no objective
	restored *SavedModel      // the saved model from which the first decision starts; nil if there is none, and in later decisions
}

// evaluate makes the decision from the view and the readings in t, and stores it in t. It unpacks the workload's state into scratch.
func (s *workloadEntry) evaluate(w *scaling.Workload, now time.Time, t *evaluation, scratch *scaling.State) {
	s.state.Unpack(scratch)
	if t.restored != nil {
		scratch.Restore(w.Policy, t.restored.model(), t.restored.At)
	}
	t.origin = s.chooseOrigin(w, &t.view, now)
	t.origin.From(scratch, w.Policy, t.view.Replicas, now)
	t.prior.Pack(scratch)
	observation := observe(t.view, t.readings)
	t.decision = scratch.Decide(w.Policy, &observation, now)
	s.state.Pack(scratch)
	t.model = scratch.Learned()
	t.decided = true
}

// limit repeats the decision after the view in t was changed to contain the workload's share of its team's limits. The repeated decision
// starts from the state before the tick.
func (s *workloadEntry) limit(w *scaling.Workload, now time.Time, t *evaluation, scratch *scaling.State) {
	t.prior.Unpack(scratch)
	observation := observe(t.view, t.readings)
	t.decision = scratch.Decide(w.Policy, &observation, now)
	s.state.Pack(scratch)
}

// publish stores a decision. If the decision is a change, isChange is true and change is its record. If it is the first decision of the
// workload, first is true.
func (s *workloadEntry) publish(w *scaling.Workload, t *evaluation, now time.Time) (change Record, first, isChange bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, first := s.transitionFields(), s.at.IsZero()
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
	s.decision.set(&t.decision)
	s.learn(t, now)
	s.view.set(&t.view)
	s.at, s.unseen, s.refusal, s.expired, s.origin, s.share = now, false, "", false, t.origin, -1
	if !first && before == s.transitionFields() {
		return Record{}, false, false
	}
	s.without = s.counterfactuals(&t.prior)
	change = s.record()
	change.Before = before.replicas
	return change, first, true
}

// miss records that the last tick did not find the scale target. If the scale target exists, refusal is the reason why the cluster does not
// return it. Otherwise refusal is empty.
func (s *workloadEntry) miss(w *scaling.Workload, refusal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unseen, s.refusal = true, refusal
	if s.at.IsZero() {
		s.workload = copied(w) // until the first decision, readers get the current policy
	}
}

func (s *workloadEntry) record() Record {
	return Record{
		Workload: *s.workload, View: s.view.unpack(), Decision: s.decision.unpack(), Before: s.before,
		Readings: slices.Clone(s.readings), Without: s.without, At: s.at, Since: s.since, Unseen: s.unseen, Refusal: s.refusal,
		Superseded: s.superseded(), Learned: s.learned(),
	}
}

// counterfactuals returns, for each rule that has a reason in the last decision, the target that the decision would have had without the
// rule. before is the state from which the decision started.
func (s *workloadEntry) counterfactuals(before *scaling.Packed) []Counterfactual {
	var from scaling.State
	before.Unpack(&from)
	reasons, view := s.decision.Reasons, s.view.unpack()
	out := make([]Counterfactual, len(reasons))
	for i, r := range reasons {
		n := scaling.Without(s.workload.Policy, observe(view, s.readings), from, s.at, r.Rule, r.Index)
		out[i] = Counterfactual{Rule: r.Rule, Index: r.Index, Replicas: n}
	}
	return out
}
