package cluster

import (
	"slices"
	"strings"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func TestWhatKEDADoesNotDoTheNumberDoesNotAsk(t *testing.T) {
	until := time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)
	override := func(least, most int32) scaling.Operator { return scaling.Operator{Min: least, Max: most, Until: until} }
	lasting := func(least, most int32) scaling.Operator {
		return scaling.Operator{Min: least, Max: most, Until: endless}
	}
	frozen := scaling.Operator{Paused: true, Min: -1, Max: -1}
	for name, c := range map[string]struct {
		annotations map[string]string
		said        scaling.Operator
		want        scaling.Operator
	}{
		"nothing is said": {nil, scaling.NoOperator, scaling.NoOperator},
		"paused":          {map[string]string{kedaPaused: "true"}, scaling.NoOperator, frozen},
		"paused: false":   {map[string]string{kedaPaused: "false"}, scaling.NoOperator, scaling.NoOperator},
		"paused-replicas wins over paused: false":   {map[string]string{kedaPaused: "false", kedaPausedReplicas: "2"}, scaling.NoOperator, frozen},
		"scale-in: a floor at what there is":        {map[string]string{kedaPausedScaleIn: "true"}, scaling.NoOperator, lasting(5, -1)},
		"scale-in and an override above":            {map[string]string{kedaPausedScaleIn: "true"}, override(9, -1), override(9, -1)},
		"scale-in and an override below":            {map[string]string{kedaPausedScaleIn: "true"}, override(2, -1), lasting(5, -1)},
		"scale-out: a ceiling at what there is":     {map[string]string{kedaPausedScaleOut: "yes"}, scaling.NoOperator, lasting(-1, 5)},
		"scale-out and an override below":           {map[string]string{kedaPausedScaleOut: "true"}, override(-1, 3), override(-1, 3)},
		"both: it stays":                            {map[string]string{kedaPausedScaleIn: "true", kedaPausedScaleOut: "true"}, scaling.NoOperator, frozen},
		"scale-out and a pause of ours":             {map[string]string{kedaPausedScaleOut: "true"}, frozen, scaling.Operator{Paused: true, Min: -1, Max: 5, Until: endless}},
		"force-activation is KEDA's business alone": {map[string]string{kedaForceActivation: "true"}, scaling.NoOperator, scaling.NoOperator},
	} {
		p := readPause(c.annotations, nil)
		if got, by := p.over(c.said, "", 5); got != c.want || (got != c.said && by == "") {
			t.Errorf("%s: %+v by %q, want %+v", name, got, by, c.want)
		}
	}
}

func TestADirectionThatKEDATurnedOffIsExplainedAndNoMistake(t *testing.T) {
	u := scaledObject("chat", "chat")
	u.SetAnnotations(map[string]string{kedaPausedScaleIn: "true"})
	w := newWorld()
	w.putTarget(must(trimDeployment(deployment("chat", 3, "1"))).(*targetFacts))
	w.putScaledObject(nil, must(trimScaledObject(u)).(*scaledObjectFacts))
	h := kedaHPA("keda-hpa-chat", "chat", "chat")
	h.spec.Behavior.ScaleDown.SelectPolicy = ptr(autoscalingv2.DisabledPolicySelect) // KEDA does that
	w.putHPA(nil, h)
	if v, _ := w.view(workload("chat")); v.ManagedHPA.Exact || v.ManagedHPA.Why != "KEDA does not scale in: "+kedaPausedScaleIn {
		t.Errorf("follower %+v", v.ManagedHPA)
	}
	for _, r := range w.readers() {
		if found := Lint(r.hpa.object(), r.facts); len(found) > 0 {
			t.Errorf("found %v", found)
		}
	}
}

