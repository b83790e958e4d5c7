// Package compile checks policies and PlatformConfigs and compiles them into the values that the engine uses. It reports all problems of a
// document. It does no I/O and reads no clock, so the same input always has the same result.
//
// The function Policy returns a policy.Compiled for a decoded ScalingPolicy. The function Platform returns a policy.Platform for the
// PlatformConfig.
package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/promql"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Input contains a decoded policy and the other values that are needed to compile it.
type Input struct {
	Key      scaling.Key
	Spec     *spec.Policy
	Origin   string // name and version of the document, such as "chat.yaml@3f1c"
	Platform *policy.Platform
	Object   *Object // the ScaledObject or HPA whose annotations define the policy; nil for a policy in a file
	Interner *Interner
}

// compiler compiles one policy. It continues after a problem, so that all problems of the policy are reported at once.
type compiler struct {
	*decode.Collector
	Input

	ref        scaling.Target
	low, high  int32 // minReplicas and maxReplicas before the bounds of the PlatformConfig are applied
	policy     *scaling.Policy
	sources    []policy.Source
	waits      bool  // the policy names an object that the PlatformConfig may declare, but the PlatformConfig is unreadable
	scheduleAt []int // index in Spec.Schedules of each compiled schedule
}

// Object contains data about the ScaledObject or HPA whose annotations define a policy.
type Object struct {
	Target   scaling.Target
	Triggers []string // names of the ScaledObject's triggers; nil if they are unknown
}

// Policy checks a policy against the PlatformConfig and compiles it. It returns nil if the policy has an error. It also returns nil if the
// PlatformConfig is currently unreadable and the policy names an object that the PlatformConfig may declare.
func Policy(f *decode.Collector, in Input) *policy.Compiled {
	c := compiler{Collector: f, Input: in}
	return c.compile()
}

func (c *compiler) compile() (out *policy.Compiled) {
	defer c.Recover(new(bool))
	c.policy = &scaling.Policy{}
	c.scaleTarget()
	c.bounds()
	c.objective()
	c.signals()
	c.checkEvidence()
	c.schedules()
	c.overlaps()
	d := c.Platform.Defaults
	if c.Spec.Objective == nil {
		c.behavior(cmp.Or(c.Spec.Behavior, d.Behavior), decode.Spec.Key("behavior"))
	} else {
		c.limits(c.Spec.Behavior, decode.Spec.Key("behavior"))
	}
	c.fallback(cmp.Or(c.Spec.Fallback, d.Fallback), decode.Spec.Key("fallback"))
	c.cooldown()
	if c.Spec.Activation == "all" {
		c.policy.Activation = scaling.ActiveByAll
	}
	c.formula()
	c.group()
	c.checkWakeUp()
	if c.Failed() || c.waits {
		return nil
	}
	team := ""
	if t := c.Platform.Team(c.Key.Namespace); t != nil {
		team, c.policy.Team = t.Name, t.Scaling
	}
	activate := cmp.Or(c.Spec.Activate, d.Activate)
	compiled := &policy.Compiled{
		Workload: scaling.Workload{
			Key: c.Key, Target: c.ref, Policy: c.policy, Mode: policy.StricterMode(policy.ModeOf(c.Spec.Mode), c.Platform.Mode),
			Group: c.Spec.CapacityGroup, Origin: c.Origin, Activate: activate != nil && *activate,
		},
		Sources: c.sources, Polls: c.polls(), Team: team, OwnMode: policy.ModeOf(c.Spec.Mode),
	}
	c.Interner.intern(compiled)
	return compiled
}

// polls returns the time between two polls of each source, or nil if it is policy.DefaultInterval for all of them.
func (c *compiler) polls() (out []time.Duration) {
	for i := range c.sources {
		d := c.Platform.DataSource(c.sources[i].DataSource)
		if d == nil || d.Interval == policy.DefaultInterval {
			continue
		}
		if out == nil {
			out = slices.Repeat([]time.Duration{policy.DefaultInterval}, len(c.sources))
		}
		out[i] = d.Interval
	}
	return out
}

