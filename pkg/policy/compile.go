package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// compiler turns one policy as written into the values that decide. It goes on after a problem, to find them all.
type compiler struct {
	*findings
	key      scaling.Key
	spec     *PolicySpec
	platform *Platform
	seen     *seen
	object   *objectFacts // what the ScaledObject or HPA says that carries the policy; nil for a file

	ref        scaling.Target
	low, high  int32 // minReplicas and maxReplicas before the platform's bounds
	policy     *scaling.Policy
	sources    []Source
	waits      bool  // something is lacking that may stand in a PlatformConfig which cannot be read
	scheduleAt []int // index in the spec of each compiled schedule
}

// objectFacts is what a policy made of annotations takes from the object that carries them.
type objectFacts struct {
	target   scaling.Target
	triggers []string // names of the ScaledObject's triggers; nil: not known
}

// compile checks a policy against the platform and builds what the loop is handed; nil where something is wrong.
func (c *compiler) compile(origin string) (out *Compiled) {
	defer c.survive(new(bool))
	c.policy = &scaling.Policy{}
	c.scaleTarget()
	c.bounds()
	c.signals()
	c.schedules()
	c.overlaps()
	d := c.platform.defaults
	c.behavior(cmp.Or(c.spec.Behavior, d.Behavior), specPath.key("behavior"))
	c.fallback(cmp.Or(c.spec.Fallback, d.Fallback), specPath.key("fallback"))
	c.cooldown()
	if c.spec.Activation == "all" {
		c.policy.Activation = scaling.ActiveByAll
	}
	c.formula()
	c.group()
	c.wakes()
	if c.failed() || c.waits {
		return nil
	}
	team := ""
	if t := c.platform.Team(c.key.Namespace); t != nil {
		team, c.policy.Team = t.Name, t.shared
	}
	activate := cmp.Or(c.spec.Activate, d.Activate)
	compiled := &Compiled{
		Workload: scaling.Workload{
			Key: c.key, Target: c.ref, Policy: c.policy, Mode: stricter(modeOf(c.spec.Mode), c.platform.Mode),
			Group: c.spec.CapacityGroup, Origin: origin, Activate: activate != nil && *activate,
		},
		Sources: c.sources, Team: team, mode: modeOf(c.spec.Mode),
	}
	c.seen.share(compiled)
	return compiled
}

// lack is bad for what the PlatformConfig does not have, where there is one that could be read.
func (c *compiler) lack(p *yamlPath, message, allowed string) {
	if c.platform == unknownPlatform {
		c.waits = true
		return
	}
	c.bad(p, message, allowed)
}

func (c *compiler) scaleTarget() {
	if c.object != nil {
		c.ref = c.object.target
		return
	}
	t := c.spec.ScaleTargetRef
	if t == nil {
		c.bad(specPath.key("scaleTargetRef"), "is missing", "the object whose replicas are decided")
		return
	}
	c.ref = scaling.Target{APIVersion: orDefault(t.APIVersion, "apps/v1"), Kind: orDefault(t.Kind, "Deployment"), Name: t.Name}
	if t.Name != "" && len(validation.IsDNS1123Subdomain(t.Name)) > 0 { // it becomes part of a path
		c.bad(specPath.key("scaleTargetRef").key("name"), "is not an object's name", "lower-case letters, digits, '-' and '.'")
	}
	if t.APIVersion != "" && t.Kind == "" {
		c.bad(specPath.key("scaleTargetRef").key("kind"), "is missing", "the kind that belongs to "+t.APIVersion)
	}
	if strings.Count(c.ref.APIVersion, "/") > 1 || c.ref.APIVersion == "" {
		c.bad(specPath.key("scaleTargetRef").key("apiVersion"), "is not a group and version", "apps/v1")
	}
}

func (c *compiler) bounds() {
	low, high := int32(defaultMinReplicas), int32(-1)
	pLow, pHigh := specPath.key("minReplicas"), specPath.key("maxReplicas")
	if c.spec.MinReplicas != nil {
		low = *c.spec.MinReplicas
	}
	if c.spec.MaxReplicas != nil {
		high = *c.spec.MaxReplicas
	}
	switch {
	case c.spec.MaxReplicas == nil:
		c.bad(pHigh, "is missing", "the most replicas there may be")
		high = mostReplicas
	case high == 0:
		c.bad(pHigh, "the workload could never run", "1 or more; a schedule's maxReplicas: 0 closes it for a time")
	case high > mostReplicas:
		c.bad(pHigh, "is out of range", fmt.Sprintf("at most %d", mostReplicas))
	case low > high && c.spec.MinReplicas != nil:
		c.bad(pLow, fmt.Sprintf("is above maxReplicas of %d", high), "at most maxReplicas")
	}
	c.low, c.high = low, high
	if low > high || high == 0 || c.spec.MinReplicas == nil && c.follows(pLow.String()) {
		c.low, c.high = 0, mostReplicas // said already: schedules are not judged by it
	}
	low = min(low, high)
	bounds := c.platform.boundsFor(c.key.Namespace)
	c.policy.MinReplicas, c.policy.MaxReplicas = bounds.Narrow(low, high)
	if bounds.Max > 0 && high > bounds.Max && c.spec.MaxReplicas != nil {
		c.odd(pHigh, fmt.Sprintf("the platform's bounds allow %d replicas here: that counts", bounds.Max), "")
	}
}

