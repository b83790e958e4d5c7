package objects_test

import (
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
)

type hpa = autoscalingv2.HorizontalPodAutoscaler

// checks returns the names of the checks in the findings, in the same order.
func checks(found []objects.Finding) (names []string) {
	for _, f := range found {
		names = append(names, f.Check)
	}
	return names
}

func TestRecommendedHPAHasNoFinding(t *testing.T) {
	if found := objects.HPA(fixture.HPA("chat", "chat", "chat"), objects.HPAFacts{Minor: 36}); found != nil {
		t.Errorf("found %v", found)
	}
}

func TestHPAWithoutTheMetricIsNotChecked(t *testing.T) {
	h := fixture.HPA("chat", "chat", "chat")
	h.Spec.Metrics[0].External.Metric.Name = "queue-depth"
	h.Spec.Behavior = nil
	if found := objects.HPA(h, objects.HPAFacts{Others: []string{"HorizontalPodAutoscaler b"}}); found != nil {
		t.Errorf("found %v", found)
	}
}

func TestChecksOfHPAs(t *testing.T) {
	known := func(p *objects.PolicyFacts, deciders ...string) objects.HPAFacts {
		return objects.HPAFacts{PoliciesKnown: true, Policy: p, Deciders: deciders}
	}
	agrees := &objects.PolicyFacts{SameTarget: true, MinReplicas: 0, MaxReplicas: 40}
	external := func(h *hpa) *autoscalingv2.ExternalMetricSource { return h.Spec.Metrics[0].External }
	for name, c := range map[string]struct {
		change func(h *hpa)
		facts  objects.HPAFacts
		want   []string
	}{
		"both agree":                   {nil, known(agrees, "chat"), nil},
		"no selector":                  {func(h *hpa) { external(h).Metric.Selector = nil }, objects.HPAFacts{}, []string{objects.NoSelector}},
		"a policy that does not exist": {nil, known(nil), []string{objects.UnknownPolicy}},
		"a policy with another target": {nil, known(&objects.PolicyFacts{MaxReplicas: 40}), []string{objects.OtherTarget}},
		"two policies":                 {nil, known(agrees, "a", "b"), []string{objects.TwoPolicies}},
		"two owners":                   {nil, objects.HPAFacts{Others: []string{"ScaledObject s"}}, []string{objects.TwoOwners}},
		"type Value": {func(h *hpa) {
			external(h).Target = autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: fixture.Ptr(resource.MustParse("1"))}
		}, objects.HPAFacts{}, []string{objects.TypeValue}},
		"averageValue 1000m is 1": {func(h *hpa) {
			external(h).Target.AverageValue = fixture.Ptr(resource.MustParse("1000m"))
		}, objects.HPAFacts{}, nil},
		"averageValue 10": {func(h *hpa) {
			external(h).Target.AverageValue = fixture.Ptr(resource.MustParse("10"))
		}, objects.HPAFacts{}, []string{objects.WrongAverage}},
		"an additional CPU metric": {func(h *hpa) {
			h.Spec.Metrics = append(h.Spec.Metrics, autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType})
		}, objects.HPAFacts{}, []string{objects.OtherMetrics}},
		"maxReplicas below the policy's": {func(h *hpa) { h.Spec.MaxReplicas = 20 }, known(agrees, "chat"), []string{objects.Bounds}},
		"minReplicas above the policy's": {func(h *hpa) { h.Spec.MinReplicas = fixture.Ptr(int32(3)) }, known(agrees, "chat"),
			[]string{objects.Bounds}},
		"minReplicas 1 and a policy with 0": {func(h *hpa) { h.Spec.MinReplicas = fixture.Ptr(int32(1)) }, known(agrees, "chat"), nil},
		"no behavior": {func(h *hpa) { h.Spec.Behavior = nil }, objects.HPAFacts{},
			[]string{objects.Tolerance, objects.Tolerance, objects.StabilizationWindow, objects.Rates}},
		"tolerance unset": {func(h *hpa) {
			h.Spec.Behavior.ScaleUp.Tolerance, h.Spec.Behavior.ScaleDown.Tolerance = nil, nil
		}, objects.HPAFacts{},
			[]string{objects.Tolerance, objects.Tolerance}},
		"a window of 300 s, as by default": {func(h *hpa) {
			h.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = nil
		}, objects.HPAFacts{}, []string{objects.StabilizationWindow}},
		"a window of scaleUp": {func(h *hpa) {
			h.Spec.Behavior.ScaleUp.StabilizationWindowSeconds = fixture.Ptr(int32(60))
		}, objects.HPAFacts{}, []string{objects.StabilizationWindow}},
		"scaleDown disabled": {func(h *hpa) {
			h.Spec.Behavior.ScaleDown.SelectPolicy = fixture.Ptr(autoscalingv2.DisabledPolicySelect)
		}, objects.HPAFacts{},
			[]string{objects.SelectPolicyDisabled}},
		"one pod a minute": {func(h *hpa) {
			h.Spec.Behavior.ScaleDown.Policies[0] = autoscalingv2.HPAScalingPolicy{Type: "Pods", Value: 1, PeriodSeconds: 60}
		},
			objects.HPAFacts{}, []string{objects.Rates}},
		"scaleUp doubles at most": {func(h *hpa) {
			h.Spec.Behavior.ScaleUp.Policies[0] = autoscalingv2.HPAScalingPolicy{Type: "Percent", Value: 100, PeriodSeconds: 15}
		}, objects.HPAFacts{}, []string{objects.Rates}},
		"the least of an unlimited and a limited rate": {func(h *hpa) {
			r := h.Spec.Behavior.ScaleUp
			r.Policies = append(r.Policies, autoscalingv2.HPAScalingPolicy{Type: "Pods", Value: 1, PeriodSeconds: 60})
			r.SelectPolicy = fixture.Ptr(autoscalingv2.MinChangePolicySelect)
		}, objects.HPAFacts{}, []string{objects.Rates}},
		"the greatest of an unlimited and a limited rate": {func(h *hpa) {
			r := h.Spec.Behavior.ScaleUp
			r.Policies = append(r.Policies, autoscalingv2.HPAScalingPolicy{Type: "Pods", Value: 1, PeriodSeconds: 60})
		}, objects.HPAFacts{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := fixture.HPA("chat", "chat", "chat")
			if c.change != nil {
				c.change(h)
			}
			found := objects.HPA(h, c.facts)
			if got := checks(found); !slices.Equal(got, c.want) {
				t.Errorf("found %v, want %v", found, c.want)
			}
			for _, f := range found {
				if f.What == "" || f.Fix == "" {
					t.Errorf("%s lacks what is wrong or what to do: %+v", f.Check, f)
				}
			}
		})
	}
}

