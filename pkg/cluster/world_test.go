package cluster

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// everything is what informers would hand to a world that starts now.
type everything struct {
	targets map[string]*targetFacts
	pods    map[string]*podFacts
	hpas    map[string]*hpaFacts
}

func (e *everything) fresh() *world {
	w := newWorld()
	for _, p := range e.pods {
		w.putPod(p)
	}
	for _, h := range e.hpas {
		w.putHPA(nil, h)
	}
	for _, f := range e.targets {
		w.putTarget(f)
	}
	return w
}

// Whatever happens in whatever order, the views are those of a world that saw only the end.
func TestAWorldThatLivedThroughItAllEqualsOneThatSawOnlyTheEnd(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		lived, end := newWorld(), everything{map[string]*targetFacts{}, map[string]*podFacts{}, map[string]*hpaFacts{}}
		name := rapid.SampledFrom(names)
		for range rapid.IntRange(0, 40).Draw(t, "events") {
			n := name.Draw(t, "name")
			switch rapid.IntRange(0, 5).Draw(t, "event") {
			case 0: // a Deployment, whose selector may change under an empty cluster's eyes (deleted and made anew)
				d := deployment(n, int32(rapid.IntRange(0, 5).Draw(t, "replicas")), "1")
				d.Spec.Selector = drawSelector(t, names)
				end.targets[n] = must(trimDeployment(d)).(*targetFacts)
				lived.putTarget(end.targets[n])
			case 1:
				if f := end.targets[n]; f != nil {
					lived.dropTarget(f.ref)
					delete(end.targets, n)
				}
			case 2:
				state := rapid.SampledFrom([]string{"pending", "loading", "ready", "crashing", "terminating"}).Draw(t, "state")
				p := podOf(n, rapid.IntRange(0, 3).Draw(t, "n"), state)
				p.Labels["tier"] = name.Draw(t, "tier")
				end.pods[p.Name] = must(trimPod(p)).(*podFacts)
				lived.putPod(end.pods[p.Name])
			case 3:
				gone := fmt.Sprintf("%s-%d", n, rapid.IntRange(0, 3).Draw(t, "n"))
				lived.dropPod("team", gone)
				delete(end.pods, gone)
			case 4:
				h := must(trimHPA(exactHPA(n, name.Draw(t, "target"), name.Draw(t, "policy")))).(*hpaFacts)
				lived.putHPA(end.hpas[n], h)
				end.hpas[n] = h
			case 5:
				if h := end.hpas[n]; h != nil {
					lived.dropHPA(h)
					delete(end.hpas, n)
				}
			}
		}
		equal(t, names, lived, end.fresh())
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

func equal(t *rapid.T, names []string, lived, fresh *world) {
	for _, n := range names {
		got, gotOK := lived.view(workload(n))
		want, wantOK := fresh.view(workload(n))
		if gotOK != wantOK || got != want {
			t.Fatalf("%s: lived %+v %v, fresh %+v %v", n, got, gotOK, want, wantOK)
		}
		if gotOK && !reflect.DeepEqual(lived.podsOf(workload(n)), fresh.podsOf(workload(n))) {
			t.Fatalf("%s: lived %v, fresh %v", n, lived.podsOf(workload(n)), fresh.podsOf(workload(n)))
		}
	}
	if len(lived.targets) != len(fresh.targets) || len(lived.choose) != len(fresh.choose) {
		t.Fatalf("lived keeps %d targets and %d namespaces of selectors, fresh %d and %d",
			len(lived.targets), len(lived.choose), len(fresh.targets), len(fresh.choose))
	}
}

func TestASelectorIsFoundHoweverItIsWritten(t *testing.T) {
	pod := map[string]string{"app": "chat", "tier": "gpu", "zone": "b"}
	x := selectorIndex{}
	byText := map[string]*target{}
	for _, text := range []string{
		"app=chat", "app=other", "tier in (gpu,cpu)", "tier notin (gpu)", "zone", "!zone", "app=chat,tier=cpu", "app in (chat)", "",
	} {
		s, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		byText[text] = &target{}
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
		t.Error("a selector reached into another namespace")
	}
	for text, at := range byText {
		s, _ := labels.Parse(text)
		x.remove("team", s, at)
	}
	if len(x) != 0 {
		t.Errorf("left behind: %v", x)
	}
}

func TestATargetIsFoundWhateverVersionIsWritten(t *testing.T) {
	w := newWorld()
	w.putTarget(must(trimDeployment(deployment("chat", 3, "1"))).(*targetFacts))
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
		work := workload("chat")
		work.Target = c.target
		if _, ok := w.view(work); ok != c.found {
			t.Errorf("%+v: found %v", c.target, ok)
		}
	}
}

