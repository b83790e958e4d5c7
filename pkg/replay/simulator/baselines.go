package simulator

import (
	"math"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
)

// Static returns the factory of an actuator that sets a fixed number of replicas, as for a fleet without an autoscaler.
func Static(n int32) ActuatorFactory {
	return func() Actuator { return static(n) }
}

type static int32

func (n static) Act(*Scene) Move {
	return Move{Replicas: int32(n), Again: time.Hour, Idle: Minimum}
}

// Step is one change of the number of replicas in a plan.
type Step struct {
	At       time.Duration // time since the start
	Replicas int32
}

// Planned returns the factory of an actuator that follows a plan, such as the schedule behind a lower bound. Steps are in order of At.
func Planned(steps []Step) ActuatorFactory {
	return func() Actuator { return &planned{steps: steps} }
}

// PlanOf returns a plan of desired replicas for a schedule of ready replicas in each slot. A replica is requested one cold start (lead)
// before it must be ready. A replica that the schedule does not need is kept if it is needed again before a new one could be ready.
func PlanOf(schedule []int32, slot, lead time.Duration) []Step {
	var steps []Step
	ahead := int((lead + slot - 1) / slot)
	for t := -ahead; t < len(schedule); t++ {
		from, to := max(t, 0), min(t+ahead, len(schedule)-1)
		// exactly one lead before the slot t+ahead
		at := time.Duration(t)*slot + time.Duration(ahead)*slot - lead
		n := slices.Max(schedule[from : to+1])
		if at = max(at, 0); len(steps) > 0 && steps[len(steps)-1].At == at {
			steps[len(steps)-1].Replicas = n
		} else if len(steps) == 0 || steps[len(steps)-1].Replicas != n {
			steps = append(steps, Step{At: at, Replicas: n})
		}
	}
	return steps
}

type planned struct{ steps []Step }

func (p *planned) Act(s *Scene) Move {
	m := Move{Replicas: s.Spec, Asked: s.Spec, Again: time.Hour}
	now := s.l.w.now
	for len(p.steps) > 0 && p.steps[0].At <= now {
		m.Replicas, m.Asked = p.steps[0].Replicas, p.steps[0].Replicas
		p.steps = p.steps[1:]
	}
	if len(p.steps) > 0 {
		m.Again = p.steps[0].At - now
	}
	return m
}

// Type is the target type of an HPA metric.
type Type uint8

// Values of Type.
const (
	AverageValue Type = iota // External: the sum over the workload, per replica
	Value                    // External: a ratio that is multiplied by the number of ready replicas
	PodsAverage              // Pods: the mean over the pods that have the metric
)

// Metric is one metric of a baseline HPA.
type Metric struct {
	Measure measure.Measure
	Type    Type
	Target  float64
}

// HPA returns an HPA on metrics of the workload, without gpuscaler.
func HPA(spec hpa.Spec, metrics ...Metric) ActuatorFactory {
	return func() Actuator {
		return &baselineHPA{spec: spec, metrics: metrics, proposals: make([]hpa.Proposal, len(metrics))}
	}
}

// HPAOnActivity returns the HPA that guides for GPU autoscaling recommend. Its metric is the mean GPU utilization per pod, where 100% is
// 1. It has the API server's default behavior, unless spec sets another one.
func HPAOnActivity(spec hpa.Spec, target float64) ActuatorFactory {
	return HPA(spec, Metric{Measure: measure.Activity, Type: PodsAverage, Target: target})
}

// HPAOnQueue returns an HPA on waiting requests per replica.
func HPAOnQueue(spec hpa.Spec, target float64) ActuatorFactory {
	return HPA(spec, Metric{Measure: measure.Queue, Type: AverageValue, Target: target})
}

type baselineHPA struct {
	spec      hpa.Spec
	metrics   []Metric
	hpa       hpa.Controller
	proposals []hpa.Proposal
	next      time.Time
}

func (r *baselineHPA) Act(s *Scene) Move {
	if r.next.IsZero() {
		r.next = s.Now.Add(phaseOf(s, hpa.SyncPeriod))
		return Move{Replicas: s.Spec, Asked: s.Spec, Again: r.next.Sub(s.Now)}
	}
	m := Move{Replicas: s.Spec, Again: hpa.SyncPeriod}
	m.Replicas, m.Asked, m.Idle = r.sync(s)
	return m
}

// phaseOf returns the time of the first run of a loop with the given period. It differs between workloads, so that not all loops run at
// the same time.
func phaseOf(s *Scene, period time.Duration) time.Duration {
	return time.Duration(s.Uniform() * float64(period)).Truncate(time.Microsecond)
}

