package engine

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// StateOrigin is the state from which a decision started. A recording contains it, because the decision depends on it.
type StateOrigin uint8

// Values of StateOrigin.
const (
	Continued StateOrigin = iota // the state of the tick before, or the zero state
	Restarted                    // the observed replicas, with the trends and forecasts of the signals
	Seeded                       // the observed replicas alone
)

// From changes the state that a decision starts from.
func (b StateOrigin) From(s *scaling.State, p *scaling.Policy, replicas int32, now time.Time) {
	switch b {
	case Restarted:
		s.Restart(p, replicas, now)
	case Seeded:
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

// chooseOrigin returns the origin of the next decision. It is the observed replicas if they could not follow the last target: because
// that was not served (mode hold or advisory), is too old, was for another or a deleted scale target, or because no HPA read it until
// now. To continue from it would lower 12 replicas to 1 past every window and rate, or raise a new object with one replica to the 24 of
// the deleted one. It is also the observed replicas if the target is 0 and a user or another controller scaled the workload up: its
// cooldown starts with that change. The trends and forecasts are kept if the signals were read until now.
func (s *workloadEntry) chooseOrigin(w *scaling.Workload, v *View, now time.Time) StateOrigin {
	switch {
	case s.at.IsZero():
		return Continued
	case w.Target != s.workload.Target, v.UID != s.view.UID, now.Sub(s.at) > DefaultMaxAge, s.unseen && now.Before(s.at):
		return Seeded
	case s.view.Replicas == 0 && v.Replicas > 0 && s.decision.Replicas == 0:
		return Restarted
	case w.Mode == scaling.Auto && s.workload.Mode != scaling.Auto, s.view.ManagedHPA.Kind == "" && v.ManagedHPA.Kind != "":
		return Restarted
	}
	return Continued
}
