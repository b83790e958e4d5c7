package engine

import (
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/teams"
)

// TeamRecord is the use of one team's limits in the newest tick. It shares no memory with the engine.
type TeamRecord struct {
	Name   string
	At     time.Time // time at which the limits were divided; zero if they were not divided so far
	Limits []TeamUse // in the order of the team's limits
	Err    string    // why the last tick did not divide the limits; empty if it divided them
}

// TeamUse is the use of one limit of a team. Its amounts are in units of the limited resource, for example GPUs.
type TeamUse struct {
	Resource string
	Limit    int64
	Uncapped int64 // sum over the targets that the workloads would have without the limit
	Targets  int64 // sum over the targets that are served
	Minimums int64 // sum over minReplicas; if it exceeds Limit, the limit is kept and not every minimum is reached
	Others   int64 // used by pods without a policy, and by workloads whose target is not served
	Unknown  int   // number of workloads whose request per replica is unknown
	Cut      int   // number of workloads whose target the limits reduce
}

// teamEntry contains the newest record of a team.
type teamEntry struct {
	name string

	mu     sync.Mutex
	record TeamRecord
}

func (s *teamEntry) fail(now time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.Name, s.record.At, s.record.Err = s.name, now, err.Error()
}

// update stores the limits and the demand of the team's workloads before the limits are divided.
func (s *teamEntry) update(t *teamTick, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record.Name, s.record.At, s.record.Err, s.record.Limits = s.name, now, "", s.record.Limits[:0]
	for r, l := range t.limits {
		u := TeamUse{Resource: l.Resource, Limit: l.Max, Others: t.others[r]}
		for i, m := range t.members {
			a := &m.amounts[r]
			u.Uncapped += unitsOf(a, t.divide[i].Want)
			u.Minimums += unitsOf(&teams.Amount{PerReplica: a.PerReplica, Known: true}, m.workload.Policy.MinReplicas)
			if !a.Known && m.evaluation.decided {
				u.Unknown++
			}
		}
		s.record.Limits = append(s.record.Limits, u)
	}
}

// finish stores the targets of the team's workloads after the limits were divided.
func (s *teamEntry) finish(t *teamTick) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.record.Limits {
		u := &s.record.Limits[r]
		for i, m := range t.members {
			switch {
			case m.workload.Mode != scaling.Auto:
			case m.evaluation.decided:
				u.Targets += unitsOf(&m.amounts[r], m.evaluation.decision.Replicas)
			default:
				u.Targets += unitsOf(&m.amounts[r], t.shares[i].Max)
			}
			if l := &m.evaluation.view.Limit; m.evaluation.decided && l.Limited && int(l.Index) == r {
				u.Cut++
			}
		}
	}
}

// Teams returns copies of the records of all teams that have limits and a policy, in the order of the policies.
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
		b.teams = append(b.teams, t.entry)
	}
}
