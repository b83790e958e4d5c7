package objects

import (
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// Names in the metric specification of an HPA that reads the target of a policy.
const (
	// DesiredReplicasMetric is the external metric in which gpuscaler serves the target (the desired replicas) of a policy.
	DesiredReplicasMetric = "gpuscaler-desired-replicas"
	// PolicyLabel is the label in the HPA's metric selector that contains the name of the policy.
	PolicyLabel = "gpuscaler.io/policy"

	// compositeMetric is the metric in which KEDA serves the result of scalingModifiers.
	compositeMetric = "composite-metric"
)

// ReadsTarget reports whether an HPA reads DesiredReplicasMetric. policy is the name of the policy in the metric selector. It is empty for
// an HPA that KEDA created, because KEDA adds the prefix "s<index>-" to the name of the metric and uses its own label in the selector.
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

// ReadsComposite reports whether an HPA reads the result of the scalingModifiers of a ScaledObject.
func ReadsComposite(spec *autoscalingv2.HorizontalPodAutoscalerSpec) bool {
	return slices.ContainsFunc(spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.External != nil && m.External.Metric.Name == compositeMetric
	})
}

// IsTargetMetric reports whether name is DesiredReplicasMetric, with or without the prefix that KEDA adds.
func IsTargetMetric(name string) bool {
	if name == DesiredReplicasMetric {
		return true
	}
	index, rest, found := strings.Cut(name, "-")
	return found && rest == DesiredReplicasMetric && len(index) > 1 && index[0] == 's' &&
		strings.Trim(index[1:], "0123456789") == ""
}
