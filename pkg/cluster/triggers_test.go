package cluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// publishing is the ScaledObject of the other tests with its named triggers, and what KEDA says that it serves for them.
func publishing(names []string, published ...string) *unstructured.Unstructured {
	u := scaledObject("embed", "chat")
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

func TestATriggerIsReadUnderTheNameThatKEDAPublishes(t *testing.T) {
	modified := publishing([]string{"sqs"}, "s0-sqs")
	modified.Object["spec"].(map[string]any)["advanced"] = map[string]any{
		"scalingModifiers": map[string]any{"formula": "sqs / 2", "target": "5"},
	}
	eleven := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "sqs"}
	for name, c := range map[string]struct {
		object *unstructured.Unstructured
		want   string
	}{
		"by its place":                        {publishing([]string{"", "sqs"}, "s0-cron", "s1-aws-sqs-queue-jobs"), "s1-aws-sqs-queue-jobs"},
		"after cpu, which is no external one": {publishing([]string{"cpu", "sqs"}, "s1-aws-sqs-queue-jobs"), "s1-aws-sqs-queue-jobs"},
		"the eleventh is not the second":      {publishing(eleven, "s1-b", "s10-sqs"), "s10-sqs"},
		"the second is not the eleventh":      {publishing([]string{"a", "sqs"}, "s10-other"), ""},
		"KEDA has not published it":           {publishing([]string{"sqs"}), ""},
		"there is no such trigger":            {publishing([]string{"kafka"}, "s0-kafka"), ""},
		"a trigger without a name":            {publishing([]string{""}, "s0-aws-sqs-queue-jobs"), ""},
		"two of one name":                     {publishing([]string{"sqs", "sqs"}, "s0-a", "s1-b"), ""},
		"two metrics of one trigger":          {publishing([]string{"sqs"}, "s0-a", "s0-b"), ""},
		"a formula answers for every metric":  {modified, ""},
		"names that are no list, from a broken object": {&unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "embed", "namespace": "team"},
			"spec":     map[string]any{"scaleTargetRef": map[string]any{"name": "chat"}, "triggers": []any{nil, "?"}},
			"status":   map[string]any{"externalMetricNames": "s0-sqs"},
		}}, ""},
	} {
		w := newWorld()
		w.putScaledObject(nil, must(trimScaledObject(c.object)).(*scaledObjectFacts))
		metric, selector, ok := w.triggerMetric(workload("chat"), "sqs")
		if metric != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %v", name, metric, ok)
		}
		if ok && selector != "scaledobject.keda.sh/name=embed" {
			t.Errorf("%s: selector %q", name, selector)
		}
	}
}

func TestATriggerFollowsItsScaledObjectThroughItsLife(t *testing.T) {
	c := still(Options{})
	ask := func(w *scaling.Workload) string {
		metric, _, _ := c.TriggerMetric(w, "sqs")
		return metric
	}
	if got := ask(workload("chat")); got != "" {
		t.Errorf("before there is a ScaledObject: %q", got)
	}
	first := must(trimScaledObject(publishing([]string{"sqs"}, "s0-jobs"))).(*scaledObjectFacts)
	c.world.putScaledObject(nil, first)
	if got := ask(workload("chat")); got != "s0-jobs" {
		t.Errorf("published: %q", got)
	}
	second := must(trimScaledObject(publishing([]string{"cron", "sqs"}, "s0-cron", "s1-jobs"))).(*scaledObjectFacts)
	c.world.putScaledObject(first, second)
	if got := ask(workload("chat")); got != "s1-jobs" {
		t.Errorf("after a trigger was put before it: %q", got)
	}
	other := workload("chat")
	other.Key.Namespace = "other-team"
	if got := ask(other); got != "" {
		t.Errorf("another namespace reads %q", got)
	}
	c.world.dropScaledObject(second)
	if got := ask(workload("chat")); got != "" {
		t.Errorf("after it went: %q", got)
	}
}

func TestExportersAreFoundOnTheirNodes(t *testing.T) {
	loading, ready := podOf("dcgm", 2, "loading"), podOf("dcgm", 1, "ready")
	unaddressed := podOf("dcgm", 5, "loading")
	unaddressed.Status.PodIP = ""
	elsewhere := podOf("dcgm", 6, "ready")
	elsewhere.Namespace = "other-team"
	c := begin(t, fake.NewClientset(loading, ready, unaddressed, elsewhere,
		podOf("dcgm", 3, "terminating"), podOf("dcgm", 4, "pending"), podOf("chat", 1, "ready")))
	found := c.Exporters("team", map[string]string{"app": "dcgm"})
	if len(found) != 2 || found[0].Name != "dcgm-1" || found[1].Name != "dcgm-2" {
		t.Fatalf("found %+v", found)
	}
	if found[0].Node != "node" || found[0].IP != "10.0.0.1" {
		t.Errorf("%+v", found[0])
	}
	for name, none := range map[string]int{
		"no label":             len(c.Exporters("team", nil)),
		"no namespace":         len(c.Exporters("", map[string]string{"app": "dcgm"})),
		"one label that fails": len(c.Exporters("team", map[string]string{"app": "dcgm", "tier": "gpu"})),
	} {
		if none != 0 {
			t.Errorf("%s: %d pods", name, none)
		}
	}
}
