package planner

import (
	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// keep is the number of replicas that the plan keeps after a time without observation. The model then knows only the load before that time
// and a few seconds after it, and the running replicas can be necessary for the present load.
type keep struct {
	replicas int32
	until    int64
}

// Limits for times without observation, in milliseconds.
const (
	// after at least this time without observation, the replicas are kept
	unobserved  = 5 * 60_000
	leastToKeep = 60_000      // shortest time for which they are kept: in twelve slots the model observes the present load
	mostToKeep  = 60 * 60_000 // longest time for which they are kept: the longest mean of the model is of an hour
)

// observe begins to keep the replicas if the last observation, at last, is too old. They are kept for as long as nothing was observed, and
// for a minute if nothing was learned before.
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

// apply raises a plan to the replicas that are kept, within the limits.
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
