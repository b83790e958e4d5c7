package migrate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// Defaults of a ScaledObject in KEDA.
const (
	kedaMaxReplicas = 100
	kedaCooldown    = 300 * time.Second
)

// scaledObject contains the fields of a ScaledObject that an import converts.
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

// fromScaledObject converts the triggers, bounds, behavior and fallback of a ScaledObject to a policy, and sets p.Replacement. It converts
// cron triggers to schedules. For each other trigger, the policy gets a signal of type keda, which reads the value of the trigger through
// KEDA, so that no credentials must be copied. These triggers remain in the ScaledObject with a higher target (see mirrorTarget).
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
		if isManaged(t) {
			return nil, ErrManaged
		}
		signals := len(out.Signals)
		if kept := p.trigger(i, copyTrigger(t), out); kept != nil {
			if len(out.Signals) > signals {
				p.readTrigger(u, i, len(triggers))
			}
			triggers = append(triggers, kept)
		}
	}
	// The trigger for gpuscaler is added at the end of the list. KEDA includes the index of a trigger in the name of its metric, so at the
	// beginning of the list, the new trigger would change the metric names of all other triggers.
	for _, n := range o.KEDA.notes() {
		p.lost("%s", n)
	}
	return out, p.replaceScaledObject(u, so, o.KEDA, append(triggers, scalerTrigger(o)))
}

// readTrigger adds two metric names of a trigger to p.ReadExternalMetrics: one with the index of the trigger in the original ScaledObject
// (before), and one with its index in the replacement (after).
func (p *Plan) readTrigger(u *unstructured.Unstructured, before, after int) {
	names, _, _ := unstructured.NestedStringSlice(u.Object, "status", "externalMetricNames")
	for _, name := range names {
		rest, found := strings.CutPrefix(name, fmt.Sprintf("s%d-", before))
		if !found {
			continue
		}
		for _, name := range []string{fmt.Sprintf("s%d-%s", after, rest), name} {
			if !slices.Contains(p.ReadExternalMetrics, name) {
				p.ReadExternalMetrics = append(p.ReadExternalMetrics, name)
			}
		}
		return
	}
	p.lost("the name of the metric of trigger %d is unknown, because the object has no status.externalMetricNames: import it from the "+
		"cluster, and "+
		"list the names in the chart value readExternalMetrics", before)
}

func readScaledObject(u *unstructured.Unstructured) (*scaledObject, error) {
	text, err := json.Marshal(u.Object["spec"])
	if err != nil {
		return nil, err
	}
	var so scaledObject
	return &so, json.Unmarshal(text, &so)
}

// Triggers returns the triggers of a ScaledObject. Use the result as the value of Options.Triggers.
func Triggers(u *unstructured.Unstructured) ([]map[string]any, error) {
	so, err := readScaledObject(u)
	return so.Triggers, err
}

// idle returns the cooldownPeriod of the policy. If the original ScaledObject has a cooldownPeriod, the new ScaledObject keeps it, and the
// policy gets 0, so that the workload does not wait twice. Otherwise, the policy gets KEDA's default.
func (so *scaledObject) idle() *spec.Duration {
	d := spec.Duration(kedaCooldown)
	if so.CooldownPeriod != nil {
		d = 0
	}
	return &d
}

// advanced converts the fields behavior and fallback of a ScaledObject to fields of the policy out.
func (p *Plan) advanced(so *scaledObject, out *spec.Policy) {
	if a := so.Advanced; a != nil {
		if a.HorizontalPodAutoscalerConfig != nil {
			out.Behavior = behaviorOf(a.HorizontalPodAutoscalerConfig.Behavior)
		}
		if a.ScalingModifiers != nil && a.ScalingModifiers.Formula != "" {
			p.lost("scalingModifiers.formula %q (target %s): with it KEDA returns the result of the formula for every trigger. "+
				"Write it as the policy's formula (CEL); without one, the highest recommendation is "+
				"used", a.ScalingModifiers.Formula, a.ScalingModifiers.Target)
		}
	}
	if so.IdleReplicaCount != nil {
		p.lost("idleReplicaCount %d: an idle policy has minReplicas", *so.IdleReplicaCount)
	}
	if f := so.Fallback; f != nil && f.Behavior != "scalingModifiers" {
		out.Fallback = &spec.Fallback{FailureThreshold: &f.FailureThreshold, Replicas: &f.Replicas, Behavior: f.Behavior}
	}
}

