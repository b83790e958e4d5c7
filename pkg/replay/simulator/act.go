package simulator

import (
	"iter"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/events"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// act calls the actuator of the workload and applies the number of replicas that it returns.
func (l *load) act() {
	w := l.w
	m := l.actuator.Act(&autoscaler.Scene{
		Now: w.Time(), Spec: l.target, Status: int32(len(l.replicas)), Ready: l.ready, Loading: l.loading, Pending: l.pending,
		Tick: w.config.Tick, Elapsed: w.queue.Now, Queued: l.queue.n, Concurrency: int(l.inSystem()), Arrived: l.arrived,
		CacheTokens: l.service.CacheTokens, Asked: l.needed, Idle: l.idle, Workload: (*actuated)(l),
	})
	if m.Again < time.Millisecond {
		m.Again = w.config.Tick
	}
	if l.config.Policy == nil {
		if m.Idle == ledger.Serving {
			m.Idle = ledger.Cooldown
		}
		l.setCause(m.Asked, m.Idle)
	}
	l.scale(m.Replicas)
	w.queue.Add(events.Event{At: w.queue.Now + m.Again.Truncate(time.Microsecond), Kind: act, A: l.index})
}

// actuated implements autoscaler.Workload for a load (a simulated workload).
type actuated load

func (a *actuated) Served() (engine.Served, bool) {
	served, err := a.w.engine.Decisions().Lookup(a.key, a.w.Time())
	return served, err == nil
}

func (a *actuated) Sample(m measure.Measure) (autoscaler.Sample, bool) {
	return (*load)(a).newest(m, "")
}

func (a *actuated) Faulty() bool { return (*load)(a).fault("") != nil }

func (a *actuated) Uniform() float64 { return a.meter.phase }

func (a *actuated) Policy() *scaling.Policy {
	if a.config.Policy == nil {
		return nil
	}
	return a.config.Policy.Workload.Policy
}

func (a *actuated) Starting() (n int32) {
	if a.loading == 0 {
		return 0
	}
	for _, r := range a.replicas {
		if r.state == starting {
			n++
		}
	}
	return n
}

func (a *actuated) ReadyReplicas() iter.Seq[autoscaler.Replica] {
	return func(yield func(autoscaler.Replica) bool) {
		for _, r := range a.replicas {
			if r.state == ready && !yield(autoscaler.Replica{ID: r.id, Generation: r.gen, CachedTokens: r.cachedTokens()}) {
				return
			}
		}
	}
}

func (a *actuated) ReadyOf(name string) (int32, bool) {
	key := a.key
	key.Name = name
	if l := a.w.byKey[key]; l != nil {
		return l.ready, true
	}
	return 0, false
}
