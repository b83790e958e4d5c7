// Package hpa is the arithmetic of the HorizontalPodAutoscaler (Kubernetes 1.36, pkg/controller/podautoscaler) as functions of
// values: what a metric proposes, and what the controller makes of proposals over time. It reads no clock and no cluster, so that
// it can be compared with Kubernetes' own ReplicaCalculator sample by sample, and with its HorizontalController sync by sync (e2e/hpacheck).
//
// Quantities are milli-units, as in the controller: 1500 is 1.5. Expressions keep the controller's order of operations, so the
// doubles round alike.
package hpa

import "math"

// Tolerances are the relative deviations from 1 that are ignored, each at least 0.
type Tolerances struct{ Down, Up float64 }

// DefaultTolerances are the controller's --horizontal-pod-autoscaler-tolerance.
var DefaultTolerances = Tolerances{Down: 0.1, Up: 0.1}

func (t Tolerances) within(ratio float64) bool {
	return (1.0-t.Down) <= ratio && ratio <= (1.0+t.Up)
}

// Milli is how metric adapters turn a value into a quantity: truncated to thousandths. Values beyond an int64 saturate, and what is not a
// number is 0.
func Milli(v float64) int64 {
	switch v *= 1000; {
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v > 0:
		return int64(v)
	}
	return 0
}

// AverageValue is what an External (or Object) metric with target.type AverageValue proposes: usage is the sum over its series,
// target the value per pod (> 0), status the target's status.replicas. Inside the tolerances it is status, not spec.replicas:
// during a roll-out the surge is adopted. Pods and their readiness play no part.
func AverageValue(usage, target int64, status int32, t Tolerances) int32 {
	ratio := float64(usage) / (float64(target) * float64(status))
	if t.within(ratio) {
		return status
	}
	return whole(math.Ceil(float64(usage) / float64(target)))
}

// Value is what an External metric with target.type Value proposes; current is spec.replicas and ready the pods Running and Ready.
// With no ready pod it proposes 0.
func Value(usage, target int64, current, ready int32, t Tolerances) int32 {
	ratio := float64(usage) / float64(target)
	if current == 0 {
		return whole(math.Ceil(ratio))
	}
	if t.within(ratio) {
		return current
	}
	return whole(math.Ceil(ratio * float64(ready)))
}

// Pods is what a Pods metric sees.
type Pods struct {
	Sum     int64 // of the metric over the pods that have it and count
	Counted int32 // those pods
	Unready int32 // pods in phase Pending
	Missing int32 // pods that run without the metric
	Current int32 // spec.replicas
}

// Average is what a Pods metric with averageValue target (> 0) proposes; ok is false where no pod has the metric. Missing pods
// are taken to be on target where it would scale down and idle where it would scale up; unready ones are idle in a scale-up.
func (p Pods) Average(target int64, t Tolerances) (replicas int32, ok bool) {
	if p.Counted <= 0 {
		return 0, false
	}
	n, sum := int64(p.Counted), p.Sum
	ratio := float64(sum/n) / float64(target)
	upWithUnready := p.Unready > 0 && ratio > 1.0
	if !upWithUnready && p.Missing == 0 {
		if t.within(ratio) {
			return p.Current, true
		}
		return whole(math.Ceil(ratio * float64(p.Counted))), true
	}
	switch {
	case ratio < 1.0:
		sum += int64(p.Missing) * target
		n += int64(p.Missing)
	case ratio > 1.0:
		n += int64(p.Missing)
	}
	if upWithUnready {
		n += int64(p.Unready)
	}
	next := float64(sum/n) / float64(target)
	if t.within(next) || ratio < 1.0 && next > 1.0 || ratio > 1.0 && next < 1.0 {
		return p.Current, true
	}
	replicas = whole(math.Ceil(next * float64(n)))
	if next < 1.0 && replicas > p.Current || next > 1.0 && replicas < p.Current {
		return p.Current, true
	}
	return replicas, true
}

// whole is the controller's conversion: NaN (0 over 0) is 0, and too much is the greatest int32.
func whole(v float64) int32 {
	switch {
	case v > math.MaxInt32:
		return math.MaxInt32
	case v > 0:
		return int32(v)
	}
	return 0
}
