package cluster

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// kedaNameLabel selects the ScaledObject whose metric KEDA is asked for.
const kedaNameLabel = "scaledobject.keda.sh/name"

// TriggerMetric returns the external metric that KEDA serves for a named trigger of the ScaledObject on the workload's target, and
// the selector without which KEDA's metrics server refuses to answer. ok is false while there is no such ScaledObject or trigger,
// and while KEDA has not published one metric for it. It does no I/O.
func (c *Cluster) TriggerMetric(w *scaling.Workload, trigger string) (metric, selector string, ok bool) {
	return c.world.triggerMetric(w, trigger)
}

func (w *world) triggerMetric(work *scaling.Workload, trigger string) (metric, selector string, ok bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	t := w.targets[refOfWorkload(work)]
	if t == nil || t.scaledObject == nil {
		return "", "", false
	}
	s := t.scaledObject
	metric = s.metrics[trigger]
	return metric, kedaNameLabel + "=" + s.Name, metric != ""
}

// metricsOfTriggers finds what KEDA publishes for each named trigger: "s2-aws-sqs-queue" for the third in spec.triggers. Where that
// is not certain there is no entry, as another trigger's number would pass for this one's:
//
//	two triggers of one name         which is meant is not known
//	two metrics of one trigger       their numbers do not add up
//	any spec.advanced.scalingModifiers   KEDA answers every metric with the formula's result
func metricsOfTriggers(u *unstructured.Unstructured) map[string]string {
	if modifiers, _, _ := unstructured.NestedMap(u.Object, "spec", "advanced", "scalingModifiers"); len(modifiers) > 0 {
		return nil
	}
	triggers, _, _ := unstructured.NestedSlice(u.Object, "spec", "triggers")
	published, _, _ := unstructured.NestedStringSlice(u.Object, "status", "externalMetricNames")
	metrics := map[string]string{}
	for i, t := range triggers {
		trigger, _ := t.(map[string]any)
		name, _, _ := unstructured.NestedString(trigger, "name")
		if name == "" {
			continue
		}
		if _, twice := metrics[name]; twice {
			metrics[name] = ""
			continue
		}
		metrics[name] = onlyWithPrefix(published, "s"+strconv.Itoa(i)+"-")
	}
	return metrics
}

// onlyWithPrefix is the one name with a prefix; empty where there is none or more than one.
func onlyWithPrefix(names []string, prefix string) (only string) {
	for _, name := range names {
		switch {
		case !strings.HasPrefix(name, prefix):
		case only != "":
			return ""
		default:
			only = name
		}
	}
	return only
}
