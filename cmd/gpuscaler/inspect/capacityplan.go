package inspect

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// capacityPlan is the result of `gpuscaler capacity plan`: the changes to NodePools that gpuscaler would make.
type capacityPlan struct {
	At       time.Time   `json:"at"`
	For      span        `json:"for"`
	Groups   []groupPlan `json:"groups"`
	Released []string    `json:"released,omitempty"` // changes to NodePools that no capacity group contains any more
}

type groupPlan struct {
	Name     string          `json:"name"`
	Advisory bool            `json:"advisory"`
	Phase    string          `json:"phase"`
	Demand   int64           `json:"demand"`
	Reasons  []string        `json:"reasons"`
	Findings []string        `json:"findings,omitempty"`
	Changes  []plannedChange `json:"changes"`
}

type plannedChange struct {
	In     span   `json:"in"`
	Object string `json:"object"`
	Field  string `json:"field"`
	From   string `json:"from"`
	To     string `json:"to"`
	Rule   string `json:"rule"`
}

// span is a time.Duration that is written to JSON as text, for example "30s".
type span time.Duration

func (s span) String() string               { return time.Duration(s).String() }
func (s span) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// seenCluster is the observed state of the cluster from which `capacity plan` computes the changes.
type seenCluster interface {
	engine.Cluster
	engine.Requests
	Nodes() engine.Nodes
}

// planner implements the engine's interfaces for `capacity plan`. It reads the observed state. It adds the engine's actions to the result
// instead of applying them.
type planner struct {
	engine.Cluster
	engine.Requests
	engine.Nodes
	plan  *capacityPlan
	start time.Time
	now   time.Time
}

// View reports each workload as paused, so that the engine keeps its current replicas.
func (p *planner) View(w *scaling.Workload) (engine.View, bool) {
	v, ok := p.Cluster.View(w)
	v.Operator = scaling.Operator{Paused: true, Min: -1, Max: -1}
	return v, ok
}

func (*planner) Apply(context.Context, []engine.Change) error { return nil }

func (*planner) Read(_ *scaling.Workload, out []scaling.Reading) { clear(out) }

func (p *planner) Act(g *capacity.Group, actions []capacity.Action) <-chan struct{} {
	at := slices.IndexFunc(p.plan.Groups, func(plan groupPlan) bool { return g != nil && plan.Name == g.Name })
	for _, a := range actions {
		if at < 0 {
			if text := strings.TrimSpace(a.Text()); !slices.Contains(p.plan.Released, text) {
				p.plan.Released = append(p.plan.Released, text)
			}
			continue
		}
		p.plan.Groups[at].add(span(p.now.Sub(p.start)), a)
	}
	done := make(chan struct{})
	close(done)
	return done
}

// add adds the changes of an action to the plan, unless the plan contains them. The engine repeats an action at every tick, because
// `capacity plan` never applies it.
func (g *groupPlan) add(in span, action capacity.Action) {
	var changes []plannedChange
	switch a := action.(type) {
	case capacity.NodePoolPatch:
		for _, c := range a.Changes {
			changes = append(changes, plannedChange{in, "NodePool " + a.Pool, c.Path().String(), c.From.String(), c.To.String(), c.Why()})
		}
	case capacity.PodAnnotation:
		change := plannedChange{in, "Pod " + a.Namespace + "/" + a.Name, a.Kind.String(), "", nodepool.Value(a.Value).String(), a.Rule.String()}
		changes = append(changes, change)
	}
	for _, c := range changes {
		if !slices.ContainsFunc(g.Changes, func(o plannedChange) bool { return o.Object == c.Object && o.Field == c.Field && o.To == c.To }) {
			g.Changes = append(g.Changes, c)
		}
	}
}

// both combines the engine's interfaces for policies and for capacity groups.
type both interface {
	engine.Policies
	engine.Groups
}

// makePlan simulates the duration ahead: it runs one tick of the engine for each second, starting now, and returns the changes that the
// engine would make. The observed state is the same at every tick.
func makePlan(ctx context.Context, policies both, seen seenCluster, ahead time.Duration) *capacityPlan {
	start := time.Now().Round(time.Second)
	plan := &capacityPlan{At: start, For: span(ahead)}
	for _, g := range policies.Groups() {
		plan.Groups = append(plan.Groups, groupPlan{Name: g.Name, Advisory: g.Advisory, Changes: []plannedChange{}})
	}
	p := &planner{Cluster: seen, Requests: seen, Nodes: seen.Nodes(), plan: plan, start: start}
	e := engine.New(policies, p, p, engine.Options{Groups: policies, Nodes: p})
	for p.now = start; p.now.Sub(start) <= ahead && ctx.Err() == nil; p.now = p.now.Add(time.Second) {
		e.Tick(ctx, p.now)
		for i := range plan.Groups {
			plan.Groups[i].look(e.Decisions(), p.now == start, span(p.now.Sub(start)))
		}
	}
	for i := range plan.Groups {
		slices.SortStableFunc(plan.Groups[i].Changes, func(a, b plannedChange) int { return strings.Compare(a.Object, b.Object) })
	}
	return plan
}

// look adds the planned actions of an advisory group to the plan. At the first tick, it also copies the reasons and findings of the group,
// even if the group is not advisory.
func (g *groupPlan) look(decisions *engine.DecisionStore, first bool, in span) {
	r, ok := decisions.Group(g.Name)
	if !ok || r.At.IsZero() {
		return
	}
	for _, a := range r.Plan {
		g.add(in, a)
	}
	if !first {
		return
	}
	g.Phase, g.Demand = r.Phase.String(), r.Demand.Total()
	for _, reason := range r.Reasons {
		g.Reasons = append(g.Reasons, reason.Rule.String()+": "+reason.Text(r.Group.Names()))
	}
	for _, f := range r.Findings {
		g.Findings = append(g.Findings, f.Text(r.Group.Names()))
	}
}