func TestWhatAScaledObjectDoesWrongIsFound(t *testing.T) {
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
		"as our manifests are":                      {[]func(*unstructured.Unstructured){guarded}, nil, 0, nil},
		"KEDA's own 300 s after the policy's delay": {nil, nil, 0, []string{DoubledIdleDelay}},
		"KEDA's own 300 s alone":                    {nil, idle, 0, nil},
		"both set":                                  {[]func(*unstructured.Unstructured){set(int64(120), "spec", "cooldownPeriod")}, nil, 0, []string{DoubledIdleDelay}},
		"KEDA's at zero":                            {[]func(*unstructured.Unstructured){set(int64(0), "spec", "cooldownPeriod")}, nil, 0, []string{NoGuard}},
		"a minimum above zero never waits for it":   {[]func(*unstructured.Unstructured){set(int64(1), "spec", "minReplicaCount")}, nil, 0, nil},
		"a fallback of 0 at minReplicaCount 0":      {[]func(*unstructured.Unstructured){guarded, set(map[string]any{"replicas": int64(0)}, "spec", "fallback")}, nil, 0, []string{ZeroFallback}},
		"a fallback of 1":                           {[]func(*unstructured.Unstructured){guarded, set(map[string]any{"replicas": int64(1)}, "spec", "fallback")}, nil, 0, nil},
		"a formula over a queue that we read": {[]func(*unstructured.Unstructured){guarded, set(map[string]any{"formula": "a"}, "spec", "advanced", "scalingModifiers")},
			queue, 0, []string{FormulaOverKEDA}},
		"a formula without one":                {[]func(*unstructured.Unstructured){guarded, set(map[string]any{"formula": "a"}, "spec", "advanced", "scalingModifiers")}, nil, 0, nil},
		"our trigger on an advisory policy":    {[]func(*unstructured.Unstructured){guarded}, nil, scaling.Advisory, []string{NotServed}},
		"an advisory policy without a trigger": {[]func(*unstructured.Unstructured){guarded, theirs}, nil, scaling.Advisory, nil},
		"cached metrics":                       {[]func(*unstructured.Unstructured){guarded, trigger("useCachedMetrics", true)}, nil, 0, []string{CachedTrigger}},
		"a trigger that is polled":             {[]func(*unstructured.Unstructured){guarded, trigger("type", "external")}, nil, 0, []string{NoPush}},
	} {
		u := scaledObject("chat", "chat")
		for _, change := range c.object {
			change(u)
		}
		work := workload("chat")
		p := scaling.Policy{MaxReplicas: 8, CooldownPeriod: time.Minute}
		if c.policy != nil {
			c.policy(&p)
		}
		work.Policy, work.Mode = &p, c.mode
		d := still(Options{Policies: fixed{*work}}).deciders()
		found := lintScaledObject(must(trimScaledObject(u)).(*scaledObjectFacts), d)
		if got := whats(found); !slices.Equal(got, c.want) {
			t.Errorf("%s: found %v, want %v", name, found, c.want)
		}
		for _, f := range found {
			if f.Why == "" || f.Fix == "" {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

func TestWhatOfKEDAsWeMayWriteIsReadAndWhatWeWroteIsFound(t *testing.T) {
	managed := []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: fieldsOf(kedaPausedScaleIn)},
		{Manager: fieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: fieldsOf(kedaForceActivation)},
	}
	m := readManage(map[string]string{"gpuscaler.io/manage-keda": "activation, hold"}, managed)
	if !m.activation || !m.hold || m.problem != "" || !slices.Equal(m.ours, []string{kedaForceActivation}) {
		t.Errorf("%+v", m)
	}
	for _, text := range []string{"everything", "activation hold", ""} {
		if m := readManage(map[string]string{"gpuscaler.io/manage-keda": text}, nil); !strings.Contains(m.problem, "want activation, hold") {
			t.Errorf("%q: %+v", text, m)
		}
	}
	if m := readManage(nil, nil); m.problem != "" || m.activation || m.ours != nil {
		t.Errorf("%+v", m)
	}
}

func fieldsOf(annotation string) *metav1.FieldsV1 {
	return metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + annotation + `":{}}}}`)
}

