package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What a ScaledObject with our trigger does that nobody wants. Each is stable: alerts and runbooks may match it.
const (
	DoubledIdleDelay = "DoubledIdleDelay"   // KEDA waits cooldownPeriod after the policy's own
	ZeroFallback     = "ZeroFallback"       // KEDA takes the last replica at the first error
	FormulaOverKEDA  = "FormulaOverTrigger" // a signal of type keda would read the formula's result
	CachedTrigger    = "UseCachedMetrics"   // the number is one pollingInterval old
	NoPush           = "TriggerWithoutPush" // from zero it waits for KEDA's poll
	NoGuard          = "CooldownOfZero"     // one look of KEDA's that finds nothing active takes every replica
)

// idleGuard is the part of KEDA's cooldownPeriod that is no idle delay: two of its looks.
const idleGuard = time.Minute

// kedaCooldown is what counts where spec.cooldownPeriod is not set.
const kedaCooldown = 300

// scaledObjectLint is what the linter must know of a ScaledObject beyond its facts.
type scaledObjectLint struct {
	asksUs         bool // it has a trigger of ours
	formula        bool // spec.advanced.scalingModifiers
	zeroFallback   bool
	cached, noPush bool // of our trigger
}

func readScaledObjectLint(u *unstructured.Unstructured, f *scaledObjectFacts) (l scaledObjectLint) {
	modifiers, _, _ := unstructured.NestedMap(u.Object, "spec", "advanced", "scalingModifiers")
	fallback, _, _ := unstructured.NestedMap(u.Object, "spec", "fallback")
	l.asksUs, l.formula = f.metadata != nil, len(modifiers) > 0
	l.zeroFallback = fallback != nil && numberOr(u, 0, "spec", "fallback", "replicas") == 0
	triggers, _, _ := unstructured.NestedSlice(u.Object, "spec", "triggers")
	for _, t := range triggers {
		if trigger, _ := t.(map[string]any); asksUs(trigger) {
			l.cached, _, _ = unstructured.NestedBool(trigger, "useCachedMetrics")
			kind, _, _ := unstructured.NestedString(trigger, "type")
			l.noPush = kind == "external"
			return l
		}
	}
	return l
}

// scaledObjects lists every ScaledObject, by name.
func (w *world) scaledObjects() (all []*scaledObjectFacts) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, t := range w.targets {
		if t.scaledObject != nil {
			all = append(all, t.scaledObject)
		}
	}
	slices.SortFunc(all, func(a, b *scaledObjectFacts) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// lintScaledObject finds why a ScaledObject will not do what its author means, most harmful first.
func lintScaledObject(s *scaledObjectFacts, d *deciders) (found []Finding) {
	if d == nil {
		return nil
	}
	w := d.decider(s)
	if w == nil {
		return nil
	}
	p, add := factsOf(w, s.target), func(what, why, fix string) { found = append(found, Finding{what, why, fix}) }
	if s.lint.asksUs && s.min == 0 && s.lint.zeroFallback {
		add(ZeroFallback, "with minReplicaCount 0 and fallback.replicas 0 KEDA takes the workload to 0 at the first error of a trigger", "set spec.fallback.replicas: 1, or remove spec.fallback")
	}
	if p.ReadsTriggers && s.lint.formula {
		add(FormulaOverKEDA, fmt.Sprintf("policy %s has a signal of type keda, and with spec.advanced.scalingModifiers KEDA answers every trigger with the formula's result", p.Name), "remove scalingModifiers, or read the queue in another way")
	}
	if s.lint.asksUs && p.Advisory {
		add(NotServed, fmt.Sprintf("policy %s is advisory: its number is not served, and a trigger that fails forbids every fall", p.Name), "remove the trigger, or the policy's mode: advisory")
	}
	if s.lint.asksUs && s.min == 0 && s.cooldown == 0 {
		add(NoGuard, "with cooldownPeriod 0 KEDA takes every replica as soon as one look finds no trigger active, also a look into a cache that it is just replacing", "set spec.cooldownPeriod: 60")
	}
	if s.lint.asksUs && s.min == 0 && p.CooldownPeriod > 0 && s.idleDelay() > idleGuard {
		add(DoubledIdleDelay, fmt.Sprintf("the last replica goes after the policy's %s and then KEDA's %s", p.CooldownPeriod, s.idleDelay()), "set spec.cooldownPeriod: 60, or the policy's cooldownPeriod: 0")
	}
	if s.lint.asksUs && s.lint.cached {
		add(CachedTrigger, "with useCachedMetrics the HPA reads our number of the last poll", "remove useCachedMetrics from our trigger")
	}
	if s.lint.asksUs && s.lint.noPush && s.min == 0 {
		add(NoPush, "a trigger of type external is polled: from zero it waits up to pollingInterval", "set its type: external-push")
	}
	return found
}

// idleDelay is how long KEDA waits between our "inactive" and zero.
func (s *scaledObjectFacts) idleDelay() time.Duration {
	if s.cooldown < 0 {
		return kedaCooldown * time.Second
	}
	return time.Duration(s.cooldown) * time.Second
}
