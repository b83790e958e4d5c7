package cache

import (
	"slices"
	"testing"
	"time"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func TestPausedDirectionIsExplainedAndNotAFinding(t *testing.T) {
	u := fixture.ScaledObject("chat", "chat")
	u.SetAnnotations(map[string]string{kedav1alpha1.PausedScaleInAnnotation: "true"})
	w := New(0)
	w.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 3, "1"))))
	w.PutScaledObject(nil, fixture.Must[*ScaledObject](TrimScaledObject(u)))
	h := kedaHPA("keda-hpa-chat", "chat", "chat")
	h.spec.Behavior.ScaleDown.SelectPolicy = fixture.Ptr(autoscalingv2.DisabledPolicySelect) // KEDA sets this value while scaling in is paused
	w.PutHPA(nil, h)
	if v, _ := w.View(fixture.Workload("chat")); v.ManagedHPA.Exact ||
		v.ManagedHPA.Why != "KEDA does not scale in: "+kedav1alpha1.PausedScaleInAnnotation {
		t.Errorf("managed HPA %+v", v.ManagedHPA)
	}
	for _, r := range w.ReadingHPAs() {
		if found := objects.HPA(r.HPA.Object(), r.Facts); len(found) > 0 {
			t.Errorf("found %v", found)
		}
	}
}

func TestChecksOfScaledObjects(t *testing.T) {
	set := func(value any, path ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
				t.Fatal(err)
			}
		}
	}
	trigger := func(key string, value any) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			triggers, _, _ := unstructured.NestedSlice(u.Object, "spec", "triggers")
			triggers[1].(map[string]any)[key] = value
			set(triggers, "spec", "triggers")(u)
		}
	}
	theirs := set([]any{map[string]any{"type": "cron", "name": "night"}}, "spec", "triggers")
	guarded := set(int64(60), "spec", "cooldownPeriod")
	idle := func(p *scaling.Policy) { p.CooldownPeriod = 0 }
	queue := func(p *scaling.Policy) { p.Signals = []scaling.Signal{{Name: "q", Type: "keda"}} }
	for name, c := range map[string]struct {
		object []func(*unstructured.Unstructured)
		policy func(*scaling.Policy)
		mode   scaling.Mode
		want   []string
	}{
		"as the README recommends":                                  {[]func(*unstructured.Unstructured){guarded}, nil, 0, nil},
		"KEDA's default of 300 s after the policy's cooldownPeriod": {nil, nil, 0, []string{objects.DoubledIdleDelay}},
		"KEDA's default of 300 s alone":                             {nil, idle, 0, nil},
		"both set": {
			[]func(*unstructured.Unstructured){set(int64(120), "spec", "cooldownPeriod")}, nil, 0, []string{objects.DoubledIdleDelay},
		},
		"KEDA's at zero": {
			[]func(*unstructured.Unstructured){set(int64(0), "spec", "cooldownPeriod")}, nil, 0, []string{objects.NoGuard},
		},
		"a minimum above zero": {
			[]func(*unstructured.Unstructured){set(int64(1), "spec", "minReplicaCount")}, nil, 0, nil,
		},
		"a fallback of 0 at minReplicaCount 0": {
			[]func(*unstructured.Unstructured){guarded, set(map[string]any{"replicas": int64(0)}, "spec", "fallback")}, nil, 0,
			[]string{objects.ZeroFallback},
		},
		"a fallback of 1": {
			[]func(*unstructured.Unstructured){guarded, set(map[string]any{"replicas": int64(1)}, "spec", "fallback")}, nil, 0, nil,
		},
		"a formula and a signal of type keda": {
			[]func(*unstructured.Unstructured){guarded, set(map[string]any{"formula": "a"}, "spec", "advanced", "scalingModifiers")},
			queue, 0, []string{objects.FormulaOverKEDA}},
		"a formula without such a signal": {
			[]func(*unstructured.Unstructured){guarded, set(map[string]any{"formula": "a"}, "spec", "advanced", "scalingModifiers")}, nil, 0, nil,
		},
		"a trigger for gpuscaler and an advisory policy": {
			[]func(*unstructured.Unstructured){guarded}, nil, scaling.Advisory, []string{objects.NotServed},
		},
		"an advisory policy without a trigger": {[]func(*unstructured.Unstructured){guarded, theirs}, nil, scaling.Advisory, nil},
		"cached metrics": {
			[]func(*unstructured.Unstructured){guarded, trigger("useCachedMetrics", true)}, nil, 0, []string{objects.CachedTrigger},
		},
		"a trigger that is polled": {
			[]func(*unstructured.Unstructured){guarded, trigger("type", "external")}, nil, 0, []string{objects.NoPush},
		},
	} {
		u := fixture.ScaledObject("chat", "chat")
		for _, change := range c.object {
			change(u)
		}
		work := fixture.Workload("chat")
		p := scaling.Policy{MaxReplicas: 8, CooldownPeriod: time.Minute}
		if c.policy != nil {
			c.policy(&p)
		}
		work.Policy, work.Mode = &p, c.mode
		o := fixture.Must[*ScaledObject](TrimScaledObject(u))
		found := objects.ScaledObject(o.Checks, NewPolicies(fixedPolicies{*work}).Index().ScaledObjectFacts(o))
		var got []string
		for _, f := range found {
			got = append(got, f.Check)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: found %v, want %v", name, found, c.want)
		}
		for _, f := range found {
			if f.What == "" || f.Fix == "" {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

func TestScaledObjectWithAFormulaOverTheTriggerIsManaged(t *testing.T) {
	u := fixture.ScaledObject("chat", "chat")
	if err := unstructured.SetNestedField(u.Object, "gpuscaler ?? (mirror / 10)", "spec", "advanced", "scalingModifiers",
		"formula"); err != nil {
		t.Fatal(err)
	}
	raw := fixture.HPA("keda-hpa-chat", "chat", "")
	raw.OwnerReferences = []metav1.OwnerReference{{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: "chat"}}
	raw.Spec.Metrics[0].External.Metric.Name = "composite-metric"
	w := New(0)
	w.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 3, "1"))))
	w.PutHPA(nil, fixture.Must[*HPA](TrimHPA(raw)))
	if v, _ := w.View(fixture.Workload("chat")); v.ManagedHPA.Kind != "" {
		t.Errorf("a formula without a trigger for gpuscaler: %+v", v.ManagedHPA)
	}
	w.PutScaledObject(nil, fixture.Must[*ScaledObject](TrimScaledObject(u)))
	if v, _ := w.View(fixture.Workload("chat")); v.ManagedHPA.Kind != ScaledObjectKind || !v.ManagedHPA.Exact {
		t.Errorf("managed HPA %+v", v.ManagedHPA)
	}
}

// fixedPolicies is a source of policies that do not change.
type fixedPolicies []scaling.Workload

func (p fixedPolicies) Current() []scaling.Workload { return p }
