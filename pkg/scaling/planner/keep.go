package planner

import (
	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// keep is the number of replicas that the plan keeps after a time without observation. The model then knows only the load before that time,
// and the load of a few seconds after it. The running replicas may be necessary for the current load.
type keep struct {
	replicas int32
	until    int64
}

// Constants for times without observation, in milliseconds.
const (
	// the shortest time without observation after which the replicas are kept
	unobserved  = 5 * 60_000
	leastToKeep = 60_000      // shortest time for which they are kept; in this time the model observes the current load in twelve slots
	mostToKeep  = 60 * 60_000 // longest time for which they are kept; the longest mean of the model is over an hour
)

// observe begins to keep the current replicas if the last observation, at the time last, is too old. They are kept for as long as there was
// no observation. If nothing was learned before, they are kept for a minute.
func (k *keep) observe(t *Tick, last int64) {
	gap := t.At - last
	if gap >= 0 && gap < unobserved {
		return
	}
	if last == -history.MaxStamp || gap < 0 {
		gap = leastToKeep
	}
	*k = keep{replicas: t.Current, until: t.At + max(leastToKeep, min(gap, mostToKeep))}
}

// apply raises a plan to the replicas that are kept, within the limits l.
func (k *keep) apply(p *objective.Plan, at int64, l objective.Limits) {
	need := p.Replicas - p.Added[objective.TermLimits]
	if at >= k.until || need >= k.replicas {
		return
	}
	p.Added[objective.TermSafe] += k.replicas - need
	p.Replicas = max(l.Min, min(k.replicas, l.Max))
	p.Added[objective.TermLimits] = p.Replicas - k.replicas
	if p.Safe == objective.NotSafe {
		p.Safe = objective.TooLittleData
	}
	if until := history.Time(k.until); until.After(p.EarliestScaleDown) {
		p.EarliestScaleDown = until
	}
}
