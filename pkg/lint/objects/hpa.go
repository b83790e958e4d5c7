package objects

import (
	"fmt"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Checks of HPAs.
const (
	NoSelector           = "NoPolicySelector" // the metrics API returns status 400, so the HPA never scales
	UnknownPolicy        = "UnknownPolicy"    // the metrics API returns status 404, so the HPA never scales
	OtherTarget          = "OtherTarget"      // the policy scales a different object than the HPA
	TypeValue            = "TypeValue"        // the HPA multiplies the target by the number of ready pods
	WrongAverage         = "AverageValueNot1" // the HPA divides the target by a number that is not 1
	OtherMetrics         = "OtherMetrics"     // the HPA uses the greatest of several metrics
	Tolerance            = "Tolerance"        // the HPA ignores small changes
	StabilizationWindow  = "StabilizationWindow"
	Rates                = "Rates"
	SelectPolicyDisabled = "SelectPolicyDisabled" // the HPA never scales in one direction
	Bounds               = "Bounds"               // minReplicas or maxReplicas of the HPA are narrower than in the policy
	TwoOwners            = "TwoOwners"            // another object scales the same workload
	TwoPolicies          = "TwoPolicies"          // two policies scale one workload
	NotServed            = "PolicyIsAdvisory"     // the metrics API returns an error, so the HPA never scales
)

// HPAFacts contains facts about an HPA that are not in the HPA itself. With the zero value of HPAFacts, only the fields of the HPA itself
// are checked.
type HPAFacts struct {
	// Minor is the minor version of the API server, for example 36 for Kubernetes 1.36. 0 means that the version is unknown; the checks then
	// assume the newest version.
	Minor int
	// ScaledObject is the name of the ScaledObject for which KEDA created the HPA. It is empty if KEDA did not create the HPA. If it is not
	// empty, the user must fix findings in the ScaledObject, because KEDA overwrites the HPA.
	ScaledObject string
	// PausedIn and PausedOut are true if an annotation of the ScaledObject pauses scale-in or scale-out.
	PausedIn, PausedOut bool
	// Others contains the other objects that scale the same workload, such as "HorizontalPodAutoscaler b" and "ScaledObject c".
	Others []string
	// PoliciesKnown is true if the caller has set Policy and Deciders. If it is false, a nil Policy does not mean that the policy does not
	// exist.
	PoliciesKnown bool
	// Policy is the policy that the HPA's metric selects. It is nil if the policy does not exist.
	Policy *PolicyFacts
	// Deciders contains the names of all policies that scale the same target as the HPA.
	Deciders []string
	// Fallback is fallback.replicas of the HPA's metric. It is nil if the metric has no fallback or if the API server does not support the
	// field.
	Fallback *int64
}

// PolicyFacts contains the facts about a policy that the checks need.
type PolicyFacts struct {
	Name                     string
	SameTarget               bool // the policy has the same scale target as the HPA
	MinReplicas, MaxReplicas int32
	Advisory                 bool
	CooldownPeriod           time.Duration
	ReadsTriggers            bool // the policy has a signal of type keda
}

// HPA returns why an HPA that reads DesiredReplicasMetric does not follow the target exactly. The most harmful finding is first. The
// function returns nil if the HPA follows every change of the target, or if the HPA does not read this metric.
func HPA(h *autoscalingv2.HorizontalPodAutoscaler, f HPAFacts) []Finding {
	if _, reads := ReadsTarget(&h.Spec); !reads {
		return nil
	}
	c := &hpaCheck{spec: &h.Spec, facts: f, behaviorField: "spec.behavior"}
	if f.ScaledObject != "" {
		c.behaviorField = "ScaledObject " + f.ScaledObject + ": spec.advanced.horizontalPodAutoscalerConfig.behavior"
	}
	for _, check := range []func(){
		c.selector, c.policies, c.advisory, c.owners, c.metric, c.fallback, c.otherMetrics, c.bounds, c.directions,
	} {
		check()
	}
	return c.found
}

type hpaCheck struct {
	spec          *autoscalingv2.HorizontalPodAutoscalerSpec
	facts         HPAFacts
	behaviorField string
	found         []Finding
}

func (c *hpaCheck) add(check, what, fix string) { c.found = append(c.found, Finding{check, what, fix}) }

func (c *hpaCheck) selector() {
	policy, _ := ReadsTarget(c.spec)
	switch {
	case c.facts.ScaledObject != "":
	case policy == "":
		c.add(NoSelector, "its metric selects no policy, so no target is served to it", "set selector.matchLabels."+PolicyLabel)
	case c.facts.PoliciesKnown && c.facts.Policy == nil:
		c.add(UnknownPolicy, fmt.Sprintf("there is no policy %q in its namespace, so no target is served to it", policy),
			"correct "+PolicyLabel+", or add the policy")
	case c.facts.PoliciesKnown && !c.facts.Policy.SameTarget:
		c.add(OtherTarget, fmt.Sprintf("policy %q has another scaleTargetRef than this HPA", policy),
			"set the same scaleTargetRef in the HPA and in the policy")
	}
}

func (c *hpaCheck) policies() {
	if len(c.facts.Deciders) > 1 {
		c.add(TwoPolicies, "several policies have its scale target: "+strings.Join(c.facts.Deciders, ", "), "keep one of them")
	}
}

// advisory adds a finding if the policy is advisory. It ignores an HPA that KEDA created, because the check of the ScaledObject reports the
// same problem.
func (c *hpaCheck) advisory() {
	if p := c.facts.Policy; p != nil && p.Advisory && c.facts.ScaledObject == "" {
		c.add(NotServed, "the policy is advisory: its target is not served, so this HPA never scales",
			"remove the metric, or the policy's mode: advisory")
	}
}

func (c *hpaCheck) owners() {
	if len(c.facts.Others) > 0 {
		c.add(TwoOwners, "the same workload is scaled by "+strings.Join(c.facts.Others, ", "), "keep one of them")
	}
}

func (c *hpaCheck) metric() {
	for i := range c.spec.Metrics {
		m := c.spec.Metrics[i].External
		if m == nil || !IsTargetMetric(m.Metric.Name) {
			continue
		}
		t := m.Target
		if t.Type != autoscalingv2.AverageValueMetricType {
			c.add(TypeValue, "type "+string(t.Type)+" multiplies the target by the number of ready pods",
				`set type: AverageValue, averageValue: "1"`)
		} else if t.AverageValue == nil || t.AverageValue.Cmp(resource.MustParse("1")) != 0 {
			c.add(WrongAverage, "averageValue is not 1, so the HPA divides the target by it", `set averageValue: "1"`)
		}
	}
}

// otherMetrics adds a finding if the HPA also reads metrics other than the target. In the HPA of a ScaledObject, other external metrics are
// allowed, because they are KEDA triggers that scale out while gpuscaler is not available.
func (c *hpaCheck) otherMetrics() {
	n := len(c.spec.Metrics)
	for i := range c.spec.Metrics {
		if m := &c.spec.Metrics[i]; c.facts.ScaledObject != "" && m.External != nil && !IsTargetMetric(m.External.Metric.Name) {
			n--
		}
	}
	if n > 1 {
		c.add(OtherMetrics, fmt.Sprintf("it reads %d metrics and uses the greatest: another one can scale above the target", n),
			"make the other metrics signals of the policy")
	}
}

func (c *hpaCheck) bounds() {
	p := c.facts.Policy
	if p == nil {
		return
	}
	own := Range{1, c.spec.MaxReplicas}
	if c.spec.MinReplicas != nil {
		own.Min = *c.spec.MinReplicas
	}
	if why := Narrower(own, Range{p.MinReplicas, p.MaxReplicas}, false); why != "" {
		c.add(Bounds, why, "set the same minReplicas and maxReplicas in both")
	}
}

// Range contains minReplicas and maxReplicas of an object.
type Range struct{ Min, Max int32 }

// Narrower returns why an HPA or ScaledObject cannot reach every target of the policy: its minReplicas is too high, or its maxReplicas is
// too low. It returns an empty string if the object can reach all targets. The parameter zero is true if the object scales the workload
// from 1 replica to 0 and back, as a ScaledObject does. If zero is false, gpuscaler scales the workload from 1 replica to 0 and back, so an
// object with minReplicas 1 is correct for a policy with minReplicas 0.
func Narrower(object, policy Range, zero bool) string {
	least := policy.Min
	if !zero {
		least = max(least, 1)
	}
	switch {
	case object.Min > policy.Max:
		return fmt.Sprintf("its minReplicas %d is above the policy's maxReplicas %d: it never has fewer than %d replicas",
			object.Min, policy.Max, object.Min)
	case object.Min > least:
		return fmt.Sprintf("its minReplicas %d is above the policy's minReplicas %d: it never has fewer than %d replicas",
			object.Min, policy.Min, object.Min)
	case object.Max < policy.Max:
		return fmt.Sprintf("its maxReplicas %d is below the policy's maxReplicas %d", object.Max, policy.Max)
	}
	return ""
}

// TwoScalers returns the finding for a scale target that several objects scale.
func TwoScalers(target, scalers string) ObjectFinding {
	return newFinding(target, TwoOwners, "its replicas are changed by "+scalers, "keep one of them")
}