func (c *compiler) cooldown() {
	c.policy.CooldownPeriod = defaultCooldown
	if d := cmp.Or(c.spec.CooldownPeriod, c.platform.defaults.CooldownPeriod); d != nil {
		c.policy.CooldownPeriod = time.Duration(*d)
	}
}

func (c *compiler) formula() {
	if c.spec.Formula == "" {
		return
	}
	p := specPath.key("formula")
	if len(c.policy.Signals) == 0 {
		c.bad(p, "there are no signals to combine", "a formula beside signals")
		return
	}
	if c.failed() {
		return // where a signal was refused, what the formula says of it cannot be judged
	}
	f, err := c.seen.formula(c.spec.Formula, c.policy.Signals)
	if err != nil {
		c.bad(p, "is not a formula: "+err.Error(), "CEL that yields a number, such as max(gateway.replicas, 2 * ready)")
	}
	c.policy.Formula = f
}

// group checks that the namespace's team may use the capacity group.
func (c *compiler) group() {
	name := c.spec.CapacityGroup
	if name == "" {
		return
	}
	p := specPath.key("capacityGroup")
	var allowed []string
	for _, g := range c.platform.Groups {
		if c.platform.mayUse(c.key.Namespace, g.Name) {
			allowed = append(allowed, g.Name)
		}
	}
	mine := orDefault(list(allowed), "none for this namespace")
	switch {
	case c.platform.Group(name) == nil:
		c.lack(p, "the PlatformConfig has no such capacity group"+didYouMean(name, allowed), mine)
	case !slices.Contains(allowed, name):
		c.lack(p, "the platform does not let namespace "+c.key.Namespace+" use this capacity group", mine)
	}
}

// wakes refuses a policy that can fall to zero and never rise again: a pod's own series vanish with it, so something else must
// exist while there is none.
func (c *compiler) wakes() {
	if len(c.spec.Signals) == 0 && len(c.spec.Schedules) == 0 {
		c.bad(specPath.key("signals"), "there are no signals and no schedules: nothing would ever change the number", "signals, schedules or both")
		return
	}
	if c.policy.MinReplicas > 0 || c.failed() || c.waits {
		return
	}
	c.idles()
	for _, s := range c.sources {
		if c.existsAtZero(s) {
			return
		}
	}
	for _, s := range c.policy.Schedules {
		if s.Min > 0 {
			return
		}
	}
	c.bad(specPath.key("minReplicas"), "nothing would ever raise it from zero: no schedule has a floor, and what signals there are come from the workload's own pods, which are gone then",
		"1 or more, a signal that exists at zero replicas (a gateway's queue, redis, kueue, keda, external), or a schedule with minReplicas")
}

// idles refuses a signal that would keep a workload with minReplicas 0 active for ever: a loaded model holds GPU memory without a request.
func (c *compiler) idles() {
	for i, s := range c.sources {
		if s.Type == SourceDCGM && s.Metric == gpuMemory && c.policy.Signals[i].Activation == 0 && c.policy.Activation != scaling.ActiveByAll {
			c.bad(specPath.key("signals").at(i).key("activationTarget"),
				"is missing: a loaded model holds GPU memory without any request, so with minReplicas 0 the workload would never be idle",
				"a percentage above what the loaded model holds, such as 60%; or activation: all; or minReplicas 1 or more")
		}
	}
}

func (c *compiler) existsAtZero(s Source) bool {
	switch {
	case s.Type.readsPods():
		return false
	case s.QueryName != "":
		q := c.platform.Query(s.QueryName)
		return q == nil || q.ExistsAtZero
	case s.Type == SourcePrometheus:
		expr, err := parsePromQL(s.Query)
		return err != nil || !comesFromPods(expr)
	}
	return true
}

// knownTrigger checks a keda signal against the triggers of the ScaledObject, where they are known.
func (c *compiler) knownTrigger(name string, p *yamlPath) {
	if c.object == nil || c.object.triggers == nil || name == "" || slices.Contains(c.object.triggers, name) {
		return
	}
	c.bad(p, "the ScaledObject has no trigger of this name"+didYouMean(name, c.object.triggers), list(c.object.triggers))
}
