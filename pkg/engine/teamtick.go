package engine

import (
	"fmt"
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/teams"
)

// teamTicks keeps the targets of each team's workloads (its members) within the team's limits. In each tick, all members of a team are
// evaluated, then the limits are divided, and then the members whose share is less than their target are evaluated again.
type teamTicks struct {
	engine *Engine
	of     []scaling.Workload // the workloads at the last call of adopt, to detect that they were replaced
	groups []*groupTick       // the capacity groups at the last call of adopt; teamMember.evaluation points into them
	teams  []*teamTick
}

// teamTick is the state of one team between ticks.
type teamTick struct {
	team      *scaling.Team
	members   []*teamMember
	workloads []*scaling.Workload // the workload of each member, in the order of the members
	limits    []teams.Limit       // in the order of team.Limits
	others    []int64             // for each limit: the units used by pods without a policy, and by members whose target is not served
	divide    []teams.Member      // the input of teams.Divide for each member
	shares    []teams.Share       // the result of teams.Divide for each member
	entry     *teamEntry
}

// teamMember is a workload of a team with limits.
type teamMember struct {
	entry      *workloadEntry
	workload   *scaling.Workload
	key        string
	evaluation *evaluation // the evaluation of this tick: an element of groupTick.evaluations of its capacity group, or the field own
	own        evaluation
	trial      bool           // the workload may have one replica, although its request per replica is unknown
	room       int32          // how many more replicas than the target of this tick the limits allow
	amounts    []teams.Amount // the request per replica for each limit; the last known request if it can no longer be read
	uid        string         // UID of the scale target in the last tick with a decision
}

// adopt updates the teams and their members to match the current policies. It does nothing if neither the slice of policies nor the slice
// of capacity groups was replaced since the last tick.
func (n *teamTicks) adopt() {
	var groups []*groupTick
	if n.engine.nodes != nil {
		groups = n.engine.nodes.groups
	}
	if same(n.engine.workloads, n.of) && same(groups, n.groups) {
		return
	}
	n.of, n.groups = n.engine.workloads, groups
	previous := map[string]*teamTick{}
	for _, t := range n.teams {
		previous[t.team.Name] = t
	}
	byName := map[string]*teamTick{}
	n.teams = nil
	for i, s := range n.engine.entries {
		w := &n.of[i]
		old := s.member
		if s.member = nil; w.Policy.Team == nil {
			continue
		}
		t := byName[w.Policy.Team.Name]
		if t == nil {
			t = newTeamTick(w.Policy.Team, previous[w.Policy.Team.Name])
			byName[w.Policy.Team.Name], n.teams = t, append(n.teams, t)
		}
		t.add(s, w, old)
	}
	for _, g := range groups {
		for i, s := range g.entries {
			if s.member != nil {
				s.member.evaluation = &g.evaluations[i]
			}
		}
	}
	n.engine.decisions.adoptTeams(n.teams)
}

func newTeamTick(team *scaling.Team, previous *teamTick) *teamTick {
	t := &teamTick{team: team, others: make([]int64, len(team.Limits))}
	for _, l := range team.Limits {
		t.limits = append(t.limits, teams.Limit{Resource: l.Resource, Max: l.Max})
	}
	if previous != nil {
		t.entry = previous.entry
	} else {
		t.entry = &teamEntry{name: team.Name}
	}
	return t
}

// add makes a workload a member of the team. old is the member for the same workload before the policies changed, or nil. The new member
// keeps the last known requests per replica.
func (t *teamTick) add(s *workloadEntry, w *scaling.Workload, old *teamMember) {
	m := &teamMember{entry: s, workload: w, key: w.Key.String(), amounts: make([]teams.Amount, len(t.limits))}
	m.evaluation = &m.own
	if old != nil {
		m.trial, m.uid = old.trial, old.uid
	}
	if old != nil && old.workload.Policy.Team != nil {
		for i, l := range t.limits {
			for j, before := range old.workload.Policy.Team.Limits {
				if before.Resource == l.Resource && j < len(old.amounts) {
					m.amounts[i].PerReplica = old.amounts[j].PerReplica
				}
			}
		}
	}
	s.member = m
	t.members, t.workloads = append(t.members, m), append(t.workloads, w)
}

