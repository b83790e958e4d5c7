package engine

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/teams"
)

// teamTicks is the part of a tick that keeps the targets of each team's workloads within the team's limits. All members of a team are
// decided first, then the limits are divided, then those that were cut are decided again within their share.
type teamTicks struct {
	engine *Engine
	of     []scaling.Workload // the engine's
	groups []*groupTick       // whose thoughts the members share
	teams  []*teamTick
}

// teamTick is what one team keeps from tick to tick.
type teamTick struct {
	team      *scaling.Team
	members   []*teamMember
	workloads []*scaling.Workload // parallel to members
	limits    []teams.Limit       // parallel to team.Limits
	others    []int64             // parallel: what no served member holds
	divide    []teams.Member      // parallel to members
	shares    []teams.Share       // parallel to members
	board     *teamSlot
}

// teamMember is a workload of a team with limits.
type teamMember struct {
	slot     *slot
	workload *scaling.Workload
	key      string
	thought  *thought // its capacity group's where it has one
	own      thought
	amounts  []teams.Amount // parallel to the team's limits; the last known ones are kept
}

// adopt keeps teams and their members parallel to the policies in force. A quiet tick compares pointers.
func (n *teamTicks) adopt() {
	var groups []*groupTick
	if n.engine.nodes != nil {
		groups = n.engine.nodes.groups
	}
	if same(n.engine.seen, n.of) && same(groups, n.groups) {
		return
	}
	n.of, n.groups = n.engine.seen, groups
	former := map[string]*teamTick{}
	for _, t := range n.teams {
		former[t.team.Name] = t
	}
	byName := map[string]*teamTick{}
	n.teams = nil
	for i, s := range n.engine.slots {
		w := &n.of[i]
		old := s.member
		if s.member = nil; w.Policy.Team == nil {
			continue
		}
		t := byName[w.Policy.Team.Name]
		if t == nil {
			t = newTeamTick(w.Policy.Team, former[w.Policy.Team.Name])
			byName[w.Policy.Team.Name], n.teams = t, append(n.teams, t)
		}
		t.add(s, w, old)
	}
	for _, g := range groups {
		for i, s := range g.slots {
			if s.member != nil {
				s.member.thought = &g.thoughts[i]
			}
		}
	}
	n.engine.board.adoptTeams(n.teams)
}

func newTeamTick(team *scaling.Team, former *teamTick) *teamTick {
	t := &teamTick{team: team, others: make([]int64, len(team.Limits))}
	for _, l := range team.Limits {
		t.limits = append(t.limits, teams.Limit{Resource: l.Resource, Max: l.Max})
	}
	if former != nil {
		t.board = former.board
	} else {
		t.board = &teamSlot{name: team.Name}
	}
	return t
}

// add makes a workload a member; old is the member that it was before, whose last known amounts stay.
func (t *teamTick) add(s *slot, w *scaling.Workload, old *teamMember) {
	m := &teamMember{slot: s, workload: w, key: w.Key.String(), amounts: make([]teams.Amount, len(t.limits))}
	m.thought = &m.own
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

// tick decides for the members of every team, and publishes those that belong to no capacity group.
func (n *teamTicks) tick(now time.Time, out *Outcome) {
	for _, t := range n.teams {
		for _, m := range t.members {
			out.count(n.engine.think(m.slot, m.workload, now, m.thought))
		}
		out.fail(n.limit(t, now))
		for _, m := range t.members {
			if !m.slot.grouped && m.thought.made {
				out.fail(n.engine.publish(m.slot, m.workload, m.thought, now))
			}
		}
	}
}

// limit divides the limits of a team. Where that fails, no member has a decision in this tick: the targets of the tick before are
// served until they are too old, and a target that ignores the limit is never served.
func (n *teamTicks) limit(t *teamTick, now time.Time) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("team %s: divide limits: %w", t.team.Name, panicError(r))
			for _, m := range t.members {
				m.revoke()
			}
			t.board.fail(now, err)
		}
	}()
	requests, _ := n.engine.cluster.(Requests)
	t.read(requests, n.maxAge(), now)
	t.board.update(t, now)
	teams.Divide(t.limits, t.others, t.divide, t.shares)
	advisory := false
	for i, m := range t.members {
		advisory = advisory || m.thought.made && m.workload.Mode != scaling.Auto
		switch {
		case m.thought.made && m.workload.Mode == scaling.Auto:
			n.apply(m, &t.shares[i], now)
		case !m.thought.made && t.shares[i].Limit >= 0:
			m.slot.setShare(t.shares[i].Max) // not decided in this tick, and still served
		case !m.thought.made:
			m.slot.setShare(-1)
		}
	}
	if advisory {
		n.advise(t, now)
	}
	t.board.finish(t)
	return nil
}

