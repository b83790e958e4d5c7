package cache

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// publishing returns a ScaledObject with triggers of the given names. Its status lists the metrics that KEDA serves for them (published).
func publishing(names []string, published ...string) *unstructured.Unstructured {
	u := fixture.ScaledObject("embed", "chat")
	triggers := make([]any, len(names))
	for i, name := range names {
		triggers[i] = map[string]any{"type": "aws-sqs-queue"}
		if name != "" {
			triggers[i] = map[string]any{"type": "aws-sqs-queue", "name": name}
		}
	}
	served := make([]any, len(published))
	for i, name := range published {
		served[i] = name
	}
	u.Object["spec"].(map[string]any)["triggers"] = triggers
	u.Object["status"] = map[string]any{"externalMetricNames": served}
	return u
}

func TestTriggerMetricIsTheOneThatKEDAPublishes(t *testing.T) {
	modified := publishing([]string{"sqs"}, "s0-sqs")
	modified.Object["spec"].(map[string]any)["advanced"] = map[string]any{
		"scalingModifiers": map[string]any{"formula": "sqs / 2", "target": "5"},
	}
	eleven := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "sqs"}
	for name, c := range map[string]struct {
		object *unstructured.Unstructured
		want   string
	}{
		"by its index": {
			publishing([]string{"", "sqs"}, "s0-cron", "s1-aws-sqs-queue-jobs"), "s1-aws-sqs-queue-jobs",
		},
		"after cpu, which is no external one": {
			publishing([]string{"cpu", "sqs"}, "s1-aws-sqs-queue-jobs"), "s1-aws-sqs-queue-jobs",
		},
		"the eleventh is not the second":                                 {publishing(eleven, "s1-b", "s10-sqs"), "s10-sqs"},
		"the second is not the eleventh":                                 {publishing([]string{"a", "sqs"}, "s10-other"), ""},
		"KEDA has not published it":                                      {publishing([]string{"sqs"}), ""},
		"there is no such trigger":                                       {publishing([]string{"kafka"}, "s0-kafka"), ""},
		"a trigger without a name":                                       {publishing([]string{""}, "s0-aws-sqs-queue-jobs"), ""},
		"two triggers of one name":                                       {publishing([]string{"sqs", "sqs"}, "s0-a", "s1-b"), ""},
		"two metrics of one trigger":                                     {publishing([]string{"sqs"}, "s0-a", "s0-b"), ""},
		"with scalingModifiers KEDA serves the formula for every metric": {modified, ""},
		"names that are no list, from a broken object": {&unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "embed", "namespace": "team"},
			"spec":     map[string]any{"scaleTargetRef": map[string]any{"name": "chat"}, "triggers": []any{nil, "?"}},
			"status":   map[string]any{"externalMetricNames": "s0-sqs"},
		}}, ""},
	} {
		w := New(0)
		w.PutScaledObject(nil, fixture.Must[*ScaledObject](TrimScaledObject(c.object)))
		metric, selector, ok := w.TriggerMetric(fixture.Workload("chat"), "sqs")
		if metric != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %v", name, metric, ok)
		}
		if ok && selector != "scaledobject.keda.sh/name=embed" {
			t.Errorf("%s: selector %q", name, selector)
		}
	}
}

func TestTriggerMetricChangesWithItsScaledObject(t *testing.T) {
	c := New(0)
	ask := func(w *scaling.Workload) string {
		metric, _, _ := c.TriggerMetric(w, "sqs")
		return metric
	}
	if got := ask(fixture.Workload("chat")); got != "" {
		t.Errorf("without a ScaledObject: %q", got)
	}
	first := fixture.Must[*ScaledObject](TrimScaledObject(publishing([]string{"sqs"}, "s0-jobs")))
	c.PutScaledObject(nil, first)
	if got := ask(fixture.Workload("chat")); got != "s0-jobs" {
		t.Errorf("published: %q", got)
	}
	second := fixture.Must[*ScaledObject](TrimScaledObject(publishing([]string{"cron", "sqs"}, "s0-cron", "s1-jobs")))
	c.PutScaledObject(first, second)
	if got := ask(fixture.Workload("chat")); got != "s1-jobs" {
		t.Errorf("after a trigger was added before it: %q", got)
	}
	other := fixture.Workload("chat")
	other.Key.Namespace = "other-team"
	if got := ask(other); got != "" {
		t.Errorf("another namespace reads %q", got)
	}
	c.DropScaledObject(second)
	if got := ask(fixture.Workload("chat")); got != "" {
		t.Errorf("after the ScaledObject was deleted: %q", got)
	}
}
