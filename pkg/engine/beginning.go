package engine

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// StateOrigin is what a decision went on from. It is recorded, because the same decision cannot be made again without it.
type StateOrigin uint8

const (
	Continued StateOrigin = iota // from the state of the tick before, or from nothing
	Restarted                    // from the replicas that stood, with what was learned of the signals
	Seeded                       // from the replicas that stood alone
)

// From applies a beginning to the state that a decision is made from.
func (b StateOrigin) From(s *scaling.State, p *scaling.Policy, replicas int32, now time.Time) {
	switch b {
	case Restarted:
		s.Restart(p, replicas, now)
	case Seeded:
		*s = scaling.Seed(p, replicas, now)
	}
}

// StateOrigin tells what a workload's newest decision went on from.
func (b *DecisionStore) StateOrigin(k scaling.Key) StateOrigin {
	s := b.slot(k)
	if s == nil {
		return Continued
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.began
}

// beginning returns what the next decision starts from: the observed replicas where the last target was not in force. While a target was
// not served or not followed (held, advisory, another scale target, a deleted one, an HPA that starts to follow) the replicas did not
// follow it, and starting from it would drop 12 replicas to 1 past every window and rate, or raise a new object of one replica to its
// predecessor's 24. A workload with a target of 0 that a person or another controller scales up was not following either: its cooldown
// begins with that change. What was learned of the signals stays where they were read until now.
func (s *slot) beginning(w *scaling.Workload, v *View, now time.Time) StateOrigin {
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
