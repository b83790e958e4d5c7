package migrate

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// Defaults of KEDA's.
const (
	kedaMaxReplicas = 100
	kedaCooldown    = 300 * time.Second
)

// scaledObject is what an import reads of one.
type scaledObject struct {
	ScaleTargetRef struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Name       string `json:"name"`
	} `json:"scaleTargetRef"`
	MinReplicaCount, MaxReplicaCount, IdleReplicaCount *int32
	CooldownPeriod                                     *int32
	Fallback                                           *struct {
		FailureThreshold, Replicas int32
		Behavior                   string
	}
	Advanced *struct {
		HorizontalPodAutoscalerConfig *struct {
			Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior
		}
		ScalingModifiers *struct{ Formula, Target string }
	}
	Triggers []map[string]any
}

// fromScaledObject reads triggers, bounds, behavior and fallback. KEDA's triggers stay in the ScaledObject, with a coarse target, and are
// read through it, so that no credential moves; cron triggers become schedules.
func (p *Plan) fromScaledObject(u *unstructured.Unstructured, o Options) (*spec.Policy, error) {
	so, err := readScaledObject(u)
	if err != nil {
		return nil, err
	}
	low, high := int32(0), int32(kedaMaxReplicas)
	if so.MinReplicaCount != nil {
		low = *so.MinReplicaCount
	}
	if so.MaxReplicaCount != nil {
		high = *so.MaxReplicaCount
	}
	out := &spec.Policy{
		ScaleTargetRef: target(so.ScaleTargetRef.APIVersion, so.ScaleTargetRef.Kind, so.ScaleTargetRef.Name),
		MinReplicas:    &low, MaxReplicas: &high, CooldownPeriod: so.idle(),
	}
	p.advanced(so, out)
	var triggers []any
	for i, t := range so.Triggers {
		if isOurs(t) {
			return nil, ErrOurs
		}
		if kept := p.trigger(i, copied(t), out); kept != nil {
			triggers = append(triggers, kept)
		}
	}
	if len(out.Signals)+len(out.Schedules) == 0 {
		return nil, p.nothing()
	}
	// Ours is last: the names under which KEDA publishes the others begin with their place, and roles name them.
	for _, n := range o.KEDA.notes() {
		p.lose("%s", n)
	}
	return out, p.replaceScaledObject(u, so, o.KEDA, append(triggers, ours(o)))
}

func readScaledObject(u *unstructured.Unstructured) (*scaledObject, error) {
	text, err := json.Marshal(u.Object["spec"])
	if err != nil {
		return nil, err
	}
	var so scaledObject
	return &so, json.Unmarshal(text, &so)
}

// Triggers are those of a ScaledObject, for Options.Triggers.
func Triggers(u *unstructured.Unstructured) ([]map[string]any, error) {
	so, err := readScaledObject(u)
	return so.Triggers, err
}

// idle is the policy's part of the idle delay, which counts once: KEDA's where the ScaledObject sets it, else ours.
func (so *scaledObject) idle() *spec.Duration {
	d := spec.Duration(kedaCooldown)
	if so.CooldownPeriod != nil {
		d = 0
	}
	return &d
}

func (p *Plan) advanced(so *scaledObject, out *spec.Policy) {
	if a := so.Advanced; a != nil {
		if a.HorizontalPodAutoscalerConfig != nil {
			out.Behavior = behaviorOf(a.HorizontalPodAutoscalerConfig.Behavior)
		}
		if a.ScalingModifiers != nil && a.ScalingModifiers.Formula != "" {
			p.lose("scalingModifiers.formula %q (target %s): with it KEDA answers each trigger with the formula's result. Write it as the policy's formula (CEL); until then the greatest signal wins", a.ScalingModifiers.Formula, a.ScalingModifiers.Target)
		}
	}
	if so.IdleReplicaCount != nil {
		p.lose("idleReplicaCount %d: a policy idles at minReplicas", *so.IdleReplicaCount)
	}
	if f := so.Fallback; f != nil && f.Behavior != "scalingModifiers" {
		out.Fallback = &spec.Fallback{FailureThreshold: &f.FailureThreshold, Replicas: &f.Replicas, Behavior: f.Behavior}
	}
}