func TestKEDAsAnnotationsStandWhileTheyAreWantedAndNoLonger(t *testing.T) {
	for name, c := range map[string]struct {
		manage string
		number any // what is served, or why nothing is
		paused bool
		ours   []string
		mode   scaling.Mode
		want   []string
		known  bool
	}{
		"a floor of the morning":                   {"activation", 2, false, nil, 0, []string{kedaForceActivation}, true},
		"nothing is wanted":                        {"activation", 0, false, []string{kedaForceActivation}, 0, nil, true},
		"not allowed":                              {"hold", 2, false, nil, 0, nil, true},
		"held":                                     {"activation,hold", engine.ErrHeld, false, nil, 0, []string{kedaPausedScaleIn}, true},
		"held while activated":                     {"activation", engine.ErrHeld, false, []string{kedaForceActivation}, 0, []string{kedaForceActivation}, true},
		"paused with our annotation":               {"hold", 2, true, nil, 0, []string{kedaPausedScaleIn}, true},
		"advisory: taken back":                     {"activation", engine.ErrAdvisory, false, []string{kedaForceActivation}, scaling.Advisory, nil, true},
		"a new leader knows nothing yet":           {"activation", engine.ErrUndecided, false, []string{kedaForceActivation}, 0, nil, false},
		"the permission is gone: it is taken back": {"", 2, false, []string{kedaForceActivation}, 0, nil, true},
	} {
		work := workload("chat")
		work.Mode = c.mode
		cl := still(Options{Policies: fixed{*work}})
		cl.Activate(served{"chat": c.number})
		u := scaledObject("chat", "chat")
		annotations := map[string]string{}
		if c.manage != "" {
			annotations["gpuscaler.io/manage-keda"] = c.manage
		}
		if c.paused {
			annotations["gpuscaler.io/paused"] = "true"
		}
		u.SetAnnotations(annotations)
		s := must(trimScaledObject(u)).(*scaledObjectFacts)
		s.manage.ours = c.ours
		cl.world.putScaledObject(nil, s)
		m := &managing{cluster: cl, failed: map[ref]failure{}}
		want, known := m.wants(s, cl.deciders(), time.Now())
		if !slices.Equal(want, c.want) || known != c.known {
			t.Errorf("%s: %v, known %t; want %v, %t", name, want, known, c.want, c.known)
		}
	}
	gone := still(Options{Policies: fixed{}})
	s := must(trimScaledObject(scaledObject("chat", "chat"))).(*scaledObjectFacts)
	if want, known := (&managing{cluster: gone}).wants(s, gone.deciders(), time.Now()); want != nil || !known {
		t.Errorf("without its policy: %v, %t", want, known)
	}
}

// KEDA's own queue trigger beside ours is the mirror that raises while we are away; CPU beside ours is a second opinion.
func TestAMirrorBesideOurTriggerIsNoMistakeAndCPUIs(t *testing.T) {
	h := exactHPA("keda-hpa-chat", "chat", "")
	h.Spec.Metrics[0].External.Metric.Name = "s0-" + DesiredReplicasMetric
	h.Spec.Metrics = append(h.Spec.Metrics, autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType,
		External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "s1-redis-jobs"}}})
	if found := Lint(h, Facts{ScaledObject: "chat"}); found != nil {
		t.Errorf("a mirror: %v", found)
	}
	h.Spec.Metrics = append(h.Spec.Metrics, autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType})
	if got := whats(Lint(h, Facts{ScaledObject: "chat"})); !slices.Equal(got, []string{OtherMetrics}) {
		t.Errorf("CPU: %v", got)
	}
}

func TestAFormulaWithOurTriggerFollowsUs(t *testing.T) {
	u := scaledObject("chat", "chat")
	if err := unstructured.SetNestedField(u.Object, "gpuscaler ?? (mirror / 10)", "spec", "advanced", "scalingModifiers", "formula"); err != nil {
		t.Fatal(err)
	}
	raw := exactHPA("keda-hpa-chat", "chat", "")
	raw.OwnerReferences = []metav1.OwnerReference{{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: "chat"}}
	raw.Spec.Metrics[0].External.Metric.Name = compositeMetric
	w := newWorld()
	w.putTarget(must(trimDeployment(deployment("chat", 3, "1"))).(*targetFacts))
	w.putHPA(nil, must(trimHPA(raw)).(*hpaFacts))
	if v, _ := w.view(workload("chat")); v.ManagedHPA.Kind != "" {
		t.Errorf("a formula of somebody else's: %+v", v.ManagedHPA)
	}
	w.putScaledObject(nil, must(trimScaledObject(u)).(*scaledObjectFacts))
	if v, _ := w.view(workload("chat")); v.ManagedHPA.Kind != kindScaledObject || !v.ManagedHPA.Exact {
		t.Errorf("follower %+v", v.ManagedHPA)
	}
}
