package cluster

import (
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

type hpa = autoscalingv2.HorizontalPodAutoscaler

// whats are the findings' names, in order.
func whats(found []Finding) (names []string) {
	for _, f := range found {
		names = append(names, f.What)
	}
	return names
}

func TestTheRecommendedHPAFollowsEveryStep(t *testing.T) {
	if found := Lint(exactHPA("chat", "chat", "chat"), Facts{Minor: 36}); found != nil {
		t.Errorf("found %v", found)
	}
}

func TestAnHPAThatDoesNotReadOurMetricIsNobodysBusiness(t *testing.T) {
	h := exactHPA("chat", "chat", "chat")
	h.Spec.Metrics[0].External.Metric.Name = "queue-depth"
	h.Spec.Behavior = nil
	if found := Lint(h, Facts{Others: []string{"HorizontalPodAutoscaler b"}}); found != nil {
		t.Errorf("found %v", found)
	}
}

func TestEachWayNotToFollowIsFound(t *testing.T) {
	known := func(p *PolicyFacts, deciders ...string) Facts {
		return Facts{PoliciesKnown: true, Policy: p, Deciders: deciders}
	}
	agrees := &PolicyFacts{SameTarget: true, MinReplicas: 0, MaxReplicas: 40}
	external := func(h *hpa) *autoscalingv2.ExternalMetricSource { return h.Spec.Metrics[0].External }
	for name, c := range map[string]struct {
		change func(h *hpa)
		facts  Facts
		want   []string
	}{
		"both agree":                   {nil, known(agrees, "chat"), nil},
		"no selector":                  {func(h *hpa) { external(h).Metric.Selector = nil }, Facts{}, []string{NoSelector}},
		"a policy that is not there":   {nil, known(nil), []string{UnknownPolicy}},
		"a policy of another workload": {nil, known(&PolicyFacts{MaxReplicas: 40}), []string{OtherTarget}},
		"two policies":                 {nil, known(agrees, "a", "b"), []string{TwoPolicies}},
		"two owners":                   {nil, Facts{Others: []string{"ScaledObject s"}}, []string{TwoOwners}},
		"type Value": {func(h *hpa) {
			external(h).Target = autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: ptr(resource.MustParse("1"))}
		}, Facts{}, []string{TypeValue}},
		"averageValue 1000m is 1": {func(h *hpa) { external(h).Target.AverageValue = ptr(resource.MustParse("1000m")) }, Facts{}, nil},
		"averageValue 10":         {func(h *hpa) { external(h).Target.AverageValue = ptr(resource.MustParse("10")) }, Facts{}, []string{WrongAverage}},
		"a CPU metric beside ours": {func(h *hpa) {
			h.Spec.Metrics = append(h.Spec.Metrics, autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType})
		}, Facts{}, []string{OtherMetrics}},
		"maxReplicas below the policy's":            {func(h *hpa) { h.Spec.MaxReplicas = 20 }, known(agrees, "chat"), []string{Bounds}},
		"minReplicas above the policy's":            {func(h *hpa) { h.Spec.MinReplicas = ptr(int32(3)) }, known(agrees, "chat"), []string{Bounds}},
		"minReplicas 1 over a policy that has zero": {func(h *hpa) { h.Spec.MinReplicas = ptr(int32(1)) }, known(agrees, "chat"), nil},
		"no behavior at all": {func(h *hpa) { h.Spec.Behavior = nil }, Facts{},
			[]string{Tolerance, Tolerance, Window, Rates}},
		"tolerance unset": {func(h *hpa) { h.Spec.Behavior.ScaleUp.Tolerance, h.Spec.Behavior.ScaleDown.Tolerance = nil, nil }, Facts{},
			[]string{Tolerance, Tolerance}},
		"a window of 300 s, as by default": {func(h *hpa) { h.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = nil }, Facts{}, []string{Window}},
		"a window upwards":                 {func(h *hpa) { h.Spec.Behavior.ScaleUp.StabilizationWindowSeconds = ptr(int32(60)) }, Facts{}, []string{Window}},
		"scale down turned off": {func(h *hpa) { h.Spec.Behavior.ScaleDown.SelectPolicy = ptr(autoscalingv2.DisabledPolicySelect) }, Facts{},
			[]string{SelectOff}},
		"one pod a minute": {func(h *hpa) {
			h.Spec.Behavior.ScaleDown.Policies[0] = autoscalingv2.HPAScalingPolicy{Type: "Pods", Value: 1, PeriodSeconds: 60}
		},
			Facts{}, []string{Rates}},
		"doubling upwards": {func(h *hpa) {
			h.Spec.Behavior.ScaleUp.Policies[0] = autoscalingv2.HPAScalingPolicy{Type: "Percent", Value: 100, PeriodSeconds: 15}
		}, Facts{}, []string{Rates}},
		"the least of a free and a tight rate": {func(h *hpa) {
			r := h.Spec.Behavior.ScaleUp
			r.Policies = append(r.Policies, autoscalingv2.HPAScalingPolicy{Type: "Pods", Value: 1, PeriodSeconds: 60})
			r.SelectPolicy = ptr(autoscalingv2.MinChangePolicySelect)
		}, Facts{}, []string{Rates}},
		"the greatest of a free and a tight rate": {func(h *hpa) {
			r := h.Spec.Behavior.ScaleUp
			r.Policies = append(r.Policies, autoscalingv2.HPAScalingPolicy{Type: "Pods", Value: 1, PeriodSeconds: 60})
		}, Facts{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := exactHPA("chat", "chat", "chat")
			if c.change != nil {
				c.change(h)
			}
			found := Lint(h, c.facts)
			if got := whats(found); !slices.Equal(got, c.want) {
				t.Errorf("found %v, want %v", found, c.want)
			}
			for _, f := range found {
				if f.Why == "" || f.Fix == "" {
					t.Errorf("%s says neither why nor what to do: %+v", f.What, f)
				}
			}
		})
	}
}

