package planner

import (
	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// keep is a minimum for the replicas of the plan after an interruption of the observation. For some time after an interruption, the model
// has measured only the load before it and the load of a few seconds. The current load may need all running replicas.
type keep struct {
	replicas int32
	until    int64
}

// These times are in milliseconds.
const (
	// shortest time without observation after which the plan keeps the running replicas
	unobserved = 5 * 60_000
	// shortest time for which the replicas are kept; the model observes the current load for twelve time slots in this time
	leastToKeep = 60_000
	// longest time for which the replicas are kept, because the slowest moving average of the load has a time constant of one hour
	mostToKeep = 60 * 60_000
)

// restored is the value of keep.until before the first tick of a planner whose model was saved by another process. The observations of that
// process after it saved the model are lost, so the replicas are kept even if the time since then is short.
const restored = -1

// observe begins to keep the current replicas if there was no observation for at least unobserved milliseconds, or if the model was
// restored. The parameter last is the time of the last observation. The replicas are kept during a time of the same length as the time
// without observation, but at least for leastToKeep and at most for mostToKeep. If there was no observation before, or the clock was set
// back, they are kept for leastToKeep.
func (k *keep) observe(t *Tick, last int64) {
	gap := t.At - last
	if gap >= 0 && gap < unobserved && k.until != restored {
		return
	}
	if last == -history.MaxStamp || gap < 0 {
		gap = leastToKeep
	}
	*k = keep{replicas: t.Current, until: t.At + max(leastToKeep, min(gap, mostToKeep))}
}

// apply raises the replicas of a plan to at least the number of replicas that is kept, within the limits l.
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
