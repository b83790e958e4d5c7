package collect

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

func deployment(t *testing.T, name, limits string) *unstructured.Unstructured {
	t.Helper()
	return object(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s, namespace: team}, spec: {template: {
	spec: {containers: [{name: vllm, args: ["--model", "x", "--max-num-seqs=16"], resources: {limits: {%s}}}]}}}}`, name, limits))
}

const scaled = `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: embed, namespace: team,
  annotations: {note: hunter2}}, spec: {scaleTargetRef: {name: embed}, maxReplicaCount: 7, cooldownPeriod: 900, triggers: [
  {type: prometheus, authenticationRef: {name: hunter2}, metadata: {serverAddress: "http://user:hunter2@prom",
    query: "sum(x{key=\"hunter2\"})"}},
  {type: cron, metadata: {timezone: Europe/Berlin, start: 0 8 * * *, end: 0 20 * * *, desiredReplicas: "4"}}]}}`

func TestAutoscalersOfGPUWorkloadsAreFound(t *testing.T) {
	hpa := func(name, target string) *unstructured.Unstructured {
		return object(t, fmt.Sprintf(`{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: %s, namespace: team}, spec: {
		scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %s}, minReplicas: 2, maxReplicas: 9,
		behavior: {scaleDown: {stabilizationWindowSeconds: 60}}, metrics: [{type: Pods, pods: {metric: {name: gpu_util}}}]}}`, name, target))
	}
	got, gaps := Workloads([]*unstructured.Unstructured{hpa("chat", "chat"), hpa("web", "web"), hpa("lost", "lost"), hpa("twice", "chat"),
		object(t, scaled)}, []*unstructured.Unstructured{deployment(t, "chat", `nvidia.com/gpu: "2"`), deployment(t, "web", `cpu: "2"`),
		deployment(t, "embed", `nvidia.com/gpu: "1"`)})
	if len(got) != 2 || len(gaps) != 2 {
		t.Fatalf("%d workloads, gaps %+v", len(got), gaps)
	}
	chat, embed := got[0], got[1]
	if a := chat.Autoscaler; chat.GPUs != 2 || chat.Slots != 16 || a.Min != 2 || a.Max != 9 || a.Cooldown != 60 ||
		a.Metrics[0] != "Pods gpu_util" {
		t.Errorf("%+v", chat)
	}
	if a := embed.Autoscaler; a.Min != 0 || a.Max != 7 || a.Cooldown != 900 || len(a.Schedules) != 1 || a.Schedules[0].Replicas != 4 {
		t.Errorf("%+v", embed)
	}
	text, err := json.Marshal(got)
	if err != nil || strings.Contains(string(text), "hunter2") {
		t.Errorf("the snapshot contains a query, an address or an annotation: %s %v", text, err)
	}
}

// If a field has the wrong type, the workload is not audited, because any default value would be a guess. The gap contains the name of
// the field.
func TestMalformedObjectsAreGaps(t *testing.T) {
	targets := []*unstructured.Unstructured{deployment(t, "embed", `nvidia.com/gpu: "1"`), deployment(t, "web", `cpu: "2"`)}
	scaledObject := func(target, fields string) *unstructured.Unstructured {
		return object(t, fmt.Sprintf(`{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: a, namespace: team}, spec: {
		scaleTargetRef: {name: %s}, %s}}`, target, fields))
	}
	for _, c := range []struct {
		object *unstructured.Unstructured
		why    string // reason in the gap; empty: no gap
	}{
		{scaledObject("embed", `maxReplicaCount: many`), "spec.maxReplicaCount is not a whole number of at least 0"},
		{scaledObject("embed", `maxReplicaCount: "7"`), "spec.maxReplicaCount is not a whole number of at least 0"},
		{scaledObject("embed", `maxReplicaCount: 7.5`), "spec.maxReplicaCount is not a whole number of at least 0"},
		{scaledObject("embed", `minReplicaCount: -5`), "spec.minReplicaCount is not a whole number of at least 0"},
		{scaledObject("embed", `cooldownPeriod: -1`), "spec.cooldownPeriod is not a whole number of at least 0"},
		{scaledObject("embed", `advanced: 7`),
			"spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleDown.stabilizationWindowSeconds is not a whole number of at least 0"},
		{scaledObject("web", `maxReplicaCount: many`), ""}, // a workload without GPUs is not part of the audit
		{object(t, `{apiVersion: v1, kind: HorizontalPodAutoscaler, metadata: {name: a, namespace: team}, spec: {maxReplicas: x}}`),
			"it is not a valid HPA of autoscaling/v2"},
	} {
		got, gaps := Workloads([]*unstructured.Unstructured{c.object}, targets)
		if len(got) != 0 || (len(gaps) == 1) != (c.why != "") || len(gaps) == 1 && (gaps[0].Why != c.why ||
			gaps[0].What != c.object.GetKind()+" team/a" || gaps[0].Next == "") {
			t.Errorf("%v: %+v, gaps %+v, want %q", c.object.Object["spec"], got, gaps, c.why)
		}
	}
}

// The report only shows the types of triggers, so the audit continues if a type is malformed. A malformed schedule is reported as a gap.
// The gap must not contain the text of the schedule.
func TestMalformedTriggersDoNotStopTheAudit(t *testing.T) {
	broken := object(t, `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: a, namespace: team}, spec: {
	scaleTargetRef: {name: embed}, triggers: [7, {type: 3}, {type: cron, metadata: {desiredReplicas: "1e9"}}]}}`)
	got, gaps := Workloads([]*unstructured.Unstructured{broken}, []*unstructured.Unstructured{deployment(t, "embed", `nvidia.com/gpu: "1"`)})
	if len(got) != 1 || len(gaps) != 1 || gaps[0].What != "a schedule of team/embed" || got[0].Autoscaler.Min != 0 ||
		got[0].Autoscaler.Max != 100 || got[0].Autoscaler.Cooldown < 0 {
		t.Errorf("%+v, gaps %+v", got, gaps)
	}
}
