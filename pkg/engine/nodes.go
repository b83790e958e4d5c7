package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Groups is the set of capacity groups to decide for. The slice is shared and never written; it is the same until it changes.
type Groups interface {
	Groups() []*capacity.Group
}

// Nodes is what is seen of NodePools, their nodes and every pod that wants one, and the hands that nudge them.
type Nodes interface {
	// Observe fills o from memory: everything but what was decided. o.Workloads stands parallel to of; of each the pods, Current,
	// GPUs, Quota and Buffer are filled. What o is given is shared: nobody writes to it.
	Observe(g *capacity.Group, of []*scaling.Workload, o *capacity.Observation)
	// Act begins to carry out actions and returns at once; done is closed when that has ended, well or not. The slice is the
	// caller's again when Act returns.
	Act(g *capacity.Group, actions []capacity.Action) (done <-chan struct{})
	// Orphans are NodePools that carry our record, or fields of ours, and that none of the groups names, and marks of ours on pods
	// that belong to none of their workloads.
	Orphans(groups []*capacity.Group, of []scaling.Workload) ([]Orphan, []capacity.Action)
}

// Orphan is a NodePool that carries our record and that no group names any more.
type Orphan struct{ Pool, Record string }

// Advice is what the nodes say to one workload's replicas; the zero value says nothing.
type Advice struct {
	Capped             bool
	Cap, AtRisk, Surge int32 // Cap: replicas beyond which no node can come at present, where Capped
}

func (a Advice) forScaling() scaling.Advice {
	out := scaling.Advice{Cap: -1, AtRisk: a.AtRisk, Surge: a.Surge}
	if a.Capped {
		out.Cap = a.Cap
	}
	return out
}

func adviceOf(a capacity.Advice) Advice {
	out := Advice{AtRisk: a.AtRisk, Surge: a.Surge}
	if a.Cap >= 0 {
		out.Capped, out.Cap = true, a.Cap
	}
	return out
}

// GroupTick is one decision for a group's nodes. All of it is the engine's, and valid only until the call returns.
type GroupTick struct {
	At          time.Time
	Group       *capacity.Group
	Orphaned    bool // the NodePool of a group that is gone: let go, not decided
	Fresh       bool // nothing was remembered: the first decision, or the first after one that failed
	Observation *capacity.Observation
	Decision    *capacity.Decision
}

// nodeTicks is the part of a tick that decides for capacity groups.
type nodeTicks struct {
	engine  *Engine
	seen    []*capacity.Group  // the slices that groups and members were made from
	of      []scaling.Workload // the engine's
	groups  []*groupTick
	strays  map[string]*groupTick // by NodePool
	loosens context.Context       // bounds what this tick waits for; nil until something is waited for
	cancel  context.CancelFunc
}

// groupTick is what one group keeps from tick to tick.
type groupTick struct {
	group       *capacity.Group
	workloads   []*scaling.Workload // of its policies, in the order of the engine's
	keys        []string            // parallel: their names
	slots       []*slot             // parallel
	thoughts    []thought           // parallel, of this tick
	pods        [][]capacity.Pod    // parallel: scratch, where idle ones are looked for
	ahead       []aheadSpan
	looked      int64 // the minute for which ahead was made
	state       capacity.State
	remembers   bool // the state is not the zero one
	observation capacity.Observation
	decision    capacity.Decision
	board       *groupSlot
}

func newNodeTicks(e *Engine) *nodeTicks {
	return &nodeTicks{engine: e, strays: map[string]*groupTick{}}
}

// tick decides for every group and its workloads. What lets nodes come is carried out before a group's numbers are published, what
// takes away after.
func (n *nodeTicks) tick(ctx context.Context, now time.Time, out *Outcome) {
	for _, g := range n.groups {
		for i, s := range g.slots {
			if s.member == nil { // a member of a team is decided with its team
				out.count(n.engine.think(s, g.workloads[i], now, &g.thoughts[i]))
			}
		}
		n.decide(ctx, g, now, out)
	}
	n.release(now, out)
	if n.cancel != nil {
		n.cancel()
		n.loosens, n.cancel = nil, nil
	}
}

// decide runs one group's brain. Its workloads' numbers are published whatever becomes of it: a panic in it is the group's alone.
func (n *nodeTicks) decide(ctx context.Context, g *groupTick, now time.Time, out *Outcome) {
	published := false
	publish := func() {
		for i, s := range g.slots {
			if t := &g.thoughts[i]; t.made {
				out.fail(n.engine.publish(s, g.workloads[i], t, now))
			}
		}
		published = true
	}
	defer func() {
		if r := recover(); r != nil {
			err := fmt.Errorf("capacity group %s: %w", g.group.Name, panicError(r))
			out.fail(err)
			// Its memory may be what it choked on; the records on the NodePools hold what must not be lost.
			g.state, g.remembers, g.observation, g.decision = capacity.State{}, false, capacity.Observation{}, capacity.Decision{}
			for _, s := range g.slots {
				s.advice = Advice{}
			}
			g.board.fail(now, err)
			if !published {
				publish()
			}
		}
	}()
	idle, _ := n.engine.telemetry.(Idlers)
	g.observe(n.engine.options.Nodes, idle, now)
	g.state.Decide(g.group, &g.observation, now, &g.decision)
	n.tell(g, now, false)
	loosening, rest := split(g.decision.Actions)
	if len(loosening) > 0 {
		n.wait(ctx, n.engine.options.Nodes.Act(g.group, loosening))
	}
	publish()
	if len(rest) > 0 {
		n.engine.options.Nodes.Act(g.group, rest)
	}
	for i, s := range g.slots {
		s.advice = adviceOf(g.decision.Advice[i])
	}
	if news, isNews := g.board.update(g, now); isNews {
		n.engine.board.groupHistory.add(news)
		if n.engine.options.OnGroup != nil {
			n.engine.options.OnGroup(news)
		}
	}
}

