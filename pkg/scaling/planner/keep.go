package planner

import (
	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// keep is the minimum number of replicas of the plan for some time after an interruption of the observation. After an interruption, the
// model knows only the load before it and the load of the first seconds after it. The replicas that are running may be necessary for the
// current load.
type keep struct {
	replicas int32
	until    int64
}

// Constants for times without observation, in milliseconds.
const (
	// shortest time without observation after which the plan keeps the running replicas
	unobserved = 5 * 60_000
	// shortest time for which the replicas are kept; in this time, the model observes the current load for twelve slots
	leastToKeep = 60_000
	// longest time for which the replicas are kept; the slowest moving average of the load has a time constant of one hour
	mostToKeep = 60 * 60_000
)

// restored is the value of keep.until before the first tick of a planner whose model was saved by another process. What that process
// observed after the save is lost, however short this time is.
const restored = -1

// observe begins to keep the current replicas if there was no observation for at least unobserved milliseconds, or if the model was
// restored. The parameter last is the time of the last observation. The replicas are then kept for a time of the same length, but for at
// least leastToKeep and at most mostToKeep. If nothing was learned before, or the clock was set back, they are kept for leastToKeep.
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

// apply raises the replicas of a plan to at least the number that is kept, within the limits l.
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