// tick evaluates the members of every team and divides the team's limits. It publishes the targets of members without a capacity group. The
// targets of other members are published with their group.
func (n *teamTicks) tick(now time.Time, out *Outcome) {
	for _, t := range n.teams {
		for _, m := range t.members {
			out.count(n.engine.evaluate(m.entry, m.workload, now, m.evaluation))
		}
		out.fail(n.limit(t, now))
		for _, m := range t.members {
			if !m.entry.grouped && m.evaluation.decided {
				out.fail(n.engine.publish(m.entry, m.workload, m.evaluation, now))
			}
		}
	}
}

// limit divides the limits of a team. If the division panics, no member has a decision in this tick, because a target that ignores the
// limits must not be served. The targets of the previous tick are served until they are older than MaxAge.
func (n *teamTicks) limit(t *teamTick, now time.Time) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("team %s: divide limits: %w", t.team.Name, panicError(r))
			for _, m := range t.members {
				m.revoke()
			}
			t.entry.fail(now, err)
		}
	}()
	requests, _ := n.engine.cluster.(Requests)
	t.read(requests, n.maxAge(), now)
	t.entry.update(t, now)
	teams.Divide(t.limits, t.others, t.divide, t.shares)
	advisory := false
	for i, m := range t.members {
		m.setTrial(&t.divide[i], &t.shares[i])
		advisory = advisory || m.evaluation.decided && m.workload.Mode != scaling.Auto
		switch {
		case m.evaluation.decided && m.workload.Mode == scaling.Auto:
			n.apply(m, &t.shares[i], now)
		case !m.evaluation.decided && t.shares[i].Limit >= 0:
			m.entry.setShare(t.shares[i].Max) // no decision in this tick, but the last target is still served
		case !m.evaluation.decided:
			m.entry.setShare(-1)
		}
	}
	t.setHeadrooms()
	if advisory {
		n.advise(t, now)
	}
	t.entry.finish(t)
	return nil
}

func (n *teamTicks) maxAge() time.Duration { return n.engine.options.MaxAge }

// setHeadrooms computes room for each member: the number of replicas above its target that the team's limits allow if no existing replica
// is removed. If the requests per replica are unknown, room is 0.
func (t *teamTick) setHeadrooms() {
	left := make([]int64, len(t.limits))
	for r := range t.limits {
		left[r] = t.limits[r].Max - t.others[r]
		for i, m := range t.members {
			switch {
			case m.workload.Mode != scaling.Auto: // t.others includes the pods of this member
			case m.evaluation.decided:
				left[r] -= unitsOf(&m.amounts[r], max(m.evaluation.decision.Replicas, m.evaluation.view.Replicas))
			case t.divide[i].Granted > 0:
				left[r] -= unitsOf(&m.amounts[r], max(t.shares[i].Max, t.divide[i].Running))
			}
		}
	}
	for _, m := range t.members {
		room := int64(math.MaxInt32)
		for r := range t.limits {
			switch a := &m.amounts[r]; {
			case !a.Known:
				room = 0
			case a.PerReplica > 0:
				room = min(room, max(left[r], 0)/a.PerReplica)
			}
		}
		m.room = int32(room)
	}
}

// advise computes the shares that workloads in mode hold or advisory would receive if their targets were served.
func (n *teamTicks) advise(t *teamTick, now time.Time) {
	for i, m := range t.members {
		if m.evaluation.decided && m.workload.Mode != scaling.Auto {
			for r := range t.limits {
				t.others[r] = max(0, t.others[r]-unitsOf(&m.amounts[r], m.evaluation.view.Replicas))
			}
			t.divide[i] = m.demand(n.maxAge(), now)
		}
	}
	teams.Divide(t.limits, t.others, t.divide, t.shares)
	for i, m := range t.members {
		if m.evaluation.decided && m.workload.Mode != scaling.Auto {
			n.apply(m, &t.shares[i], now)
		}
	}
}