// tell hands a decision to whoever listens.
func (n *nodeTicks) tell(g *groupTick, now time.Time, stray bool) {
	if tell := n.engine.options.OnGroupTick; tell != nil {
		tell(GroupTick{At: now, Group: g.group, Orphaned: stray, Fresh: !g.remembers, Observation: &g.observation, Decision: &g.decision})
	}
	g.remembers = true
}

// split puts the actions that let nodes come before the others, in place.
func split(actions []capacity.Action) (loosening, rest []capacity.Action) {
	slices.SortStableFunc(actions, func(a, b capacity.Action) int {
		switch x, y := loosens(a), loosens(b); {
		case x && !y:
			return -1
		case y && !x:
			return 1
		}
		return 0
	})
	i := 0
	for i < len(actions) && loosens(actions[i]) {
		i++
	}
	return actions[:i], actions[i:]
}

func loosens(a capacity.Action) bool {
	p, ok := a.(capacity.NodePoolPatch)
	return ok && p.Loosens
}

// wait waits for loosening actions, all groups of a tick together for no longer than ApplyTimeout: a number that comes before its
// fence is lifted is late by one launch, a number that does not come makes every HPA hold.
func (n *nodeTicks) wait(ctx context.Context, done <-chan struct{}) {
	if n.loosens == nil {
		n.loosens, n.cancel = context.WithTimeout(ctx, n.engine.options.ApplyTimeout)
	}
	select {
	case <-done:
	case <-n.loosens.Done():
	}
}

// adopt keeps groups and their members parallel to what is in force. A quiet tick compares pointers.
func (n *nodeTicks) adopt() {
	current, of := n.engine.options.Groups.Groups(), n.engine.seen
	if same(current, n.seen) && same(of, n.of) {
		return
	}
	n.seen, n.of = current, of
	former := map[string]*groupTick{}
	for _, g := range n.groups {
		former[g.group.Name] = g
	}
	n.groups = nil
	for _, group := range current {
		g := former[group.Name]
		if g == nil {
			g = &groupTick{board: newGroupSlot(group)}
		}
		g.group, g.looked = group, 0
		g.workloads, g.slots, g.keys = g.workloads[:0], g.slots[:0], g.keys[:0]
		n.groups = append(n.groups, g)
	}
	for i, s := range n.engine.slots {
		w := &of[i]
		at := slices.IndexFunc(n.groups, func(g *groupTick) bool { return g.group.Name == w.Group })
		if s.grouped = at >= 0; !s.grouped {
			s.advice = Advice{}
			continue
		}
		g := n.groups[at]
		g.workloads, g.slots, g.keys = append(g.workloads, w), append(g.slots, s), append(g.keys, w.Key.String())
	}
	for _, g := range n.groups {
		g.thoughts = make([]thought, len(g.slots))
	}
	n.engine.board.adoptGroups(n.groups)
}

// same tells whether two slices are one: what is shared and never written need not be compared.
func same[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// release lets go what no group names any more.
func (n *nodeTicks) release(now time.Time, out *Outcome) {
	defer func() {
		if r := recover(); r != nil {
			out.fail(fmt.Errorf("release of NodePools without a group: %w", panicError(r)))
			clear(n.strays)
		}
	}()
	strays, marks := n.engine.options.Nodes.Orphans(n.seen, n.engine.seen)
	for name := range n.strays {
		if !slices.ContainsFunc(strays, func(s Orphan) bool { return s.Pool == name }) {
			delete(n.strays, name)
		}
	}
	for _, s := range strays {
		g := n.strays[s.Pool]
		if g == nil {
			g = &groupTick{group: orphan(s)}
			n.strays[s.Pool] = g
		}
		n.engine.options.Nodes.Observe(g.group, nil, &g.observation)
		g.state.Release(g.group, &g.observation, now, &g.decision)
		n.tell(g, now, true)
		if len(g.decision.Actions) > 0 {
			n.engine.options.Nodes.Act(g.group, g.decision.Actions)
		}
	}
	if len(marks) > 0 {
		n.engine.options.Nodes.Act(nil, marks)
	}
}

// orphan is the group of one NodePool whose record says what to put back; where the record cannot be read, what our field manager
// owns is all that is known.
func orphan(s Orphan) *capacity.Group {
	if g, ok := capacity.Orphan(s.Pool, s.Record); ok {
		return g
	}
	g, err := capacity.NewGroup(capacity.Group{Name: s.Pool, Resource: "nvidia.com/gpu", Pools: []capacity.Pool{{Name: s.Pool}}})
	if err != nil {
		panic(err) // a group of one pool is within every bound
	}
	return g
}
