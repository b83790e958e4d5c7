package objects

import (
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// Names by which an HPA reads the target of a workload.
const (
	// DesiredReplicasMetric is the external metric with the target of a workload.
	DesiredReplicasMetric = "gpuscaler-desired-replicas"
	// PolicyLabel is the label of the metric selector that names the policy.
	PolicyLabel = "gpuscaler.io/policy"

	// compositeMetric is the metric with which KEDA serves the result of scalingModifiers.
	compositeMetric = "composite-metric"
)

// ReadsTarget reports whether an HPA reads DesiredReplicasMetric, and the policy that its selector names. The policy is empty for an
// HPA of a ScaledObject: KEDA adds the prefix "s<index>-" to a trigger's metric name and selects by its own label.
func ReadsTarget(spec *autoscalingv2.HorizontalPodAutoscalerSpec) (policy string, reads bool) {
	for i := range spec.Metrics {
		m := spec.Metrics[i].External
		if m == nil || !IsTargetMetric(m.Metric.Name) {
			continue
		}
		if m.Metric.Selector != nil {
			policy = m.Metric.Selector.MatchLabels[PolicyLabel]
		}
		return policy, true
	}
	return "", false
}

// ReadsComposite reports whether an HPA reads the result of a ScaledObject's scalingModifiers.
func ReadsComposite(spec *autoscalingv2.HorizontalPodAutoscalerSpec) bool {
	return slices.ContainsFunc(spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.External != nil && m.External.Metric.Name == compositeMetric
	})
}

// IsTargetMetric reports whether a metric is DesiredReplicasMetric, with or without KEDA's prefix.
func IsTargetMetric(name string) bool {
	if name == DesiredReplicasMetric {
		return true
	}
	index, rest, found := strings.Cut(name, "-")
	return found && rest == DesiredReplicasMetric && len(index) > 1 && index[0] == 's' &&
		strings.Trim(index[1:], "0123456789") == ""
}
