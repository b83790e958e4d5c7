package cache

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/manual"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
)

func kedaHPA(name, target, owner string) *HPA {
	return fixture.Must[*HPA](TrimHPA(fixture.KEDAHPA(name, target, owner)))
}

func TestScaledObjectIsTheManagedHPAWithItsBounds(t *testing.T) {
	w := New(0)
	w.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 3, "1"))))
	so := fixture.Must[*ScaledObject](TrimScaledObject(fixture.ScaledObject("chat", "chat")))
	w.PutScaledObject(nil, so)
	if v, _ := w.View(fixture.Workload("chat")); v.ManagedHPA != (engine.ManagedHPA{}) || v.MinReplicas != 0 || v.MaxReplicas != 100 {
		t.Errorf("before KEDA created the HPA: %+v", v)
	}
	w.PutHPA(nil, kedaHPA("keda-hpa-chat", "chat", "chat"))
	v, _ := w.View(fixture.Workload("chat"))
	if want := (engine.ManagedHPA{Kind: ScaledObjectKind, Name: "chat", Desired: 3, Exact: true}); v.ManagedHPA != want {
		t.Errorf("managed HPA %+v, want %+v", v.ManagedHPA, want)
	}
	if v.MinReplicas != 0 || v.MaxReplicas != 100 {
		t.Errorf("bounds %d..%d: KEDA's HPA begins at 1, the ScaledObject at 0", v.MinReplicas, v.MaxReplicas)
	}
	if v.Operator.Paused {
		t.Error("the copy of an annotation on KEDA's HPA was used")
	}
}

func TestScaledObjectPausedInKEDAPausesTheWorkload(t *testing.T) {
	for annotation, value := range map[string]string{
		"autoscaling.keda.sh/paused": "true", "autoscaling.keda.sh/paused-replicas": "0",
	} {
		u := fixture.ScaledObject("chat", "chat")
		u.SetAnnotations(map[string]string{annotation: value})
		w := New(0)
		w.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 3, "1"))))
		w.PutScaledObject(nil, fixture.Must[*ScaledObject](TrimScaledObject(u)))
		v, _ := w.View(fixture.Workload("chat"))
		if v.ManagedHPA.Exact || v.ManagedHPA.Why == "" {
			t.Errorf("%s: managed HPA %+v", annotation, v.ManagedHPA)
		}
		if !v.Operator.Paused || !strings.Contains(v.OperatorBy, annotation) {
			t.Errorf("%s: operator %+v by %q; want paused: neither the workload is scaled nor are its nodes changed",
				annotation, v.Operator, v.OperatorBy)
		}
	}
	for value, paused := range map[string]bool{"true": true, "yes": true, "": true, "false": false, "0": false} {
		if p := manual.ReadKEDAPause(map[string]string{"autoscaling.keda.sh/paused": value}, nil); (p.All != "") != paused {
			t.Errorf("paused: %q: %+v", value, p)
		}
	}
}

func TestScaledObjectAndHPAOnOneTargetAreTwoOwners(t *testing.T) {
	w := New(0)
	w.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 3, "1"))))
	w.PutScaledObject(nil, fixture.Must[*ScaledObject](TrimScaledObject(fixture.ScaledObject("chat", "chat"))))
	w.PutHPA(nil, kedaHPA("keda-hpa-chat", "chat", "chat"))
	w.PutHPA(nil, fixture.Must[*HPA](TrimHPA(fixture.HPA("a-before-kedas", "chat", "chat"))))
	if v, _ := w.View(fixture.Workload("chat")); v.ManagedHPA.Exact || v.ManagedHPA.Kind != ScaledObjectKind {
		t.Errorf("managed HPA %+v", v.ManagedHPA)
	}
	for _, h := range w.ReadingHPAs() {
		if !slices.ContainsFunc(objects.HPA(h.HPA.Object(), h.Facts), func(f objects.Finding) bool { return f.Check == objects.TwoOwners }) {
			t.Errorf("%s: TwoOwners was not found", h.HPA.Name)
		}
	}
}

func TestFieldsOfAScaledObjectAreRead(t *testing.T) {
	u := fixture.ScaledObject("chat", "chat")
	for path, n := range map[string]int64{"minReplicaCount": 1, "maxReplicaCount": 8, "cooldownPeriod": 60} {
		if err := unstructured.SetNestedField(u.Object, n, "spec", path); err != nil {
			t.Fatal(err)
		}
	}
	s := fixture.Must[*ScaledObject](TrimScaledObject(u))
	if s.min != 1 || s.max != 8 || *s.Checks.Cooldown != time.Minute || s.scaleTargetRef.Kind != "Deployment" ||
		s.scaleTargetRef.APIVersion != "apps/v1" {
		t.Errorf("%+v", s)
	}
	if !slices.Equal(s.triggers, []string{"night"}) || s.metadata["policy"] != "chat" {
		t.Errorf("triggers %v, metadata %v", s.triggers, s.metadata)
	}
	if s := fixture.Must[*ScaledObject](TrimScaledObject(fixture.ScaledObject("chat", "chat"))); s.Checks.Cooldown != nil {
		t.Errorf("a cooldown that is not set is %v", s.Checks.Cooldown)
	}
}

// A ScaledObject that cannot be decoded must stay in the cache, because KEDA may scale its target.
func TestScaledObjectThatCannotBeDecodedKeepsItsTargetAndIsReported(t *testing.T) {
	u := fixture.ScaledObject("chat", "chat")
	if err := unstructured.SetNestedField(u.Object, "many", "spec", "maxReplicaCount"); err != nil {
		t.Fatal(err)
	}
	s := fixture.Must[*ScaledObject](TrimScaledObject(u))
	if s.Target.Name != "chat" || s.max != kedaMaxReplicas || s.Checks.HasTrigger {
		t.Errorf("%+v", s)
	}
	c := New(0)
	c.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 0, "1"))))
	c.PutScaledObject(nil, s)
	if state, ok := c.ScaleState(s.Target); !ok || !state.HasScaledObject {
		t.Error("the workload counts as one without a ScaledObject, so /scale would be written beside KEDA")
	}
	if all := c.Problems(); len(all) != 1 || all[0].About.Kind != ScaledObjectKind ||
		!strings.Contains(all[0].Text, "decode ScaledObject team/chat") {
		t.Errorf("reported %+v", all)
	}
}
