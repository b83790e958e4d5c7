package cluster

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
)

func scaledObject(name, target string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject",
		"metadata": map[string]any{"name": name, "namespace": "team", "uid": "so"},
		"spec": map[string]any{
			"scaleTargetRef": map[string]any{"name": target},
			"triggers": []any{
				map[string]any{"type": "cron", "name": "night"},
				map[string]any{"type": "external-push", "metadata": map[string]any{
					"scalerAddress": "dns:///gpuscaler-scaler.gpuscaler-system.svc:9090", "policy": "chat",
				}},
			},
		},
	}}
}

func kedaHPA(name, target, owner string) *hpaFacts {
	h := exactHPA(name, target, "")
	h.OwnerReferences = []metav1.OwnerReference{{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: owner}}
	h.Annotations = map[string]string{annotations.Paused: "true"} // KEDA copies its ScaledObject's
	external := h.Spec.Metrics[0].External
	external.Metric.Name = "s1-" + DesiredReplicasMetric
	external.Metric.Selector.MatchLabels = map[string]string{"scaledobject.keda.sh/name": owner}
	return must(trimHPA(h)).(*hpaFacts)
}

func TestAScaledObjectIsTheFollowerAndItsBoundsCount(t *testing.T) {
	w := newWorld()
	w.putTarget(must(trimDeployment(deployment("chat", 3, "1"))).(*targetFacts))
	so := must(trimScaledObject(scaledObject("chat", "chat"))).(*scaledObjectFacts)
	w.putScaledObject(nil, so)
	if v, _ := w.view(workload("chat")); v.ManagedHPA != (engine.ManagedHPA{}) || v.MinReplicas != 0 || v.MaxReplicas != 100 {
		t.Errorf("before KEDA made the HPA: %+v", v)
	}
	w.putHPA(nil, kedaHPA("keda-hpa-chat", "chat", "chat"))
	v, _ := w.view(workload("chat"))
	if want := (engine.ManagedHPA{Kind: kindScaledObject, Name: "chat", Desired: 3, Exact: true}); v.ManagedHPA != want {
		t.Errorf("follower %+v, want %+v", v.ManagedHPA, want)
	}
	if v.MinReplicas != 0 || v.MaxReplicas != 100 {
		t.Errorf("bounds %d..%d: KEDA's HPA begins at 1, the ScaledObject at 0", v.MinReplicas, v.MaxReplicas)
	}
	if v.Operator.Paused {
		t.Error("the copy of an annotation counted")
	}
}

func TestAScaledObjectThatKEDAPausedMovesNothing(t *testing.T) {
	for annotation, value := range map[string]string{
		"autoscaling.keda.sh/paused": "true", "autoscaling.keda.sh/paused-replicas": "0",
	} {
		u := scaledObject("chat", "chat")
		u.SetAnnotations(map[string]string{annotation: value})
		w := newWorld()
		w.putTarget(must(trimDeployment(deployment("chat", 3, "1"))).(*targetFacts))
		w.putScaledObject(nil, must(trimScaledObject(u)).(*scaledObjectFacts))
		v, _ := w.view(workload("chat"))
		if v.ManagedHPA.Exact || v.ManagedHPA.Why == "" {
			t.Errorf("%s: follower %+v", annotation, v.ManagedHPA)
		}
		if !v.Operator.Paused || !strings.Contains(v.OperatorBy, annotation) {
			t.Errorf("%s: operator %+v by %q: what is paused is neither scaled nor are its nodes nudged", annotation, v.Operator, v.OperatorBy)
		}
	}
	for value, paused := range map[string]bool{"true": true, "yes": true, "": true, "false": false, "0": false} {
		if p := readPause(map[string]string{"autoscaling.keda.sh/paused": value}, nil); (p.whole != "") != paused {
			t.Errorf("paused: %q: %+v", value, p)
		}
	}
}

func TestAScaledObjectAndAnHPAOnOneTargetAreTwoOwners(t *testing.T) {
	w := newWorld()
	w.putTarget(must(trimDeployment(deployment("chat", 3, "1"))).(*targetFacts))
	w.putScaledObject(nil, must(trimScaledObject(scaledObject("chat", "chat"))).(*scaledObjectFacts))
	w.putHPA(nil, kedaHPA("keda-hpa-chat", "chat", "chat"))
	w.putHPA(nil, must(trimHPA(exactHPA("a-before-kedas", "chat", "chat"))).(*hpaFacts))
	if v, _ := w.view(workload("chat")); v.ManagedHPA.Exact || v.ManagedHPA.Kind != kindScaledObject {
		t.Errorf("follower %+v", v.ManagedHPA)
	}
	for _, h := range w.readers() {
		if !slices.Contains(whats(Lint(h.hpa.object(), h.facts)), TwoOwners) {
			t.Errorf("%s: two owners were not found", h.hpa.Name)
		}
	}
}

func TestWhatAScaledObjectSaysIsRead(t *testing.T) {
	u := scaledObject("chat", "chat")
	for path, n := range map[string]int64{"minReplicaCount": 1, "maxReplicaCount": 8, "cooldownPeriod": 60} {
		if err := unstructured.SetNestedField(u.Object, n, "spec", path); err != nil {
			t.Fatal(err)
		}
	}
	s := must(trimScaledObject(u)).(*scaledObjectFacts)
	if s.min != 1 || s.max != 8 || s.cooldown != 60 || s.scales.Kind != "Deployment" || s.scales.APIVersion != "apps/v1" {
		t.Errorf("%+v", s)
	}
	if !slices.Equal(s.triggers, []string{"night"}) || s.metadata["policy"] != "chat" {
		t.Errorf("triggers %v, metadata %v", s.triggers, s.metadata)
	}
	if s := must(trimScaledObject(scaledObject("chat", "chat"))).(*scaledObjectFacts); s.cooldown != -1 {
		t.Errorf("a cooldown that is not set is %d", s.cooldown)
	}
	broken := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"triggers": []any{"?", nil}, "maxReplicaCount": "many"}}}
	if s := must(trimScaledObject(broken)).(*scaledObjectFacts); s.max != kedaMaxReplicas || len(s.triggers) != 0 {
		t.Errorf("%+v", s)
	}
}