// sync is one sync of the HPA. It returns the new spec.replicas, the replicas that the metrics request, and the cause (for the ledger) of
// any replicas above that number.
func (r *baselineHPA) sync(s *Scene) (replicas, asked int32, idle Cause) {
	for i := range r.metrics {
		r.proposals[i] = r.metrics[i].propose(s, r.spec.Tolerances())
		asked = max(asked, r.proposals[i].Replicas)
	}
	replicas, verdict := r.hpa.Sync(&r.spec, s.Now, s.Spec, r.proposals)
	switch {
	case verdict == hpa.Failed:
		return replicas, asked, Held
	case replicas <= r.spec.Min:
		return replicas, asked, Minimum
	}
	return replicas, asked, Cooldown
}

func (m *Metric) propose(s *Scene, t hpa.Tolerances) hpa.Proposal {
	sample, ok := s.Sample(m.Measure)
	if !ok {
		return hpa.Proposal{}
	}
	target := hpa.Milli(m.Target)
	switch m.Type {
	case Value:
		return hpa.Proposal{Replicas: hpa.Value(hpa.Milli(sample.Value), target, s.Spec, s.Ready, t), Known: true}
	case PodsAverage:
		n, ok := m.pods(s, sample).Average(target, t)
		return hpa.Proposal{Replicas: n, Known: ok}
	}
	return hpa.Proposal{Replicas: hpa.AverageValue(hpa.Milli(sample.Value), target, s.Status, t), Known: true}
}

// pods converts the sample to the input of a Pods metric. A replica that loads its model is a running pod. The DCGM exporter reports its
// GPU as idle, and its model server does not report any metric yet.
func (m *Metric) pods(s *Scene, sample Sample) hpa.Pods {
	reported := min(sample.Pods, s.Ready)
	mean := sample.Value
	if m.Measure == measure.Waiting || m.Measure == measure.Running {
		mean /= math.Max(1, float64(sample.Pods))
	}
	starts := s.starting()
	p := hpa.Pods{
		Sum: hpa.Milli(mean) * int64(reported), Counted: reported, Missing: s.Ready - reported,
		Unready: s.Pending + s.Loading - starts, Current: s.Spec,
	}
	if m.Measure == measure.Activity {
		p.Counted += starts
	} else {
		p.Missing += starts
	}
	return p
}

// starting returns the number of replicas that load their model.
func (s *Scene) starting() (n int32) {
	if s.Loading == 0 {
		return 0
	}
	for _, r := range s.l.replicas {
		if r.state == starting {
			n++
		}
	}
	return n
}

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

// NewActuator implements ActuatorFactory.
func (k KEDA) NewActuator() Actuator {
	r := &baselineKEDA{config: k, loop: kedaLoop{ScaleLoop: hpa.ScaleLoop{Cooldown: max(0, k.Cooldown)}, polling: k.Polling}}
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
	loop   kedaLoop
}

func (r *baselineKEDA) Act(s *Scene) Move {
	if r.hpa.next.IsZero() {
		r.hpa.next = s.Now.Add(phaseOf(s, hpa.SyncPeriod))
		r.loop.due(s)
		return Move{Replicas: s.Spec, Asked: s.Spec, Again: r.again(s)}
	}
	m := Move{Replicas: s.Spec, Asked: s.l.asked, Idle: s.l.idle}
	if !s.Now.Before(r.hpa.next) {
		r.hpa.next = r.hpa.next.Add(hpa.SyncPeriod)
		for i := range r.config.Cron {
			r.hpa.proposals[len(r.hpa.metrics)+i] = r.config.Cron[i].propose(s, r.hpa.spec.Tolerances())
		}
		m.Replicas, m.Asked, m.Idle = r.hpa.sync(s)
		if r.cronIsOpen(s.Now) {
			m.Idle = ScheduleFloor
		}
	}
	if r.loop.due(s) {
		m.Replicas = r.loop.poll(s, m.Replicas, r.activity(s))
	}
	m.Again = r.again(s)
	return m
}

// again returns the shorter of two times: until the next sync of the HPA, and until the next poll of KEDA's scale loop.
func (r *baselineKEDA) again(s *Scene) time.Duration {
	next := r.hpa.next
	if r.loop.next.Before(next) {
		next = r.loop.next
	}
	return next.Sub(s.Now)
}

// activity returns the state of all triggers together. It is active if at least one trigger is active, and known if no trigger failed.
func (r *baselineKEDA) activity(s *Scene) activity {
	a := activity{known: true, active: r.cronIsOpen(s.Now) || r.config.Min > 0}
	for _, t := range r.config.Triggers {
		sample, ok := s.Sample(t.Measure)
		a.active = a.active || ok && sample.Value > t.Activation
		a.known = a.known && ok
	}
	return a
}

func (r *baselineKEDA) cronIsOpen(now time.Time) bool {
	return slices.ContainsFunc(r.config.Cron, func(c CronTrigger) bool { return c.open(now) })
}