// undeclared rejects the value at p, because it names an object that the PlatformConfig does not declare. If the PlatformConfig is
// unreadable, undeclared sets c.waits instead, and the policy is compiled again when the PlatformConfig is readable.
func (c *compiler) undeclared(p *decode.Path, message, allowed string) {
	if c.Platform.Unreadable {
		c.waits = true
		return
	}
	c.Reject(p, message, allowed)
}

func (c *compiler) scaleTarget() {
	if c.Object != nil {
		c.ref = c.Object.Target
		return
	}
	t := c.Spec.ScaleTargetRef
	if t == nil {
		c.Reject(decode.Spec.Key("scaleTargetRef"), "is missing", "the object whose replicas gpuscaler decides")
		return
	}
	c.ref = scaling.Target{APIVersion: cmp.Or(t.APIVersion, "apps/v1"), Kind: cmp.Or(t.Kind, "Deployment"), Name: t.Name}
	if t.Name != "" && len(validation.IsDNS1123Subdomain(t.Name)) > 0 { // gpuscaler inserts the name into the path of a request
		c.Reject(decode.Spec.Key("scaleTargetRef").Key("name"), "is not the name of an object", "lower-case letters, digits, '-' and '.'")
	}
	if t.APIVersion != "" && t.Kind == "" {
		c.Reject(decode.Spec.Key("scaleTargetRef").Key("kind"), "is missing", "the kind of "+t.APIVersion)
	}
	if strings.Count(c.ref.APIVersion, "/") > 1 || c.ref.APIVersion == "" {
		c.Reject(decode.Spec.Key("scaleTargetRef").Key("apiVersion"), "is not a group and version", "apps/v1")
	}
}

func (c *compiler) bounds() {
	low, high := int32(defaultMinReplicas), int32(-1)
	pLow, pHigh := decode.Spec.Key("minReplicas"), decode.Spec.Key("maxReplicas")
	if c.Spec.MinReplicas != nil {
		low = *c.Spec.MinReplicas
	}
	if c.Spec.MaxReplicas != nil {
		high = *c.Spec.MaxReplicas
	}
	switch {
	case c.Spec.MaxReplicas == nil:
		c.Reject(pHigh, "is missing", "the maximum number of replicas")
		high = policy.ReplicaLimit
	case high == 0:
		c.Reject(pHigh, "the workload could never run", "1 or more; to stop the workload for a time, use a schedule with maxReplicas: 0")
	case high > policy.ReplicaLimit:
		c.Reject(pHigh, "is out of range", fmt.Sprintf("at most %d", policy.ReplicaLimit))
	case low > high && c.Spec.MinReplicas != nil:
		c.Reject(pLow, fmt.Sprintf("is above maxReplicas of %d", high), "at most maxReplicas")
	}
	c.low, c.high = low, high
	if low > high || high == 0 || c.Spec.MinReplicas == nil && c.FollowsFromDecoding(pLow.String()) {
		c.low, c.high = 0, policy.ReplicaLimit // the problem was reported; these bounds prevent additional problems of the schedules
	}
	low = min(low, high)
	bounds := c.Platform.BoundsFor(c.Key.Namespace)
	c.policy.MinReplicas, c.policy.MaxReplicas = bounds.Narrow(low, high)
	if bounds.Max > 0 && high > bounds.Max && c.Spec.MaxReplicas != nil {
		c.Warn(pHigh, fmt.Sprintf("the PlatformConfig's bounds allow at most %d replicas here, which applies", bounds.Max), "")
	}
}

func (c *compiler) cooldown() {
	platform := c.Platform.Defaults.CooldownPeriod
	if c.policy.CooldownPeriod = defaultCooldown; c.Spec.Objective != nil {
		c.policy.CooldownPeriod, platform = 0, nil
	}
	if d := cmp.Or(c.Spec.CooldownPeriod, platform); d != nil {
		c.policy.CooldownPeriod = time.Duration(*d)
	}
}

func (c *compiler) formula() {
	if c.Spec.Formula == "" {
		return
	}
	p := decode.Spec.Key("formula")
	if len(c.policy.Signals) == 0 {
		c.Reject(p, "there are no signals for the formula to combine", "a formula together with signals")
		return
	}
	if c.Failed() {
		return // a formula cannot be checked if one of its signals was rejected
	}
	f, err := c.Interner.formula(c.Spec.Formula, c.policy.Signals)
	if err != nil {
		c.Reject(p, "is not a formula: "+err.Error(), "CEL with a number as its result, such as max(gateway.replicas, 2 * ready)")
	}
	c.policy.Formula = f
}

