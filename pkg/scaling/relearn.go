package scaling

import (
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// Restore sets what was learned about the workload until the time at, for example by the previous leader. It has no effect after the first
// tick, and for a policy without an objective.
func (s *State) Restore(p *Policy, m *objective.Model, at time.Time) {
	if p.Objective != nil && m != nil && s.learner == nil {
		s.policy, s.learner = p, &learner{model: m, at: history.Stamp(at)}
	}
}

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
func (k *keep) observe(t *tick, last int64) {
	gap := t.at - last
	if gap >= 0 && gap < unobserved {
		return
	}
	if last == -history.MaxStamp || gap < 0 {
		gap = leastToKeep
	}
	*k = keep{replicas: clamp(t.current, 0, maxReplicas), until: t.at + max(leastToKeep, min(gap, mostToKeep))}
}

// apply raises a plan to the replicas that are kept, within the limits.
func (k *keep) apply(p *objective.Plan, at int64, l objective.Limits) {
	need := p.Replicas - p.Added[objective.TermLimits]
	if at >= k.until || need >= k.replicas {
		return
	}
	p.Added[objective.TermSafe] += k.replicas - need
	p.Replicas = clamp(k.replicas, l.Min, l.Max)
	p.Added[objective.TermLimits] = p.Replicas - k.replicas
	if p.Safe == objective.NotSafe {
		p.Safe = objective.TooLittleData
	}
	if until := history.Time(k.until); until.After(p.EarliestScaleDown) {
		p.EarliestScaleDown = until
	}
}

// work are the measures that define the unit of work.
var work = [...]Measure{MeasureArrivals, MeasureServed, MeasureQueued, MeasureInFlight}

// Work identifies the unit of work that a policy measures. It has a number for each of arrivals, served, queued and in flight; 0 if no
// signal measures it. The numbers are the same in each process.
type Work [len(work)]uint64

// Work returns what the policy measures.
func (p *Policy) Work() (w Work) {
	for i, m := range work {
		for j := range min(len(p.Signals), MaxSignals) {
			if s := &p.Signals[j]; s.Measures == m {
				w[i] = max(w[i]+s.identity(), 1)
			}
		}
	}
	return w
}

// Same reports whether two policies measure the same work. Evidence that only one of them has does not matter. A source that changed does,
// for example requests that become tokens, because the capacity of a replica is then another number.
func (w Work) Same(o Work) bool {
	for i := range w {
		if w[i] != 0 && o[i] != 0 && w[i] != o[i] {
			return false
		}
	}
	return true
}

// identity returns a hash (FNV-1a) of the fields that the method measures compares.
func (s *Signal) identity() uint64 {
	h := uint64(14695981039346656037)
	add := func(b byte) { h = (h ^ uint64(b)) * 1099511628211 }
	number := func(v uint64) {
		for range 8 {
			add(byte(v))
			v >>= 8
		}
	}
	number(s.Source)
	if s.Source == 0 {
		for _, text := range [...]string{s.Name, s.Type} {
			for i := range len(text) {
				add(text[i])
			}
			add(0)
		}
	}
	for _, v := range [...]uint8{uint8(s.Kind), uint8(s.Class), uint8(s.Unit), uint8(s.Measures)} {
		add(v)
	}
	number(math.Float64bits(s.PerSecond))
	return h
}