// apply evaluates a member again with its share of the limits if the share is below its target.
func (n *teamTicks) apply(m *teamMember, share *teams.Share, now time.Time) {
	if t := m.evaluation; share.Limit >= 0 && share.Max < t.decision.Replicas {
		t.view.Limit = scaling.TeamLimit{Limited: true, Max: share.Max, Index: share.Limit, Others: share.Others}
		m.entry.limit(m.workload, now, t, &n.engine.scratch)
	}
}

// revoke discards the decision of an evaluation that will not be published, and restores the state from which it started.
func (m *teamMember) revoke() {
	if m.evaluation.decided {
		m.entry.state.Copy(&m.evaluation.prior)
		m.evaluation.decided = false
	}
}

// read sets the inputs of teams.Divide: the request and the demand of each member, and what other pods use.
func (t *teamTick) read(requests Requests, maxAge time.Duration, now time.Time) {
	t.divide, t.shares = t.divide[:0], t.shares[:0]
	for r, l := range t.team.Limits {
		if t.others[r] = 0; requests != nil {
			t.others[r] = max(0, requests.Unmanaged(t.team, t.workloads, l.Resource))
		}
	}
	for _, m := range t.members {
		m.forget()
		for r, l := range t.team.Limits {
			m.request(requests, r, l.Resource)
		}
		next := teams.Member{Key: m.key, Amounts: m.amounts}
		switch {
		case m.evaluation.decided && m.workload.Mode == scaling.Auto:
			next = m.demand(maxAge, now)
		case m.evaluation.decided:
			// The target is not served, so another controller sets the replicas. t.others includes the requests of the existing replicas.
			for r := range t.limits {
				t.others[r] += unitsOf(&m.amounts[r], m.evaluation.view.Replicas)
			}
		case m.served(maxAge, now):
			next.Want = m.entry.withinPolicy()
			next.Running, next.Granted = max(0, m.entry.view.Replicas), next.Want
			next.Trial = m.onTrial(&next)
		default:
			for r := range t.limits {
				t.others[r] += m.amounts[r].Pods
			}
		}
		t.divide, t.shares = append(t.divide, next), append(t.shares, teams.Share{})
	}
}

// request reads how much of a resource one replica of the member requests. If the request cannot be read, the last known request is kept.
// During a trial (see setTrial), all existing pods belong to one replica, so this replica requests at least what the pods request together.
func (m *teamMember) request(from Requests, r int, resource string) {
	a := &m.amounts[r]
	a.Known, a.Pods = false, 0
	if from == nil {
		return
	}
	n, known, pods := from.Request(m.workload, resource)
	switch a.Pods = max(0, pods); {
	case known && n >= 0:
		a.PerReplica, a.Known = n, true
	case m.trial:
		a.PerReplica = max(a.PerReplica, a.Pods)
	}
}

// demand returns what the member needs, as input of teams.Divide.
func (m *teamMember) demand(maxAge time.Duration, now time.Time) teams.Member {
	t := m.evaluation
	out := teams.Member{Key: m.key, Want: t.decision.Replicas, Running: max(0, t.view.Replicas), Amounts: m.amounts}
	if m.served(maxAge, now) && m.entry.view.UID == t.view.UID {
		out.Granted = m.entry.bounded()
	}
	out.Trial = m.onTrial(&out)
	switch o := &t.view.Operator; {
	case o.Paused:
		out.Min = out.Want
	case o.Min > 0 && now.Before(o.Until):
		out.Min = max(m.workload.Policy.MinReplicas, o.Min)
	default:
		out.Min = m.workload.Policy.MinReplicas
	}
	return out
}

// served reports whether the last decision is still served. It needs no lock, because only the tick writes the fields that it reads.
func (m *teamMember) served(maxAge time.Duration, now time.Time) bool {
	return m.entry.unserved(now, maxAge) == nil
}

// unitsOf returns how much of a resource, for example how many GPUs, a number of replicas requests. If the request of a replica is unknown,
// unitsOf uses its last known value, or one unit if it was never known. In this case, the result is at least what the existing pods
// request.
func unitsOf(a *teams.Amount, replicas int32) int64 {
	n := int64(max(0, replicas))
	if a.Known {
		return n * a.PerReplica
	}
	return max(a.Pods, n*max(a.PerReplica, 1))
}