// group checks that the namespace's team may use the capacity group.
func (c *compiler) group() {
	name := c.Spec.CapacityGroup
	if name == "" || c.Key.Namespace == "" { // a missing namespace is reported by another check
		return
	}
	p := decode.Spec.Key("capacityGroup")
	var allowed []string
	for _, g := range c.Platform.Groups {
		if c.Platform.MayUse(c.Key.Namespace, g.Name) {
			allowed = append(allowed, g.Name)
		}
	}
	mine := "a capacity group" + c.orNone(allowed)
	switch {
	case c.Platform.Group(name) == nil:
		c.undeclared(p, "the PlatformConfig has no such capacity group"+wording.DidYouMean(name, allowed), mine)
	case !slices.Contains(allowed, name):
		c.undeclared(p, "the PlatformConfig does not let namespace "+c.Key.Namespace+" use this capacity group", mine)
	}
}

// checkWakeUp rejects a policy that could scale to zero and never scale up again. The metrics of the workload's own pods disappear when the
// last pod is removed. A policy with minReplicas 0 therefore needs a signal that has a value at zero replicas, or a schedule with
// minReplicas.
func (c *compiler) checkWakeUp() {
	if len(c.Spec.Signals) == 0 && len(c.Spec.Schedules) == 0 {
		if c.Object != nil && c.Failed() {
			return // the annotation that defines the signal was rejected
		}
		c.Reject(decode.Spec.Key("signals"), "there are no signals and no schedules, so the target would never change",
			"signals, schedules or both")
		return
	}
	if c.policy.MinReplicas > 0 || c.Failed() || c.waits {
		return
	}
	c.checkIdle()
	for _, s := range c.sources {
		if c.existsAtZero(s) {
			return
		}
	}
	if slices.ContainsFunc(c.policy.Schedules, func(s scaling.Schedule) bool { return s.Min > 0 }) {
		return
	}
	c.Reject(decode.Spec.Key("minReplicas"), "nothing would scale the workload up from zero: no schedule has minReplicas, and "+
		"all signals come from the workload's own pods, which do not exist then",
		"1 or more, a signal that exists at zero replicas (a gateway's queue, redis, kueue, keda, external), or a schedule with minReplicas")
}

// checkIdle checks policies with minReplicas 0. It rejects a signal of GPU memory without activationTarget, unless activation is "all". A
// loaded model uses GPU memory even without requests, so the signal would keep the workload active forever.
func (c *compiler) checkIdle() {
	for i, s := range c.sources {
		if s.Type == policy.SourceDCGM && s.Metric == policy.GPUMemory && c.policy.Signals[i].Activation == 0 &&
			c.policy.Activation != scaling.ActiveByAll {
			c.Reject(decode.Spec.Key("signals").At(i).Key("activationTarget"),
				"is missing: a loaded model uses GPU memory without any request, so with minReplicas 0 the workload would never be idle",
				"a percentage above what the loaded model uses, such as 60%; or activation: all; or minReplicas of 1 or more")
		}
	}
}

func (c *compiler) existsAtZero(s policy.Source) bool {
	switch {
	case s.Type.ReadsPods():
		return false
	case s.QueryName != "":
		q := c.Platform.Query(s.QueryName)
		return q == nil || q.ExistsAtZero
	case s.Type == policy.SourcePrometheus:
		expr, err := promql.Parse(s.Query)
		return err != nil || !promql.OnlyFromPods(expr)
	}
	return true
}

// knownTrigger checks that the ScaledObject has the trigger that a keda signal names, if the triggers of the ScaledObject are known.
func (c *compiler) knownTrigger(name string, p *decode.Path) {
	if c.Object == nil || c.Object.Triggers == nil || name == "" || slices.Contains(c.Object.Triggers, name) {
		return
	}
	c.Reject(p, "the ScaledObject has no trigger of this name"+wording.DidYouMean(name, c.Object.Triggers), wording.List(c.Object.Triggers))
}
