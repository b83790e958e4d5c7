package cache

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// allObjects contains the current objects of the cluster, which informers would put into a new cache.
type allObjects struct {
	targets map[string]*Target
	pods    map[string]*Pod
	hpas    map[string]*HPA
}

func (e *allObjects) fresh() *Cache {
	w := New(0)
	for _, p := range e.pods {
		w.PutPod(p)
	}
	for _, h := range e.hpas {
		w.PutHPA(nil, h)
	}
	for _, f := range e.targets {
		w.PutTarget(f)
	}
	return w
}

// After any sequence of events, the views of a cache must equal the views of a cache that received only the final objects.
func TestCacheAfterManyEventsEqualsANewCache(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		changed, end := New(0), allObjects{map[string]*Target{}, map[string]*Pod{}, map[string]*HPA{}}
		name := rapid.SampledFrom(names)
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			n := name.Draw(t, "name")
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0: // a Deployment that was deleted and created again during an interrupted watch can have another selector
				d := fixture.Deployment(n, int32(rapid.IntRange(0, 5).Draw(t, "replicas")), "1")
				d.Spec.Selector = drawSelector(t, names)
				end.targets[n] = fixture.Must[*Target](TrimDeployment(d))
				changed.PutTarget(end.targets[n])
			case 1:
				if f := end.targets[n]; f != nil {
					changed.DropTarget(f.Ref)
					delete(end.targets, n)
				}
			case 2:
				state := rapid.SampledFrom([]string{"pending", "loading", "ready", "crashing", "terminating"}).Draw(t, "state")
				p := fixture.Pod(n, rapid.IntRange(0, 3).Draw(t, "n"), state)
				p.Labels["tier"] = name.Draw(t, "tier")
				end.pods[p.Name] = fixture.Must[*Pod](TrimPod(p))
				changed.PutPod(end.pods[p.Name])
			case 3:
				gone := fmt.Sprintf("%s-%d", n, rapid.IntRange(0, 3).Draw(t, "n"))
				changed.DropPod("team", gone)
				delete(end.pods, gone)
			case 4:
				h := fixture.Must[*HPA](TrimHPA(fixture.HPA(n, name.Draw(t, "target"), name.Draw(t, "policy"))))
				changed.PutHPA(end.hpas[n], h)
				end.hpas[n] = h
			case 5:
				if h := end.hpas[n]; h != nil {
					changed.DropHPA(h)
					delete(end.hpas, n)
				}
			}
		}
		equal(t, names, changed, end.fresh())
	})
}

func drawSelector(t *rapid.T, names []string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	if rapid.Bool().Draw(t, "by app") {
		s.MatchLabels = map[string]string{"app": rapid.SampledFrom(names).Draw(t, "app")}
	}
	if rapid.Bool().Draw(t, "by tiers") {
		s.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpIn, Values: names[:2]}}
	}
	return s
}

func equal(t *rapid.T, names []string, changed, fresh *Cache) {
	for _, n := range names {
		got, gotOK := changed.View(fixture.Workload(n))
		want, wantOK := fresh.View(fixture.Workload(n))
		if gotOK != wantOK || got != want {
			t.Fatalf("%s: after many events %+v %v, new %+v %v", n, got, gotOK, want, wantOK)
		}
		if gotOK && !reflect.DeepEqual(changed.Pods(fixture.Workload(n)), fresh.Pods(fixture.Workload(n))) {
			t.Fatalf("%s: after many events %v, new %v", n, changed.Pods(fixture.Workload(n)), fresh.Pods(fixture.Workload(n)))
		}
	}
	if len(changed.entries) != len(fresh.entries) || len(changed.index) != len(fresh.index) {
		t.Fatalf("after many events the cache has %d targets and %d namespaces of selectors, a new one %d and %d",
			len(changed.entries), len(changed.index), len(fresh.entries), len(fresh.index))
	}
}

func TestSelectorIndexFindsEverySelectorThatMatches(t *testing.T) {
	pod := map[string]string{"app": "chat", "tier": "gpu", "zone": "b"}
	x := selectorIndex{}
	byText := map[string]*entry{}
	for _, text := range []string{
		"app=chat", "app=other", "tier in (gpu,cpu)", "tier notin (gpu)", "zone", "!zone", "app=chat,tier=cpu", "app in (chat)", "",
	} {
		s, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		byText[text] = &entry{}
		x.add("team", s, byText[text])
	}
	found := x.matching("team", pod)
	for text, at := range byText {
		s, _ := labels.Parse(text)
		if got, want := slices.Contains(found, at), s.Matches(labels.Set(pod)); got != want {
			t.Errorf("%q: found %v, matches %v", text, got, want)
		}
	}
	if others := x.matching("other-team", pod); len(others) > 0 {
		t.Error("a selector matched a pod of another namespace")
	}
	for text, at := range byText {
		s, _ := labels.Parse(text)
		x.remove("team", s, at)
	}
	if len(x) != 0 {
		t.Errorf("not removed: %v", x)
	}
}

func TestTargetIsFoundWithAnyAPIVersion(t *testing.T) {
	w := New(0)
	w.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 3, "1"))))
	for _, c := range []struct {
		target scaling.Target
		found  bool
	}{
		{scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "chat"}, true},
		{scaling.Target{APIVersion: "apps/v1beta2", Kind: "Deployment", Name: "chat"}, true},
		{scaling.Target{Name: "chat"}, true},
		{scaling.Target{APIVersion: "v1", Kind: "Deployment", Name: "chat"}, false},
		{scaling.Target{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "chat"}, false},
		{scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "chat2"}, false},
	} {
		work := fixture.Workload("chat")
		work.Target = c.target
		if _, ok := w.View(work); ok != c.found {
			t.Errorf("%+v: found %v", c.target, ok)
		}
	}
}