// An HPA with the default tolerance of 0.1 ignores a change of one replica only if it has about ten replicas or more. The check must not
// report an HPA with a lower maxReplicas.
func TestToleranceIsFoundOnlyIfItIgnoresAChangeOfOne(t *testing.T) {
	for _, c := range []struct {
		most int32
		want int
	}{{8, 0}, {9, 1}, {10, 1}, {11, 2}} {
		h := fixture.HPA("chat", "chat", "chat")
		h.Spec.MaxReplicas = c.most
		h.Spec.Behavior.ScaleUp.Tolerance, h.Spec.Behavior.ScaleDown.Tolerance = nil, nil
		if found := objects.HPA(h, objects.HPAFacts{}); len(found) != c.want {
			t.Errorf("maxReplicas %d: found %v, want %d", c.most, found, c.want)
		}
	}
}

func TestFixOfToleranceDependsOnTheKubernetesVersion(t *testing.T) {
	h := fixture.HPA("chat", "chat", "chat")
	h.Spec.Behavior.ScaleUp.Tolerance = nil
	for minor, want := range map[int]string{
		0: `tolerance: "0"`, 36: `tolerance: "0"`, 34: "feature gate HPAConfigurableTolerance", 31: "--horizontal-pod-autoscaler-tolerance",
	} {
		found := objects.HPA(h, objects.HPAFacts{Minor: minor})
		if len(found) != 1 || !strings.Contains(found[0].Fix, want) {
			t.Errorf("1.%d: %v, want %q", minor, found, want)
		}
	}
}

