package baseline

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

// kedaCooldown is KEDA's default cooldownPeriod.
const kedaCooldown = 300 * time.Second

// KEDA is a ScaledObject with its own triggers. The zero values of the times are the defaults of KEDA.
type KEDA struct {
	Min, Max int32         // minReplicaCount, maxReplicaCount
	Polling  time.Duration // pollingInterval; 0 means 30 s
	Cooldown time.Duration // cooldownPeriod; 0 means 300 s; negative: no cooldown
	Behavior *hpa.Behavior // behavior of the created HPA; nil: none
	Triggers []KEDATrigger
	Cron     []CronTrigger
}

// KEDATrigger is a trigger that reads a measure. Its metricType is AverageValue.
type KEDATrigger struct {
	Measure    measure.Measure
	Target     float64
	Activation float64 // the trigger is active while the value is above Activation
}

// NewActuator returns a new actuator. It replaces a Cooldown of 0 by KEDA's default. As a method value it is an autoscaler.Factory.
func (k KEDA) NewActuator() autoscaler.Actuator {
	r := &baselineKEDA{config: k, loop: autoscaler.KEDALoop{ScaleLoop: hpa.ScaleLoop{Cooldown: max(0, k.Cooldown)}, Polling: k.Polling}}
	if k.Cooldown == 0 {
		r.loop.Cooldown = kedaCooldown
	}
	r.hpa.spec = hpa.Spec{Min: max(1, k.Min), Max: k.Max, Behavior: k.Behavior}
	for _, t := range k.Triggers {
		r.hpa.metrics = append(r.hpa.metrics, Metric{Measure: t.Measure, Type: AverageValue, Target: t.Target})
	}
	r.hpa.proposals = make([]hpa.Proposal, len(k.Triggers)+len(k.Cron))
	return r
}

type baselineKEDA struct {
	config KEDA
	hpa    baselineHPA
	loop   autoscaler.KEDALoop
}

func (r *baselineKEDA) Act(s *autoscaler.Scene) autoscaler.Move {
	if r.hpa.next.IsZero() {
		r.hpa.next = s.Now.Add(autoscaler.PhaseOf(s, hpa.SyncPeriod))
		r.loop.Due(s)
		return autoscaler.Move{Replicas: s.Spec, Asked: s.Spec, Again: r.again(s)}
	}
	m := autoscaler.Move{Replicas: s.Spec, Asked: s.Asked, Idle: s.Idle}
	if !s.Now.Before(r.hpa.next) {
		r.hpa.next = r.hpa.next.Add(hpa.SyncPeriod)
		for i := range r.config.Cron {
			r.hpa.proposals[len(r.hpa.metrics)+i] = r.config.Cron[i].propose(s, r.hpa.spec.Tolerances())
		}
		m.Replicas, m.Asked, m.Idle = r.hpa.sync(s)
		if r.cronIsOpen(s.Now) {
			m.Idle = ledger.ScheduleFloor
		}
	}
	if r.loop.Due(s) {
		m.Replicas = r.loop.PollAt(s, m.Replicas, r.activity(s))
	}
	m.Again = r.again(s)
	return m
}

// again returns the shorter of two times: until the next sync of the HPA, and until the next poll of KEDA's scale loop.
func (r *baselineKEDA) again(s *autoscaler.Scene) time.Duration {
	next := r.hpa.next
	if r.loop.Next.Before(next) {
		next = r.loop.Next
	}
	return next.Sub(s.Now)
}

// activity returns the state of all triggers together. It is active if at least one trigger is active, and known if no trigger failed.
func (r *baselineKEDA) activity(s *autoscaler.Scene) autoscaler.Activity {
	a := autoscaler.Activity{Known: true, Active: r.cronIsOpen(s.Now) || r.config.Min > 0}
	for _, t := range r.config.Triggers {
		sample, ok := s.Sample(t.Measure)
		a.Active = a.Active || ok && sample.Value > t.Activation
		a.Known = a.Known && ok
	}
	return a
}

func (r *baselineKEDA) cronIsOpen(now time.Time) bool {
	return slices.ContainsFunc(r.config.Cron, func(c CronTrigger) bool { return c.open(now) })
}