// The default tolerance swallows single steps only where there are enough replicas for a step to be a tenth.
func TestToleranceMattersOnlyWhereItSwallowsAStep(t *testing.T) {
	for _, c := range []struct {
		most int32
		want int
	}{{8, 0}, {9, 1}, {10, 1}, {11, 2}} {
		h := exactHPA("chat", "chat", "chat")
		h.Spec.MaxReplicas = c.most
		h.Spec.Behavior.ScaleUp.Tolerance, h.Spec.Behavior.ScaleDown.Tolerance = nil, nil
		if found := Lint(h, Facts{}); len(found) != c.want {
			t.Errorf("maxReplicas %d: found %v, want %d", c.most, found, c.want)
		}
	}
}

func TestWhatToDoAboutToleranceDependsOnTheClustersVersion(t *testing.T) {
	h := exactHPA("chat", "chat", "chat")
	h.Spec.Behavior.ScaleUp.Tolerance = nil
	for minor, want := range map[int]string{
		0: `tolerance: "0"`, 36: `tolerance: "0"`, 34: "feature gate HPAConfigurableTolerance", 31: "--horizontal-pod-autoscaler-tolerance",
	} {
		found := Lint(h, Facts{Minor: minor})
		if len(found) != 1 || !strings.Contains(found[0].Fix, want) {
			t.Errorf("1.%d: %v, want %q", minor, found, want)
		}
	}
}

func TestAScaledObjectsHPAIsPutRightInTheScaledObject(t *testing.T) {
	h := exactHPA("keda-hpa-chat", "chat", "")
	external := h.Spec.Metrics[0].External
	external.Metric.Name = "s0-" + DesiredReplicasMetric
	external.Metric.Selector.MatchLabels = map[string]string{"scaledobject.keda.sh/name": "chat"}
	h.Spec.Behavior.ScaleUp.Tolerance = nil
	found := Lint(h, Facts{ScaledObject: "chat"})
	if len(found) != 1 || !strings.Contains(found[0].Fix, "ScaledObject chat: spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleUp") {
		t.Errorf("found %v", found)
	}
}

func TestOurMetricIsKnownBehindKEDAsPrefixAndNoOther(t *testing.T) {
	for name, want := range map[string]bool{
		"gpuscaler-desired-replicas": true, "s0-gpuscaler-desired-replicas": true, "s12-gpuscaler-desired-replicas": true,
		"s-gpuscaler-desired-replicas": false, "sx-gpuscaler-desired-replicas": false, "my-gpuscaler-desired-replicas": false,
		"gpuscaler-desired-replicas-2": false, "": false,
	} {
		if got := isOurMetric(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
