package objects

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FallbackScalesDown is the name of the check for an HPA in which external.fallback.replicas of the target metric is less than maxReplicas
// (KEP-5679, feature gate HPAExternalMetricFallback). If gpuscaler does not serve the metric for some minutes, for example with mode: hold,
// the HPA scales the workload to fallback.replicas. This can remove replicas that are in use. Without a fallback, the HPA does not change
// the replicas.
const FallbackScalesDown = "FallbackScalesDown"

// FallbackReplicas returns external.fallback.replicas of the metric DesiredReplicasMetric in an HPA. ok is false if this metric has no
// fallback. It reads the unstructured object, because the field is alpha and does not exist in the Go types that this program uses.
func FallbackReplicas(u *unstructured.Unstructured) (replicas int64, ok bool) {
	metrics, _, _ := unstructured.NestedSlice(u.Object, "spec", "metrics")
	for _, m := range metrics {
		metric, _ := m.(map[string]any)
		name, _, _ := unstructured.NestedString(metric, "external", "metric", "name")
		if _, set, _ := unstructured.NestedMap(metric, "external", "fallback"); set && IsTargetMetric(name) {
			field, _, _ := unstructured.NestedFieldNoCopy(metric, "external", "fallback", "replicas")
			switch n := field.(type) {
			case int64:
				return n, true
			case float64: // the type of every number that was read from a file
				return int64(n), true
			}
			return 0, true
		}
	}
	return 0, false
}

// Fallbacks contains fallback.replicas of each HPA. The key is NAMESPACE/NAME.
type Fallbacks map[string]int64

// Add adds the fallback of an HPA. It does nothing if the HPA has no fallback.
func (f Fallbacks) Add(u *unstructured.Unstructured) {
	if replicas, ok := FallbackReplicas(u); ok {
		f[u.GetNamespace()+"/"+u.GetName()] = replicas
	}
}

// Of returns the fallback of an HPA, or nil if it has none.
func (f Fallbacks) Of(namespace, name string) *int64 {
	if replicas, ok := f[namespace+"/"+name]; ok {
		return &replicas
	}
	return nil
}

func (c *hpaCheck) fallback() {
	if r := c.facts.Fallback; r != nil && *r < int64(c.spec.MaxReplicas) {
		c.add(FallbackScalesDown,
			fmt.Sprintf("its metric has fallback.replicas %d: while no target is served (mode: hold, an outage) the HPA scales to %d, "+
				"also down", *r, *r),
			fmt.Sprintf("remove the metric's fallback, so that the HPA keeps its replicas, or set fallback.replicas: %d, its maxReplicas",
				c.spec.MaxReplicas))
	}
}
