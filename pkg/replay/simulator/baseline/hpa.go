package baseline

import (
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

// Type is the target type of an HPA metric.
type Type uint8

// Values of Type.
const (
	AverageValue Type = iota // External metric: the sum over the workload; the target is the sum per replica
	Value                    // External metric: a ratio; the HPA multiplies the ready replicas by metric / target
	PodsAverage              // Pods metric: the mean over the pods that have the metric
)

// Metric is one metric of a baseline HPA.
type Metric struct {
	Measure measure.Measure
	Type    Type
	Target  float64
}

// HPA returns an HPA on metrics of the workload, without gpuscaler.
func HPA(spec hpa.Spec, metrics ...Metric) autoscaler.Factory {
	return func() autoscaler.Actuator {
		return &baselineHPA{spec: spec, metrics: metrics, proposals: make([]hpa.Proposal, len(metrics))}
	}
}

// HPAOnActivity returns the HPA that guides for GPU autoscaling recommend. Its metric is the mean GPU utilization per pod, where 1 means
// 100%. If spec.Behavior is nil, the HPA scales as an HPA without a behavior.
func HPAOnActivity(spec hpa.Spec, target float64) autoscaler.Factory {
	return HPA(spec, Metric{Measure: measure.Activity, Type: PodsAverage, Target: target})
}

// HPAOnQueue returns an HPA on waiting requests per replica.
func HPAOnQueue(spec hpa.Spec, target float64) autoscaler.Factory {
	return HPA(spec, Metric{Measure: measure.Queue, Type: AverageValue, Target: target})
}

type baselineHPA struct {
	spec      hpa.Spec
	metrics   []Metric
	hpa       hpa.Controller
	proposals []hpa.Proposal
	next      time.Time
}

func (r *baselineHPA) Act(s *autoscaler.Scene) autoscaler.Move {
	if r.next.IsZero() {
		r.next = s.Now.Add(autoscaler.PhaseOf(s, hpa.SyncPeriod))
		return autoscaler.Move{Replicas: s.Spec, Asked: s.Spec, Again: r.next.Sub(s.Now)}
	}
	m := autoscaler.Move{Replicas: s.Spec, Again: hpa.SyncPeriod}
	m.Replicas, m.Asked, m.Idle = r.sync(s)
	return m
}

// sync runs one sync of the HPA. It returns the new spec.replicas and the number of replicas that the metrics request. If spec.replicas is
// higher than that number, idle is the cause of the difference for the ledger.
func (r *baselineHPA) sync(s *autoscaler.Scene) (replicas, asked int32, idle ledger.Cause) {
	for i := range r.metrics {
		r.proposals[i] = r.metrics[i].propose(s, r.spec.Tolerances())
		asked = max(asked, r.proposals[i].Replicas)
	}
	replicas, verdict := r.hpa.Sync(&r.spec, s.Now, s.Spec, r.proposals)
	switch {
	case verdict == hpa.Failed:
		return replicas, asked, ledger.Held
	case replicas <= r.spec.Min:
		return replicas, asked, ledger.Minimum
	}
	return replicas, asked, ledger.Cooldown
}

func (m *Metric) propose(s *autoscaler.Scene, t hpa.Tolerances) hpa.Proposal {
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

// pods converts the sample to the input of a Pods metric. The pod of a replica that loads its model is running. For the GPU activity, this
// pod has the value 0, because the DCGM exporter reports an idle GPU. For every other measure, this pod has no value, because its model
// server does not report metrics yet.
func (m *Metric) pods(s *autoscaler.Scene, sample autoscaler.Sample) hpa.Pods {
	reported := min(sample.Pods, s.Ready)
	mean := sample.Value
	if m.Measure == measure.Waiting || m.Measure == measure.Running {
		mean /= math.Max(1, float64(sample.Pods))
	}
	starts := s.Starting()
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