func TestFixOfAKEDAHPANamesTheScaledObject(t *testing.T) {
	h := fixture.HPA("keda-hpa-chat", "chat", "")
	external := h.Spec.Metrics[0].External
	external.Metric.Name = "s0-" + objects.DesiredReplicasMetric
	external.Metric.Selector.MatchLabels = map[string]string{"scaledobject.keda.sh/name": "chat"}
	h.Spec.Behavior.ScaleUp.Tolerance = nil
	found := objects.HPA(h, objects.HPAFacts{ScaledObject: "chat"})
	if len(found) != 1 || !strings.Contains(found[0].Fix, "ScaledObject chat: spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleUp") {
		t.Errorf("found %v", found)
	}
}

func TestTargetMetricHasOptionallyKEDAsPrefix(t *testing.T) {
	for name, want := range map[string]bool{
		"gpuscaler-desired-replicas": true, "s0-gpuscaler-desired-replicas": true, "s12-gpuscaler-desired-replicas": true,
		"s-gpuscaler-desired-replicas": false, "sx-gpuscaler-desired-replicas": false, "my-gpuscaler-desired-replicas": false,
		"gpuscaler-desired-replicas-2": false, "": false,
	} {
		if got := objects.IsTargetMetric(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// In the HPA of a ScaledObject, an external trigger in addition to the target metric must be accepted, because it scales out while
// gpuscaler is not available. A CPU metric must be reported, because with it the HPA can scale above the target.
func TestOtherExternalTriggerIsAcceptedAndCPUIsNot(t *testing.T) {
	h := fixture.HPA("keda-hpa-chat", "chat", "")
	h.Spec.Metrics[0].External.Metric.Name = "s0-" + objects.DesiredReplicasMetric
	h.Spec.Metrics = append(h.Spec.Metrics, autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType,
		External: &autoscalingv2.ExternalMetricSource{Metric: autoscalingv2.MetricIdentifier{Name: "s1-redis-jobs"}}})
	if found := objects.HPA(h, objects.HPAFacts{ScaledObject: "chat"}); found != nil {
		t.Errorf("another external trigger: %v", found)
	}
	h.Spec.Metrics = append(h.Spec.Metrics, autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType})
	if got := checks(objects.HPA(h, objects.HPAFacts{ScaledObject: "chat"})); !slices.Equal(got, []string{objects.OtherMetrics}) {
		t.Errorf("CPU: %v", got)
	}
}

// For every check, there must be a text about the effect on the workload.
func TestEachCheckHasAConsequence(t *testing.T) {
	for _, check := range []string{
		objects.NoSelector, objects.UnknownPolicy, objects.OtherTarget, objects.TypeValue, objects.WrongAverage, objects.OtherMetrics,
		objects.Tolerance, objects.StabilizationWindow, objects.Rates, objects.SelectPolicyDisabled, objects.Bounds, objects.TwoOwners,
		objects.TwoPolicies, objects.NotServed, objects.DoubledIdleDelay, objects.ZeroFallback, objects.FormulaOverKEDA,
		objects.CachedTrigger, objects.NoPush, objects.CannotReachZero, objects.NoFallback, objects.NodePoolMissing, objects.NoTaint,
		objects.SpotIsNotFirst, objects.UnreadablePool, objects.FallbackScalesDown, objects.ExternalMetricsTaken,
		objects.ExternalMetricsUnavailable, objects.OldKubernetes, objects.OldKEDA, objects.OldKarpenter,
	} {
		if objects.Consequence(check) == objects.Consequence("") {
			t.Errorf("%s has none", check)
		}
	}
}
