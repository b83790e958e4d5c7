package objects

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

const (
	// defaultTolerance is the tolerance of kube-controller-manager. It applies if an HPA does not set a tolerance.
	defaultTolerance = 0.1
	// defaultDownWindow is the default downscale stabilization of kube-controller-manager, in seconds.
	defaultDownWindow = 300
	// toleranceMinor and gateMinor are minor versions of Kubernetes 1. Since toleranceMinor, the HPA field behavior.tolerance is enabled by
	// default. From gateMinor to toleranceMinor-1, the field needs a feature gate.
	toleranceMinor, gateMinor = 35, 33
)

func (c *hpaCheck) directions() {
	var up, down *autoscalingv2.HPAScalingRules
	if b := c.spec.Behavior; b != nil {
		up, down = b.ScaleUp, b.ScaleDown
	}
	c.tolerance("scaleUp", up)
	c.tolerance("scaleDown", down)
	c.window("scaleUp", up, 0)
	c.window("scaleDown", down, defaultDownWindow)
	if !c.facts.PausedOut {
		c.disabled("scaleUp", up)
	}
	if !c.facts.PausedIn {
		c.disabled("scaleDown", down)
	}
	c.rates("scaleUp", up)
	c.rates("scaleDown", down)
}

// tolerance adds a finding if the tolerance of the HPA can hide a change of the target by one replica. With a tolerance of 0.1, an HPA
// ignores an increase from 10 to 11 and a decrease from 10 to 9. For increases, the finding is therefore added if maxReplicas is at least
// 11. For decreases, it is added if maxReplicas is at least 9, because a rollout with 9 replicas can add one surge pod: the HPA then
// compares the target 9 with the 10 existing pods, and ignores the difference.
func (c *hpaCheck) tolerance(direction string, r *autoscalingv2.HPAScalingRules) {
	t, set := defaultTolerance, false
	if r != nil && r.Tolerance != nil {
		t, set = r.Tolerance.AsApproximateFloat64(), true
	}
	if t <= 0 {
		return
	}
	from := 1/t + 1
	if direction == "scaleDown" {
		from = (1 - t) / t
	}
	if float64(c.spec.MaxReplicas) < from {
		return
	}
	what := fmt.Sprintf("%s ignores a change of up to %.0f%%", direction, t*100)
	if !set {
		what += " (tolerance is not set)"
	}
	fix := fmt.Sprintf(`set %s.%s.tolerance: "0"`, c.behaviorField, direction)
	switch m := c.facts.Minor; {
	case m == 0 || m >= toleranceMinor:
	case m >= gateMinor:
		fix += fmt.Sprintf(" and enable the feature gate HPAConfigurableTolerance, which is off by default in 1.%d", m)
	default:
		fix = fmt.Sprintf("1.%d has no tolerance per HPA: start kube-controller-manager with --horizontal-pod-autoscaler-tolerance=0.001", m)
	}
	c.add(Tolerance, what, fix)
}

func (c *hpaCheck) window(direction string, r *autoscalingv2.HPAScalingRules, seconds int32) {
	if r != nil && r.StabilizationWindowSeconds != nil {
		seconds = *r.StabilizationWindowSeconds
	}
	if seconds > 0 {
		c.add(StabilizationWindow, fmt.Sprintf("%s waits %d s in addition to the policy's own window", direction, seconds),
			fmt.Sprintf("set %s.%s.stabilizationWindowSeconds: 0", c.behaviorField, direction))
	}
}

func (c *hpaCheck) disabled(direction string, r *autoscalingv2.HPAScalingRules) {
	if r != nil && r.SelectPolicy != nil && *r.SelectPolicy == autoscalingv2.DisabledPolicySelect {
		c.add(SelectPolicyDisabled, direction+" is disabled (selectPolicy: Disabled)",
			fmt.Sprintf("remove %s.%s.selectPolicy", c.behaviorField, direction))
	}
}

// rates adds a finding if the HPA's scaling policies for the direction can delay a change of the target over several syncs. Without scaling
// policies, scale-up is limited too: by default, an HPA adds at most 100% of the replicas or 4 pods within 15 seconds, the greater of both.
func (c *hpaCheck) rates(direction string, r *autoscalingv2.HPAScalingRules) {
	if r != nil && r.SelectPolicy != nil && *r.SelectPolicy == autoscalingv2.DisabledPolicySelect {
		return
	}
	down := direction == "scaleDown"
	if r == nil || len(r.Policies) == 0 {
		if !down { // the default of scaleDown, 100% in 15 s, is not a limit
			c.addRate(direction)
		}
		return
	}
	every, some := true, false
	for _, p := range r.Policies {
		unlimited := p.Value >= c.spec.MaxReplicas
		if p.Type == autoscalingv2.PercentScalingPolicy {
			unlimited = down && p.Value >= 100
		}
		every, some = every && unlimited, some || unlimited
	}
	least := r.SelectPolicy != nil && *r.SelectPolicy == autoscalingv2.MinChangePolicySelect
	if least && !every || !some {
		c.addRate(direction)
	}
}

func (c *hpaCheck) addRate(direction string) {
	policy := "{type: Pods, value: 1000, periodSeconds: 15}"
	if direction == "scaleDown" {
		policy = "{type: Percent, value: 100, periodSeconds: 15}"
	}
	c.add(Rates, direction+" limits one step to less than the policy can decide",
		fmt.Sprintf("set %s.%s.policies: [%s]", c.behaviorField, direction, policy))
}