func TestNobodyFollowsAPolicyThatTheHPADoesNotName(t *testing.T) {
	w := newWorld()
	w.putTarget(must(trimDeployment(deployment("chat", 3, "1"))).(*targetFacts))
	w.putHPA(nil, must(trimHPA(exactHPA("chat", "chat", "another"))).(*hpaFacts))
	v, _ := w.view(workload("chat"))
	if v.ManagedHPA != (engine.ManagedHPA{}) || v.MaxReplicas != 40 {
		t.Errorf("follower %+v, max %d: the bounds stand, the follower does not", v.ManagedHPA, v.MaxReplicas)
	}
}

func TestOfTwoHPAsTheOneThatReadsUsIsTheFollowerAndIsNotExact(t *testing.T) {
	w := newWorld()
	w.putTarget(must(trimDeployment(deployment("chat", 3, "1"))).(*targetFacts))
	cpu := exactHPA("a-cpu", "chat", "chat")
	cpu.Spec.Metrics[0].External.Metric.Name = "queue"
	cpu.Spec.MaxReplicas = 7
	w.putHPA(nil, must(trimHPA(cpu)).(*hpaFacts))
	if v, _ := w.view(workload("chat")); v.ManagedHPA.Kind != "" || v.MaxReplicas != 7 {
		t.Errorf("view %+v: nobody reads us, but bounds stand", v)
	}
	w.putHPA(nil, must(trimHPA(exactHPA("b", "chat", "chat"))).(*hpaFacts))
	v, _ := w.view(workload("chat"))
	want := engine.ManagedHPA{Kind: kindHPA, Name: "b", Desired: 3, Why: "the same replicas are moved by HorizontalPodAutoscaler a-cpu"}
	if v.ManagedHPA != want || v.MaxReplicas != 40 {
		t.Errorf("follower %+v, want %+v", v.ManagedHPA, want)
	}
}

func TestATransformHandsBackWhatItMadeBefore(t *testing.T) {
	for _, made := range []any{
		must(trimPod(podOf("chat", 1, "ready"))), must(trimDeployment(deployment("chat", 1, "1"))),
		must(trimStatefulSet(&appsv1.StatefulSet{})), must(trimHPA(exactHPA("chat", "chat", "chat"))),
	} {
		for _, trim := range []func(any) (any, error){trimPod, trimDeployment, trimStatefulSet, trimHPA, trimLeaderWorkerSet, trimScalable, trimScaledObject} {
			if again, err := trim(made); err != nil || again != made {
				t.Errorf("%T became %T, %v", made, again, err)
			}
		}
	}
}

func TestAFollowerThatCannotReadUsOrReachOurMaximumIsNotExact(t *testing.T) {
	h := exactHPA("chat", "chat", "chat")
	for reason, why := range map[string]string{"FailedGetExternalMetric": "it holds: FailedGetExternalMetric", "ScalingDisabled": ""} {
		h.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScalingActive, Status: "False", Reason: reason}}
		w := newWorld()
		w.putTarget(must(trimDeployment(deployment("chat", 3, "1"))).(*targetFacts))
		w.putHPA(nil, must(trimHPA(h)).(*hpaFacts))
		if v, _ := w.view(workload("chat")); v.ManagedHPA.Why != why || v.ManagedHPA.Exact != (why == "") {
			t.Errorf("%s: %+v", reason, v.ManagedHPA)
		}
		greater := workload("chat")
		greater.Policy = &scaling.Policy{MaxReplicas: 41}
		if v, _ := w.view(greater); v.ManagedHPA.Exact || v.ManagedHPA.Why == "" {
			t.Errorf("%s: a maximum that it cannot reach: %+v", reason, v.ManagedHPA)
		}
	}
}
