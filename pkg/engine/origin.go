package engine

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// StateOrigin is the origin of the state from which a decision started. Recordings contain it, because the decision depends on it.
type StateOrigin uint8

// Values of StateOrigin. Each comment describes the state from which the decision starts.
const (
	Continued StateOrigin = iota // the state after the previous tick; for the first decision, the zero state
	Restarted                    // the observed replicas, with the trends and forecasts of the signals
	Seeded                       // the observed replicas, with what was learned for the objective
	Replaced                     // the observed replicas, without any earlier state
)

// From sets s to the state from which a decision with this origin starts. It keeps s if the origin is Continued.
func (b StateOrigin) From(s *scaling.State, p *scaling.Policy, replicas int32, now time.Time) {
	switch b {
	case Restarted:
		s.Restart(p, replicas, now)
	case Seeded:
		s.Reseed(p, replicas, now)
	case Replaced:
		*s = scaling.Seed(p, replicas, now)
	}
}

// StateOrigin returns the origin of a workload's newest decision; Continued for an unknown workload.
func (b *DecisionStore) StateOrigin(k scaling.Key) StateOrigin {
	s := b.entry(k)
	if s == nil {
		return Continued
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.origin
}

// chooseOrigin returns the state from which the next decision starts. A decision normally continues from the last target. In these cases,
// it starts from the observed replicas instead:
//
//   - Replaced: the last decision was made for a scale target of another name.
//   - Seeded: the last decision is too old, or it was made for a deleted scale target of the same name.
//   - Restarted: the last target was not served (mode hold or advisory), or no HPA has read it so far.
//   - Restarted: the target is 0, and a user or another controller scaled the workload up. The cooldown starts with that change.
//
// In these cases the replicas did not follow the last target. A decision that continues from it could lower 12 replicas to 1 without
// applying any window or rate. It could also raise a new object with one replica to the 24 replicas of the deleted object. Restarted keeps
// the trends and forecasts of the signals, because gpuscaler read the signals all the time.
func (s *workloadEntry) chooseOrigin(w *scaling.Workload, v *View, now time.Time) StateOrigin {
	switch {
	case s.at.IsZero():
		return Continued
	case w.Target != s.workload.Target:
		return Replaced
	case v.UID != s.view.UID, now.Sub(s.at) > DefaultMaxAge, s.unseen && now.Before(s.at):
		return Seeded
	case s.view.Replicas == 0 && v.Replicas > 0 && s.decision.Replicas == 0:
		return Restarted
	case w.Mode == scaling.Auto && s.workload.Mode != scaling.Auto, s.view.HPAKind == "" && v.ManagedHPA.Kind != "":
		return Restarted
	}
	return Continued
}
