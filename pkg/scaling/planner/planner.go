// Package planner connects the model of package objective to the ticks of one workload. It measures cold starts, by following replicas from
// their request until they are ready, gives the model its evidence, and keeps the running replicas for a while after a time without
// observation. It knows no policy and no signal: a Tick has plain numbers, and package scaling computes the evidence.
// All times are Unix milliseconds, as in package history.
package planner

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// Planner is what was learned about a workload, and the plan of the newest tick. It keeps the plan so that a second decision for the same
// tick, for example with a team limit, uses the same plan. The methods Clone, Model, Plan and Observed accept a nil Planner.
type Planner struct {
	model  *objective.Model
	at     int64           // time of the newest tick that the model observed
	plan   *objective.Plan // not changed after it is set
	starts starts
	keep   keep
	ages   []time.Duration // reused for objective.Evidence, to save allocations
	cold   []objective.ColdStart
}

// New returns a planner that learned nothing.
func New() *Planner { return &Planner{model: objective.New(), at: -history.MaxStamp} }

// Restore returns a planner with a model that was saved, for example by the previous leader. at is the time of its last observation.
func Restore(m *objective.Model, at int64) *Planner { return &Planner{model: m, at: at} }

// Clone returns an independent copy.
func (p *Planner) Clone() *Planner {
	if p == nil {
		return nil
	}
	c := *p
	c.model, c.ages, c.cold = p.model.Clone(), nil, nil
	return &c
}

// Model returns the model. The caller must not change it.
func (p *Planner) Model() *objective.Model {
	if p == nil {
		return nil
	}
	return p.model
}

// Plan returns the plan of the newest tick, or nil before the first one. The caller must not change it; later ticks do not change it.
func (p *Planner) Plan() *objective.Plan {
	if p == nil {
		return nil
	}
	return p.plan
}

// Observed reports whether the newest tick is that of the time at.
func (p *Planner) Observed(at int64) bool { return p != nil && p.at == at }

// Tick is the observed state of the workload in one tick. No number is negative.
type Tick struct {
	At      int64
	Current int32 // spec.replicas of the scale target
	Ready   int32
	Loading int32 // replicas that have a node and are not ready yet, except those that crash in a loop
	Pending int32 // replicas without a node
	// LastTarget is the target before this tick, without replicas that rules about nodes added.
	LastTarget int32
	// Evidence has the readings and the version. Observe sets the numbers of replicas and the cold starts.
	Evidence objective.Evidence
}

// Observe adds a tick to the model and computes the plan, within the limits.
func (p *Planner) Observe(t *Tick, o *objective.Objective, limits objective.Limits) {
	p.follow(t)
	t.Evidence.Ready, t.Evidence.Starting, t.Evidence.ColdStarts = t.Ready, p.ages, p.cold
	now := history.Time(t.At)
	p.model.Observe(now, &t.Evidence)
	plan := p.model.Plan(now, *o, limits)
	p.keep.observe(t, p.at)
	p.keep.apply(&plan, t.At, limits)
	if p.plan == nil || *p.plan != plan {
		// a copy, because the decisions of earlier ticks still refer to the old plan
		changed := plan
		p.plan = &changed
	}
	p.at = t.At
}
