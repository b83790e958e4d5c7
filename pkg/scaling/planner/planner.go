// Package planner connects the model of package objective to the ticks of one workload. It measures cold starts, from the request of a
// replica until the replica is ready, and their phases from the times of the objects. It passes the evidence to the model, and keeps the
// running replicas for some time after an interruption of the observation. It does not depend on policies and signals: a Tick
// contains only numbers, and package scaling computes the evidence. All times are in Unix milliseconds, as in package history.
package planner

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// Planner contains what was learned about a workload, and the plan of the newest tick. It stores the plan, so that a second decision in the
// same tick, for example with a team limit, uses the same plan. The methods Clone, LeadTime, Model, Plan and Observed can be called on a
// nil Planner.
type Planner struct {
	model  *objective.Model
	at     int64           // time of the newest tick that the model observed
	plan   *objective.Plan // never changed after it is set, because decisions contain this pointer
	starts starts
	keep   keep
	ages   []time.Duration // reused for objective.Evidence in each tick, to avoid allocations
	cold   []objective.ColdStart
}

// New returns a planner that has learned nothing so far.
func New() *Planner { return &Planner{model: objective.New(), at: -history.MaxStamp} }

// Restore returns a planner with a saved model, for example the model of the previous leader. at is the time of the last observation of the
// model. The planner keeps the running replicas during a time of the same length as the time since then, but at least for a minute.
func Restore(m *objective.Model, at int64) *Planner {
	return &Planner{model: m, at: at, keep: keep{until: restored}}
}

// Clone returns a copy that does not change with the original.
func (p *Planner) Clone() *Planner {
	if p == nil {
		return nil
	}
	c := *p
	c.model, c.ages, c.cold = p.model.Clone(), nil, nil
	return &c
}

// Model returns the model of the objective. The caller must not change it.
func (p *Planner) Model() *objective.Model {
	if p == nil {
		return nil
	}
	return p.model
}

// Plan returns the plan of the newest tick, or nil before the first tick. The caller must not change the plan. Later ticks create a new
// plan instead of changing it.
func (p *Planner) Plan() *objective.Plan {
	if p == nil {
		return nil
	}
	return p.plan
}

// LeadTime returns how long before replicas are needed they must be requested, or 0 if this is unknown.
func (p *Planner) LeadTime(o *objective.Objective) time.Duration {
	if p == nil || o == nil {
		return 0
	}
	return p.model.LeadTime(o)
}

// Observed reports whether the planner has observed a tick at the time at.
func (p *Planner) Observed(at int64) bool { return p != nil && p.at == at }

// Tick is the observed state of the workload in one tick. No number is negative.
type Tick struct {
	At      int64
	Current int32 // spec.replicas of the scale target
	Ready   int32
	Loading int32          // replicas that have a node but are not ready, except replicas in a crash loop
	Pending int32          // replicas without a node
	Started *ReplicaStarts // the newest completed starts; nil: unknown
	// LastTarget is the target before this tick, without the replicas that the rules about nodes added.
	LastTarget int32
	// Evidence is the evidence for the model. The caller sets the readings and the version. Planner.Observe sets the fields Ready, Starting
	// and ColdStarts.
	Evidence objective.Evidence
}

// Observe passes a tick to the model and computes the plan within the limits (minReplicas and maxReplicas).
func (p *Planner) Observe(t *Tick, o *objective.Objective, limits objective.Limits) {
	p.follow(t)
	t.Evidence.Ready, t.Evidence.Starting, t.Evidence.ColdStarts = t.Ready, p.ages, p.cold
	now := history.Time(t.At)
	p.model.Observe(now, &t.Evidence)
	plan := p.model.Plan(now, *o, limits)
	p.keep.observe(t, p.at)
	p.keep.apply(&plan, t.At, limits)
	if p.plan == nil || *p.plan != plan {
		// A copy is necessary, because the decisions of earlier ticks still refer to the previous plan.
		changed := plan
		p.plan = &changed
	}
	p.at = t.At
}
