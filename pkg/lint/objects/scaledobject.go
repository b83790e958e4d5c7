package objects

import (
	"fmt"
	"time"
)

// Checks of ScaledObjects.
const (
	DoubledIdleDelay = "DoubledIdleDelay"   // KEDA waits for the cooldownPeriod of the ScaledObject after the cooldownPeriod of the policy
	ZeroFallback     = "ZeroFallback"       // KEDA scales to zero at the first error of a trigger
	FormulaOverKEDA  = "FormulaOverTrigger" // a signal of type keda reads the result of scalingModifiers instead of its trigger
	CachedTrigger    = "UseCachedMetrics"   // the HPA reads a target that can be as old as one pollingInterval
	NoPush           = "TriggerWithoutPush" // a scale-up from zero waits for KEDA's next poll
	NoGuard          = "CooldownOfZero"     // a single poll of KEDA without an active trigger removes every replica
)

const (
	// idleGuard is the longest cooldownPeriod of KEDA for which the check DoubledIdleDelay adds no finding. KEDA polls every 30 seconds by
	// default. A cooldownPeriod of one minute is therefore useful: a single wrong poll does not scale the workload to zero.
	idleGuard = time.Minute
	// defaultCooldown is the cooldownPeriod that KEDA uses if the ScaledObject does not set spec.cooldownPeriod.
	defaultCooldown = 300 * time.Second
)

// ScaledObjectFacts contains the facts about a ScaledObject that the checks need.
type ScaledObjectFacts struct {
	MinReplicas  int32
	Cooldown     *time.Duration // spec.cooldownPeriod; nil if it is not set
	HasTrigger   bool           // the ScaledObject has a trigger of type external or external-push for gpuscaler
	Formula      bool           // the ScaledObject has spec.advanced.scalingModifiers
	ZeroFallback bool           // spec.fallback.replicas is 0
	Cached       bool           // the trigger for gpuscaler has useCachedMetrics
	NoPush       bool           // the trigger for gpuscaler has the type external instead of external-push
}

// ScaledObject returns the problems of a ScaledObject that reads the target of a policy. The most harmful finding is first. If policy is
// nil, it returns nil.
func ScaledObject(s ScaledObjectFacts, policy *PolicyFacts) (found []Finding) {
	if policy == nil {
		return nil
	}
	for _, r := range scaledObjectRules {
		if r.applies(&s, policy) && (s.HasTrigger || !r.needsTrigger) {
			found = append(found, Finding{r.check, r.what(&s, policy), r.fix})
		}
	}
	return found
}

// scaledObjectRule is one check of a ScaledObject.
type scaledObjectRule struct {
	check        string
	needsTrigger bool // the rule applies only to a ScaledObject with a trigger for gpuscaler
	applies      func(s *ScaledObjectFacts, p *PolicyFacts) bool
	what         func(s *ScaledObjectFacts, p *PolicyFacts) string
	fix          string
}

func text(what string) func(*ScaledObjectFacts, *PolicyFacts) string {
	return func(*ScaledObjectFacts, *PolicyFacts) string { return what }
}

var scaledObjectRules = []scaledObjectRule{
	{ZeroFallback, true, func(s *ScaledObjectFacts, _ *PolicyFacts) bool { return s.MinReplicas == 0 && s.ZeroFallback },
		text("with minReplicaCount 0 and fallback.replicas 0 KEDA scales the workload to 0 at the first error of a trigger"),
		"set spec.fallback.replicas: 1, or remove spec.fallback"},
	{FormulaOverKEDA, false, func(s *ScaledObjectFacts, p *PolicyFacts) bool { return p.ReadsTriggers && s.Formula },
		func(_ *ScaledObjectFacts, p *PolicyFacts) string {
			return fmt.Sprintf("policy %s has a signal of type keda, and with spec.advanced.scalingModifiers KEDA serves the formula's result "+
				"for every trigger", p.Name)
		}, "remove scalingModifiers, or read the queue in another way"},
	{NotServed, true, func(_ *ScaledObjectFacts, p *PolicyFacts) bool { return p.Advisory },
		func(_ *ScaledObjectFacts, p *PolicyFacts) string {
			return fmt.Sprintf("policy %s is advisory: its target is not served, and KEDA does not scale in while a trigger fails", p.Name)
		}, "remove the trigger, or the policy's mode: advisory"},
	{NoGuard, true, func(s *ScaledObjectFacts, _ *PolicyFacts) bool {
		return s.MinReplicas == 0 && s.Cooldown != nil && *s.Cooldown == 0
	},
		text("with cooldownPeriod 0 KEDA scales to zero as soon as one check finds no active trigger, even during a refresh of its cache"),
		"set spec.cooldownPeriod: 60"},
	{DoubledIdleDelay, true, func(s *ScaledObjectFacts, p *PolicyFacts) bool {
		return s.MinReplicas == 0 && p.CooldownPeriod > 0 && s.idleDelay() > idleGuard
	}, func(s *ScaledObjectFacts, p *PolicyFacts) string {
		return fmt.Sprintf("the last replica is removed after the policy's cooldownPeriod of %s and then KEDA's of %s",
			p.CooldownPeriod, s.idleDelay())
	}, "set spec.cooldownPeriod: 60, or the policy's cooldownPeriod: 0"},
	{CachedTrigger, true, func(s *ScaledObjectFacts, _ *PolicyFacts) bool { return s.Cached },
		text("with useCachedMetrics the HPA reads the target of KEDA's last poll"), "remove useCachedMetrics from the trigger for gpuscaler"},
	{NoPush, true, func(s *ScaledObjectFacts, _ *PolicyFacts) bool { return s.NoPush && s.MinReplicas == 0 },
		text("a trigger of type external is polled: a scale-up from zero waits up to pollingInterval"), "set its type: external-push"},
}

// idleDelay returns how long KEDA waits after the last trigger has become inactive, before it scales the workload to zero.
func (s *ScaledObjectFacts) idleDelay() time.Duration {
	if s.Cooldown == nil {
		return defaultCooldown
	}
	return *s.Cooldown
}