// trigger converts the trigger t, which has the index i, to a signal or a schedule of the policy out. It returns the trigger for the new
// ScaledObject. It returns nil if the trigger became a schedule, because the new ScaledObject does not contain it.
func (p *Plan) trigger(i int, t map[string]any, out *spec.Policy) map[string]any {
	kind, _ := t["type"].(string)
	switch kind {
	case "cron":
		if p.schedule(i, t, out) {
			return nil
		}
		return t
	case "cpu", "memory":
		p.lost("trigger %s: it remains in the ScaledObject, where the HPA uses the maximum of it and the policy's target; it is not a "+
			"signal", kind)
		p.draftResource("trigger " + kind)
		return t
	}
	name, _ := t["name"].(string)
	if name == "" {
		name = fmt.Sprintf("%s-%d", kind, i) // the trigger needs a name, because the signal refers to it by name
		t["name"] = name
	}
	_, value, known := targetOf(t)
	if !known {
		p.lost("trigger %s: gpuscaler does not know which field of type %s is the target. The trigger remains in the ScaledObject as it is: "+
			"complete the draft of its signal in the policy, and set the target of the trigger to about %d times the target of the "+
			"signal", name, kind, mirrorFactor)
		p.draft("trigger "+name, "name: "+strings.ToLower(identifierOf(name)), "type: keda", "trigger: "+name, "target: TODO   # per replica")
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
		s.ActivationTarget, _ = spec.NewAmount(number(activation)) // no error is possible, because the text of a float is valid
	}
	out.Signals = append(out.Signals, s)
	p.draftKnown(name, t, value)
	setTarget(t, mirrorTarget(t, value), activation)
	return t
}

// draftKnown adds the draft of a signal to p if the query of the trigger contains a known metric of a model server or of DCGM. The user can
// replace the trigger with this signal, which reads the metric without KEDA.
func (p *Plan) draftKnown(name string, t map[string]any, target float64) {
	metadata, _ := t["metadata"].(map[string]any)
	series, k, found := knownIn(textOf(metadata["query"]))
	if !found {
		return
	}
	if s := k.signal(target); s != nil {
		p.draft(fmt.Sprintf("trigger %s, which reads %s (the signal can read it without KEDA)", name, series),
			"name: "+strings.ToLower(identifierOf(name)), "type: "+s.Type, "metric: "+s.Metric, "target: "+k.target(target))
	}
}

// mirrorTarget returns the target of a trigger in the new ScaledObject. value is the target of the original trigger. The result is higher,
// so that the trigger causes a scale-up only while gpuscaler is not available:
//
//   - For a total, or a mean of 100 or more, the result is mirrorFactor times the value.
//   - A mean below 1 is assumed to be a fraction, which cannot exceed 1. Any other mean below 100 is assumed to be a percentage, which
//     cannot exceed 100. The result is halfway between the value and this maximum.
func mirrorTarget(t map[string]any, value float64) float64 {
	if !isMean(t) || value >= 100 {
		return value * mirrorFactor
	}
	limit := 100.0
	if value < 1 {
		limit = 1
	}
	return (value + limit) / 2
}

// isMean reports whether a trigger measures a mean over the replicas, and not a total.
func isMean(t map[string]any) bool {
	if kind, _ := t["metricType"].(string); kind == "Value" {
		return true
	}
	metadata, _ := t["metadata"].(map[string]any)
	query := strings.TrimSpace(textOf(metadata["query"]))
	_, series, found := knownIn(query)
	return strings.HasPrefix(query, "avg") || found && series.percent > 0
}

// schedule converts a cron trigger to a schedule with minReplicas. It returns false if the trigger is not valid.
func (p *Plan) schedule(i int, t map[string]any, out *spec.Policy) bool {
	metadata, _ := t["metadata"].(map[string]any)
	text := func(key string) string { return strings.TrimSpace(textOf(metadata[key])) }
	floor, err := strconv.ParseInt(text("desiredReplicas"), 10, 32)
	if err != nil || text("start") == "" || text("end") == "" || text("timezone") == "" {
		p.lost("cron trigger %d: it remains in the ScaledObject, because start, end, timezone or desiredReplicas is not valid", i)
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

// replaceScaledObject sets p.Replacement to the original ScaledObject with the given triggers. It also sets the behavior, the fallback and
// the cooldownPeriod so that the ScaledObject follows the policy exactly.
func (p *Plan) replaceScaledObject(u *unstructured.Unstructured, so *scaledObject, v Version, triggers []any) error {
	r := withoutServerFields(u)
	spec := r.Object["spec"].(map[string]any)
	spec["triggers"] = triggers
	minReplicas := int32(0)
	if so.MinReplicaCount != nil {
		minReplicas = *so.MinReplicaCount
	}
	f := fallbackOf(minReplicas, len(triggers) > 1)
	delete(spec, "fallback")
	if !v.before(fallbackBehavior) {
		spec["fallback"] = map[string]any{"failureThreshold": int64(f.FailureThreshold), "replicas": int64(f.Replicas), "behavior": f.Behavior}
	}
	if so.CooldownPeriod == nil {
		spec["cooldownPeriod"] = int64(kedaGuard)
	}
	unstructured.RemoveNestedField(r.Object, "spec", "advanced", "scalingModifiers")
	path := []string{"spec", "advanced", "horizontalPodAutoscalerConfig", "behavior"}
	if err := unstructured.SetNestedMap(r.Object, behaviorMap(v), path...); err != nil {
		return err
	}
	delete(spec, "idleReplicaCount")
	var err error
	p.Replacement, err = render(r)
	return err
}

// isManaged reports whether a trigger reads its value from gpuscaler. Package cluster recognizes the triggers by the same names.
func isManaged(t map[string]any) bool {
	kind, _ := t["type"].(string)
	metadata, _ := t["metadata"].(map[string]any)
	address, _ := metadata["scalerAddress"].(string)
	return (kind == "external" || kind == "external-push") && (t["name"] == triggerName || strings.Contains(address, triggerName))
}
