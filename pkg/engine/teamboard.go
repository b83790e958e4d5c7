package engine

import (
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/teams"
)

// TeamRecord is what became of one team's limits in its newest tick. Everything in it is a copy.
type TeamRecord struct {
	Name   string
	At     time.Time // when the limits were divided; zero: not yet
	Limits []TeamUse // parallel to the team's limits
	Err    string    // why the limits were not divided in the last tick; empty: they were
}

// TeamUse is one limit of a team, in units of its resource.
type TeamUse struct {
	Resource string
	Limit    int64
	Wanted   int64 // the targets without the limit
	Targets  int64 // the targets that are served
	Minimums int64 // minReplicas of the policies; above Limit, they cannot all be kept
	Others   int64 // pods that no policy manages, and workloads that are not served
	Unknown  int   // workloads whose amount per replica cannot be read
	Cut      int   // workloads whose target the limits cut
}

// teamSlot is a team's place on the board.
type teamSlot struct {
	name string

	mu     sync.Mutex
	record TeamRecord
}

func (s *teamSlot) fail(now time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.Name, s.record.At, s.record.Err = s.name, now, err.Error()
}

// update notes what the members ask for, before the limits are divided.
func (s *teamSlot) update(t *teamTick, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.Name, s.record.At, s.record.Err, s.record.Limits = s.name, now, "", s.record.Limits[:0]
	for r, l := range t.limits {
		u := TeamUse{Resource: l.Resource, Limit: l.Max, Others: t.others[r]}
		for i, m := range t.members {
			a := &m.amounts[r]
			u.Wanted += held(a, t.divide[i].Want)
			u.Minimums += held(&teams.Amount{PerReplica: a.PerReplica, Known: true}, m.workload.Policy.MinReplicas)
			if !a.Known && m.thought.made {
				u.Unknown++
			}
		}
		s.record.Limits = append(s.record.Limits, u)
	}
}

// finish notes what the members received.
func (s *teamSlot) finish(t *teamTick) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.record.Limits {
		u := &s.record.Limits[r]
		for i, m := range t.members {
			switch {
			case m.workload.Mode != scaling.Auto:
			case m.thought.made:
				u.Targets += held(&m.amounts[r], m.thought.decision.Replicas)
			default:
				u.Targets += held(&m.amounts[r], t.shares[i].Max)
			}
			if l := &m.thought.view.Limit; m.thought.made && l.Limited && int(l.Index) == r {
				u.Cut++
			}
		}
	}
}

// Teams returns a copy of the newest outcome of every team with limits that has a policy, in the order of the policies.
func (b *DecisionStore) Teams() (all []TeamRecord) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range b.teams {
		s.mu.Lock()
		r := s.record
		r.Name, r.Limits = s.name, append([]TeamUse(nil), r.Limits...)
		s.mu.Unlock()
		all = append(all, r)
	}
	return all
}

func (b *DecisionStore) adoptTeams(all []*teamTick) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.teams = nil
	for _, t := range all {
		b.teams = append(b.teams, t.board)
	}
}
