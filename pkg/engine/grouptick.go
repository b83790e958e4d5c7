package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/capcause"
)

// Groups returns the current capacity groups. Callers must not change the slice. If the groups change, it returns a new slice.
type Groups interface {
	Groups() []*capacity.Group
}

// Nodes observes NodePools, nodes and GPU pods, and applies the actions of capacity groups.
type Nodes interface {
	// Observe sets the fields of the observation o from memory, except the fields that depend on decisions. o.Workloads has one element for
	// each workload of the group; Observe sets its Pods, Current, GPUs, Quota and Buffer. The slices in o are shared, and the engine does
	// not change them.
	Observe(g *capacity.Group, of []*scaling.Workload, o *capacity.Observation)
	// Act starts to apply actions and returns before they are applied. The channel done is closed when all actions have succeeded or failed.
	// The caller may reuse the slice after Act has returned.
	Act(g *capacity.Group, actions []capacity.Action) (done <-chan struct{})
	// Orphans returns the NodePools that are in none of the groups but still have gpuscaler's record annotation or fields that gpuscaler owns.
	// It also returns actions that remove gpuscaler's annotations from pods that belong to no workload.
	Orphans(groups []*capacity.Group, of []scaling.Workload) ([]Orphan, []capacity.Action)
}

// Orphan is a NodePool that gpuscaler changed and that no longer belongs to a capacity group. Record is the value of gpuscaler's record
// annotation, which contains the owner's values of the overridden fields.
type Orphan struct{ Pool, Record string }

// Advice limits or increases the target of one workload. A capacity group computes it. The zero value has no effect.
type Advice struct {
	Capped bool
	// If Capped is true, Cap is the number of replicas for which nodes and pods can be created. AtRisk is the number of replicas to add
	// because pods run on nodes that will be interrupted. Surge is the number of replicas to add while pods move to other nodes.
	Cap, AtRisk, Surge int32
	Reserve            int32 `json:",omitempty"` // the part of AtRisk for node losses that are expected but not announced
	// CapCause is the reason for Capped; nil if the cap exists because the API server rejects pods. The value never changes after it is set.
	CapCause *capcause.Cause `json:",omitempty"`
}

func (a Advice) forScaling() scaling.Advice {
	out := scaling.Advice{Cap: -1, AtRisk: a.AtRisk, Reserve: a.Reserve, Surge: a.Surge}
	if a.Capped {
		out.Cap, out.CapCause = a.Cap, a.CapCause
	}
	return out
}

func adviceOf(a capacity.Advice, cause *capcause.Cause) Advice {
	out := Advice{AtRisk: a.AtRisk, Reserve: a.Reserve, Surge: a.Surge}
	if a.Cap >= 0 {
		out.Capped, out.Cap, out.CapCause = true, a.Cap, cause
	}
	return out
}

// GroupTick is one decision of a capacity group with its inputs. The engine reuses its memory, so it is valid only during the call of
// OnGroupTick.
type GroupTick struct {
	At          time.Time
	Group       *capacity.Group
	Orphaned    bool // true if Group is a NodePool that no longer belongs to a group and whose owner's values are restored
	Fresh       bool // the decision started from the zero state, because it is the first decision or the previous decision failed
	Observation *capacity.Observation
	Decision    *capacity.Decision
}

// nodeTicks makes the decisions for capacity groups in each tick.
type nodeTicks struct {
	engine  *Engine
	current []*capacity.Group  // the groups at the last call of adopt, to detect that they were replaced
	of      []scaling.Workload // the workloads at the last call of adopt, to detect that they were replaced
	groups  []*groupTick
	orphans map[string]*groupTick // state of NodePools that no longer belong to a group, by name of the NodePool
	loosens context.Context       // its deadline limits the sum of all waits of a tick; nil until the tick waits
	cancel  context.CancelFunc
}