func (n *teamTicks) maxAge() time.Duration { return n.engine.options.MaxAge }

// advise computes what the workloads that are not served would receive, were they served like the others.
func (n *teamTicks) advise(t *teamTick, now time.Time) {
	for i, m := range t.members {
		if m.thought.made && m.workload.Mode != scaling.Auto {
			for r := range t.limits {
				t.others[r] = max(0, t.others[r]-held(&m.amounts[r], m.thought.view.Replicas))
			}
			t.divide[i] = m.wants(n.maxAge(), now)
		}
	}
	teams.Divide(t.limits, t.others, t.divide, t.shares)
	for i, m := range t.members {
		if m.thought.made && m.workload.Mode != scaling.Auto {
			n.apply(m, &t.shares[i], now)
		}
	}
}

// apply decides a member again where its share is less than its target.
func (n *teamTicks) apply(m *teamMember, share *teams.Share, now time.Time) {
	if t := m.thought; share.Limit >= 0 && share.Max < t.decision.Replicas {
		t.view.Limit = scaling.TeamLimit{Limited: true, Max: share.Max, Index: share.Limit, Others: share.Others}
		m.slot.limit(m.workload, now, t, &n.engine.awake)
	}
}

// revoke takes back a decision that was not published.
func (m *teamMember) revoke() {
	if m.thought.made {
		m.slot.state.Copy(&m.thought.prior)
		m.thought.made = false
	}
}

// read fills what Divide is given.
func (t *teamTick) read(requests Requests, maxAge time.Duration, now time.Time) {
	t.divide, t.shares = t.divide[:0], t.shares[:0]
	for r, l := range t.team.Limits {
		if t.others[r] = 0; requests != nil {
			t.others[r] = max(0, requests.Unmanaged(t.team, t.workloads, l.Resource))
		}
	}
	for _, m := range t.members {
		for r, l := range t.team.Limits {
			m.request(requests, r, l.Resource)
		}
		next := teams.Member{Key: m.key, Amounts: m.amounts}
		switch {
		case m.thought.made && m.workload.Mode == scaling.Auto:
			next = m.wants(maxAge, now)
		case m.thought.made:
			// Not served: something else sets its replicas, and they exist.
			for r := range t.limits {
				t.others[r] += held(&m.amounts[r], m.thought.view.Replicas)
			}
		case m.served(maxAge, now):
			next.Want = m.slot.withinPolicy()
			next.Running, next.Granted = max(0, m.slot.view.Replicas), next.Want
		default:
			for r := range t.limits {
				t.others[r] += m.amounts[r].Pods
			}
		}
		t.divide, t.shares = append(t.divide, next), append(t.shares, teams.Share{})
	}
}

// request reads one amount. An amount that is not known at present keeps its last known value.
func (m *teamMember) request(from Requests, r int, resource string) {
	a := &m.amounts[r]
	a.Known, a.Pods = false, 0
	if from == nil {
		return
	}
	n, known, pods := from.Request(m.workload, resource)
	if a.Pods = max(0, pods); known && n >= 0 {
		a.PerReplica, a.Known = n, true
	}
}

// wants is the member as it takes part in the division.
func (m *teamMember) wants(maxAge time.Duration, now time.Time) teams.Member {
	t := m.thought
	out := teams.Member{Key: m.key, Want: t.decision.Replicas, Running: max(0, t.view.Replicas), Amounts: m.amounts}
	if m.served(maxAge, now) && m.slot.view.UID == t.view.UID {
		out.Granted = m.slot.bounded()
	}
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

// served reports whether the last decision is still served. The engine alone writes what is read here, so that no lock is needed.
func (m *teamMember) served(maxAge time.Duration, now time.Time) bool {
	return m.slot.unserved(now, maxAge) == nil
}

// held is what replicas hold of a resource; a replica whose amount was never known counts as one unit.
func held(a *teams.Amount, replicas int32) int64 {
	n := int64(max(0, replicas))
	if a.Known {
		return n * a.PerReplica
	}
	return max(a.Pods, n*max(a.PerReplica, 1))
}