// trigger turns one trigger into a signal or a schedule, and returns it as it stays in the ScaledObject; nil where it does not.
func (p *Plan) trigger(i int, t map[string]any, out *spec.Policy) map[string]any {
	kind, _ := t["type"].(string)
	switch kind {
	case "cron":
		if p.schedule(i, t, out) {
			return nil
		}
		return t
	case "cpu", "memory":
		p.lose("trigger %s: it stays in the ScaledObject, where the HPA reads it beside our number and takes the greater; it is no signal of the policy", kind)
		return t
	}
	name, _ := t["name"].(string)
	if name == "" {
		name = fmt.Sprintf("%s-%d", kind, i) // a signal calls it by its name
		t["name"] = name
	}
	_, value, known := targetOf(t)
	if !known {
		p.lose("trigger %s: it is not known which field of type %s is its target. It stays in the ScaledObject as it is; write `{name: %s, type: keda, trigger: %s, target: ...}` into the policy and give the trigger about %d times that", name, kind, strings.ToLower(identifierOf(name)), name, coarse)
		return t
	}
	amount := p.amount(value, "trigger "+name)
	if amount == nil {
		return t
	}
	s := spec.Signal{Name: signalName(name, out), Type: "keda", Trigger: name, Target: amount}
	if text, _ := t["metricType"].(string); text == "Value" {
		s.MetricType = "Value"
	}
	activation := activationOf(t)
	if activation > 0 {
		s.ActivationTarget, _ = spec.NewAmount(number(activation)) // a float's own text is a number
	}
	out.Signals = append(out.Signals, s)
	aim(t, value*coarse, activation)
	return t
}

// schedule turns a cron trigger into a floor; false where it is not one that can be read.
func (p *Plan) schedule(i int, t map[string]any, out *spec.Policy) bool {
	metadata, _ := t["metadata"].(map[string]any)
	text := func(key string) string { return strings.TrimSpace(textOf(metadata[key])) }
	floor, err := strconv.ParseInt(text("desiredReplicas"), 10, 32)
	if err != nil || text("start") == "" || text("end") == "" || text("timezone") == "" {
		p.lose("cron trigger %d: it stays in the ScaledObject, because start, end, timezone or desiredReplicas cannot be read", i)
		return false
	}
	name, _ := t["name"].(string)
	if name == "" {
		name = fmt.Sprintf("cron-%d", i)
	}
	n := int32(floor)
	out.Schedules = append(out.Schedules, spec.Schedule{
		Name: name, Timezone: text("timezone"), Start: text("start"), End: text("end"), MinReplicas: &n,
	})
	return true
}

// replaceScaledObject keeps everything that KEDA alone reads.
func (p *Plan) replaceScaledObject(u *unstructured.Unstructured, so *scaledObject, v Version, triggers []any) error {
	r := pristine(u)
	spec := r.Object["spec"].(map[string]any)
	spec["triggers"] = triggers
	least := int32(0)
	if so.MinReplicaCount != nil {
		least = *so.MinReplicaCount
	}
	f := stay(least, len(triggers) > 1)
	delete(spec, "fallback")
	if !v.before(fallbackBehavior) {
		spec["fallback"] = map[string]any{"failureThreshold": int64(f.FailureThreshold), "replicas": int64(f.Replicas), "behavior": f.Behavior}
	}
	if so.CooldownPeriod == nil {
		spec["cooldownPeriod"] = int64(guard)
	}
	unstructured.RemoveNestedField(r.Object, "spec", "advanced", "scalingModifiers")
	if err := unstructured.SetNestedMap(r.Object, behaviorMap(v), "spec", "advanced", "horizontalPodAutoscalerConfig", "behavior"); err != nil {
		return err
	}
	delete(spec, "idleReplicaCount")
	var err error
	p.Replacement, err = render(r)
	return err
}

// isOurs knows a trigger that asks gpuscaler, as package cluster does.
func isOurs(t map[string]any) bool {
	kind, _ := t["type"].(string)
	metadata, _ := t["metadata"].(map[string]any)
	address, _ := metadata["scalerAddress"].(string)
	return (kind == "external" || kind == "external-push") && (t["name"] == triggerName || strings.Contains(address, triggerName))
}
