// Package hpa implements the arithmetic of the HorizontalPodAutoscaler (Kubernetes 1.36, pkg/controller/podautoscaler) as
// functions of values: the replicas that a metric proposes, and the controller's result over time. It reads no clock and no
// cluster, so that e2e/hpacheck can compare it with Kubernetes' ReplicaCalculator for each sample and with its
// HorizontalController for each sync.
//
// Quantities are in milli-units, as in the controller: 1500 is 1.5. Expressions keep the controller's order of operations, so
// that floating-point results are equal.
package hpa

import "math"

// Tolerances limit how far the ratio of metric to target may be below 1 (Down) and above 1 (Up) without a change of the replicas. Each is
// at least 0; 0.1 means 10%.
type Tolerances struct{ Down, Up float64 }

// DefaultTolerances are the default of --horizontal-pod-autoscaler-tolerance of kube-controller-manager.
var DefaultTolerances = Tolerances{Down: 0.1, Up: 0.1}

func (t Tolerances) within(ratio float64) bool {
	return (1.0-t.Down) <= ratio && ratio <= (1.0+t.Up)
}

// Milli converts a value to a quantity in thousandths, truncated as metric adapters do. Values beyond int64 become the maximum int64;
// negative values and NaN become 0.
func Milli(v float64) int64 {
	switch v *= 1000; {
	case v >= math.MaxInt64:
		return math.MaxInt64
	case v > 0:
		return int64(v)
	}
	return 0
}

// AverageValue returns the proposal of an External or Object metric with target.type AverageValue. usage is the sum over the series of the
// metric, target is the value per pod (> 0), and status is status.replicas of the scale target. Within the tolerances the result is
// status.replicas, not spec.replicas, so during a rollout it includes the surge pods. The number of ready pods has no effect.
func AverageValue(usage, target int64, status int32, t Tolerances) int32 {
	ratio := float64(usage) / (float64(target) * float64(status))
	if t.within(ratio) {
		return status
	}
	return whole(math.Ceil(float64(usage) / float64(target)))
}

// Value returns the proposal of an External metric with target.type Value. The parameter current is spec.replicas, and ready is the number
// of pods that are Running and Ready. The ratio is usage divided by target. If current is 0, the proposal is this ratio. If the ratio is
// within the tolerances, the proposal is current. Otherwise it is the ratio times ready, so it is 0 if no pod is ready. Results are rounded
// up.
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

// Pods contains the values from which the proposal of a Pods metric is computed.
type Pods struct {
	Sum     int64 // sum of the metric over the counted pods
	Counted int32 // pods that have the metric and are ready
	Unready int32 // pods in phase Pending
	Missing int32 // running pods without the metric
	Current int32 // spec.replicas
}

// Average returns the proposal of a Pods metric with an averageValue target (> 0); ok is false if no pod has the metric. For a
// scale-down, Average assumes that a missing pod has exactly the target. For a scale-up, it assumes that missing and unready pods are idle.
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

// whole converts v to a number of replicas as the controller does: NaN (0 over 0) is 0, and values above the maximum become the maximum
// int32.
func whole(v float64) int32 {
	switch {
	case v > math.MaxInt32:
		return math.MaxInt32
	case v > 0:
		return int32(v)
	}
	return 0
}