func TestHPAThatSelectsAnotherPolicyIsNotTheManagedHPA(t *testing.T) {
	w := New(0)
	w.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 3, "1"))))
	w.PutHPA(nil, fixture.Must[*HPA](TrimHPA(fixture.HPA("chat", "chat", "another"))))
	v, _ := w.View(fixture.Workload("chat"))
	if v.ManagedHPA != (engine.ManagedHPA{}) || v.MaxReplicas != 40 {
		t.Errorf("managed HPA %+v, want none; maxReplicas %d, want 40", v.ManagedHPA, v.MaxReplicas)
	}
}

func TestOfTwoHPAsTheOneThatReadsTheTargetIsManagedAndNotExact(t *testing.T) {
	w := New(0)
	w.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 3, "1"))))
	cpu := fixture.HPA("a-cpu", "chat", "chat")
	cpu.Spec.Metrics[0].External.Metric.Name = "queue"
	cpu.Spec.MaxReplicas = 7
	w.PutHPA(nil, fixture.Must[*HPA](TrimHPA(cpu)))
	if v, _ := w.View(fixture.Workload("chat")); v.ManagedHPA.Kind != "" || v.MaxReplicas != 7 {
		t.Errorf("view %+v: no HPA reads the target, and the bounds are the HPA's", v)
	}
	w.PutHPA(nil, fixture.Must[*HPA](TrimHPA(fixture.HPA("b", "chat", "chat"))))
	v, _ := w.View(fixture.Workload("chat"))
	want := engine.ManagedHPA{Kind: HPAKind, Name: "b", Desired: 3, Why: "the same workload is scaled by HorizontalPodAutoscaler a-cpu"}
	if v.ManagedHPA != want || v.MaxReplicas != 40 {
		t.Errorf("managed HPA %+v, want %+v", v.ManagedHPA, want)
	}
}

func TestTransformReturnsItsOwnResultUnchanged(t *testing.T) {
	for _, made := range []any{
		fixture.Must[any](TrimPod(fixture.Pod("chat", 1, "ready"))), fixture.Must[any](TrimDeployment(fixture.Deployment("chat", 1, "1"))),
		fixture.Must[any](TrimStatefulSet(&appsv1.StatefulSet{})), fixture.Must[any](TrimHPA(fixture.HPA("chat", "chat", "chat"))),
	} {
		for _, trim := range []func(any) (any, error){TrimPod, TrimDeployment, TrimStatefulSet, TrimHPA, TrimLeaderWorkerSet,
			ScaleKind{}.Trim, TrimScaledObject} {
			if again, err := trim(made); err != nil || again != made {
				t.Errorf("%T became %T, %v", made, again, err)
			}
		}
	}
}

func TestHPAThatCannotReadTheMetricOrReachTheMaximumIsNotExact(t *testing.T) {
	h := fixture.HPA("chat", "chat", "chat")
	for reason, why := range map[string]string{"FailedGetExternalMetric": "it holds: FailedGetExternalMetric", "ScalingDisabled": ""} {
		h.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScalingActive,
			Status: "False", Reason: reason}}
		w := New(0)
		w.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 3, "1"))))
		w.PutHPA(nil, fixture.Must[*HPA](TrimHPA(h)))
		if v, _ := w.View(fixture.Workload("chat")); v.ManagedHPA.Why != why || v.ManagedHPA.Exact != (why == "") {
			t.Errorf("%s: %+v", reason, v.ManagedHPA)
		}
		greater := fixture.Workload("chat")
		greater.Policy = &scaling.Policy{MaxReplicas: 41}
		if v, _ := w.View(greater); v.ManagedHPA.Exact || v.ManagedHPA.Why == "" {
			t.Errorf("%s: a policy maximum above the HPA's: %+v", reason, v.ManagedHPA)
		}
	}
}

// An HPA with minReplicas 0 that scales a workload to zero sets the condition ScaledToZero on itself and stays active. If a user scales the
// workload to zero, the HPA is inactive until the user scales the workload up.
func TestHPAWithMinReplicasZeroIsDisabledIfAUserScalesToZero(t *testing.T) {
	h := fixture.HPA("chat", "chat", "chat")
	h.Spec.MinReplicas = new(int32)
	w := New(0)
	w.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 0, "1"))))
	for _, c := range []struct {
		active corev1.ConditionStatus
		reason string
		why    string
	}{
		{"True", "ValidMetricFound", ""},
		{"False", "ScalingDisabled", "it is disabled, because another client scaled Deployment chat to 0 replicas; " +
			"to enable it: kubectl -n team scale deployment chat --replicas=1"},
	} {
		h.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScalingActive, Status: c.active,
			Reason: c.reason}}
		w.PutHPA(nil, fixture.Must[*HPA](TrimHPA(h)))
		if v, _ := w.View(fixture.Workload("chat")); v.ManagedHPA.Why != c.why {
			t.Errorf("ScalingActive is %s (%s): %+v, want %q", c.active, c.reason, v.ManagedHPA, c.why)
		}
	}
}