// groupTick is the state of one group between ticks.
type groupTick struct {
	group       *capacity.Group
	workloads   []*scaling.Workload // the workloads of the group, in the order of the policies
	keys        []string            // namespace/name of each element of workloads
	entries     []*workloadEntry    // entry of each element of workloads
	evaluations []evaluation        // this tick's evaluation of each element of workloads
	pods        [][]capacity.Pod    // copies of the pods that lookForIdle changes, one slice for each element of workloads
	ahead       []aheadSpan
	refreshed   int64 // the minute, since 1970, in which ahead was computed
	state       capacity.State
	hasState    bool // true if a decision has set state
	observation capacity.Observation
	decision    capacity.Decision
	cap         groupCap
	entry       *groupEntry
}

func newNodeTicks(e *Engine) *nodeTicks {
	return &nodeTicks{engine: e, orphans: map[string]*groupTick{}}
}

// tick decides for every group and its workloads. Actions that allow new nodes are applied before the targets of the group are published.
// Other actions are applied after that.
func (n *nodeTicks) tick(ctx context.Context, now time.Time, out *Outcome) {
	for _, g := range n.groups {
		for i, s := range g.entries {
			if s.member == nil { // the tick of the team has already evaluated a member of a team with limits
				out.count(n.engine.evaluate(s, g.workloads[i], now, &g.evaluations[i]))
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

// decide makes the decision of one group. The targets of its workloads are published even if the decision panics.
func (n *nodeTicks) decide(ctx context.Context, g *groupTick, now time.Time, out *Outcome) {
	published := false
	publish := func() {
		for i, s := range g.entries {
			if t := &g.evaluations[i]; t.decided {
				out.fail(n.engine.publish(s, g.workloads[i], t, now))
			}
		}
		published = true
	}
	defer func() {
		if r := recover(); r != nil {
			err := fmt.Errorf("capacity group %s: %w", g.group.Name, panicError(r))
			out.fail(err)
			// The state is reset because it may have caused the panic. The owner's values are not lost, because the record annotations of the
			// NodePools contain them.
			g.state, g.hasState, g.observation, g.decision = capacity.State{}, false, capacity.Observation{}, capacity.Decision{}
			for _, s := range g.entries {
				s.advice = Advice{}
			}
			g.entry.fail(now, err)
			if !published {
				publish()
			}
		}
	}()
	idle, _ := n.engine.telemetry.(IdlePods)
	g.observe(n.engine.options.Nodes, idle, now)
	g.state.Decide(g.group, &g.observation, now, &g.decision)
	g.explainCap()
	n.notify(g, now, false)
	loosening, rest := split(g.decision.Actions)
	if len(loosening) > 0 {
		n.wait(ctx, n.engine.options.Nodes.Act(g.group, loosening))
	}
	publish()
	if len(rest) > 0 {
		n.engine.options.Nodes.Act(g.group, rest)
	}
	for i, s := range g.entries {
		s.advice = adviceOf(g.decision.Advice[i], g.cap.cause)
	}
	if change, isChange := g.entry.update(g, now); isChange {
		n.engine.decisions.groupHistory.Add(g.group.Name, now, change)
		if n.engine.options.OnGroup != nil {
			n.engine.options.OnGroup(change)
		}
	}
}

// notify calls Options.OnGroupTick with the decision of a group and its inputs.
func (n *nodeTicks) notify(g *groupTick, now time.Time, orphaned bool) {
	if notify := n.engine.options.OnGroupTick; notify != nil {
		notify(GroupTick{At: now, Group: g.group, Orphaned: orphaned, Fresh: !g.hasState, Observation: &g.observation, Decision: &g.decision})
	}
	g.hasState = true
}

// split sorts the actions in place. It returns the actions that allow new nodes and the other actions, as two parts of the slice.
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

// wait waits until the actions that allow new nodes are done. All groups of a tick together wait for at most ApplyTimeout. After that, the
// targets are published although the actions are not done. If a target is published before a zero limit is removed, only one launch is
// delayed. If targets were not published, no HPA could scale.
func (n *nodeTicks) wait(ctx context.Context, done <-chan struct{}) {
	if n.loosens == nil {
		n.loosens, n.cancel = context.WithTimeout(ctx, n.engine.options.ApplyTimeout)
	}
	select {
	case <-done:
	case <-n.loosens.Done():
	}
}

// adopt updates the groups and their workloads to match the current groups and policies. It does nothing if neither the slice of groups nor
// the slice of policies was replaced since the last tick.
func (n *nodeTicks) adopt() {
	current, of := n.engine.options.Groups.Groups(), n.engine.workloads
	if same(current, n.current) && same(of, n.of) {
		return
	}
	n.current, n.of = current, of
	previous := map[string]*groupTick{}
	for _, g := range n.groups {
		previous[g.group.Name] = g
	}
	n.groups = nil
	for _, group := range current {
		g := previous[group.Name]
		if g == nil {
			g = &groupTick{entry: newGroupEntry(group)}
		}
		g.group, g.refreshed = group, 0
		g.workloads, g.entries, g.keys = g.workloads[:0], g.entries[:0], g.keys[:0]
		n.groups = append(n.groups, g)
	}
	for i, s := range n.engine.entries {
		w := &of[i]
		at := slices.IndexFunc(n.groups, func(g *groupTick) bool { return g.group.Name == w.Group })
		if s.grouped = at >= 0; !s.grouped {
			s.advice = Advice{}
			continue
		}
		g := n.groups[at]
		g.workloads, g.entries, g.keys = append(g.workloads, w), append(g.entries, s), append(g.keys, w.Key.String())
	}
	for _, g := range n.groups {
		g.evaluations = make([]evaluation, len(g.entries))
	}
	n.engine.decisions.adoptGroups(n.groups)
}

// same reports whether a and b are the same slice in memory. Elements are not compared, because the slices are replaced and never modified
// in place.
func same[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// release restores the NodePools that no longer belong to a group. It also removes gpuscaler's annotations from pods that no longer belong
// to a workload.
func (n *nodeTicks) release(now time.Time, out *Outcome) {
	defer func() {
		if r := recover(); r != nil {
			out.fail(fmt.Errorf("release of NodePools without a group: %w", panicError(r)))
			clear(n.orphans)
		}
	}()
	orphans, annotated := n.engine.options.Nodes.Orphans(n.current, n.engine.workloads)
	for name := range n.orphans {
		if !slices.ContainsFunc(orphans, func(s Orphan) bool { return s.Pool == name }) {
			delete(n.orphans, name)
		}
	}
	for _, s := range orphans {
		g := n.orphans[s.Pool]
		if g == nil {
			g = &groupTick{group: orphanGroup(s)}
			n.orphans[s.Pool] = g
		}
		n.engine.options.Nodes.Observe(g.group, nil, &g.observation)
		g.state.Release(g.group, &g.observation, now, &g.decision)
		n.notify(g, now, true)
		if len(g.decision.Actions) > 0 {
			n.engine.options.Nodes.Act(g.group, g.decision.Actions)
		}
	}
	if len(annotated) > 0 {
		n.engine.options.Nodes.Act(nil, annotated)
	}
}

// orphanGroup returns a capacity group of one NodePool, built from gpuscaler's record on the NodePool. If the record cannot be read, the
// group restores only the fields that gpuscaler's field manager owns.
func orphanGroup(s Orphan) *capacity.Group {
	if g, ok := capacity.Orphan(s.Pool, s.Record); ok {
		return g
	}
	g, err := capacity.NewGroup(capacity.Group{Name: s.Pool, Resource: "nvidia.com/gpu", Pools: []capacity.Pool{{Name: s.Pool}}})
	if err != nil {
		panic(err) // cannot occur: a group of one NodePool is always valid
	}
	return g
}
