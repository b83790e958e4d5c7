package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// ScalerAddress is the default address of gpuscaler's external scaler: the Service that the chart creates. Because of the scheme dns, the
// gRPC client in KEDA resolves the name again when the leader changes.
const ScalerAddress = "dns:///gpuscaler-scaler.gpuscaler-system.svc:9090"

// Options configures the manifests of ScaledObjects.
type Options struct {
	ScalerAddress string // address of gpuscaler's external scaler; if empty, the constant ScalerAddress is used
	// Authentication is the name of the ClusterTriggerAuthentication with KEDA's client certificate. If it is empty, TLS is not used.
	Authentication string
	// Formula adds a scalingModifiers.formula to the ScaledObject. The formula returns the policy's target or, while gpuscaler is not
	// available, the maximum of the mirror triggers. Without a formula, KEDA always uses the maximum of all triggers. Formula cannot be
	// combined with a signal of type keda.
	Formula bool
	// KEDA is the version of KEDA in the cluster.
	KEDA Version
	// NoMirror leaves out the mirror triggers.
	NoMirror bool
	// Triggers contains the triggers of the existing ScaledObject. Signals of type keda refer to them by name.
	Triggers []map[string]any
}

type scaledObjectSpec struct {
	ScaleTargetRef  targetRef `yaml:"scaleTargetRef,flow"`
	MinReplicaCount int32     `yaml:"minReplicaCount"`
	MaxReplicaCount int32     `yaml:"maxReplicaCount"`
	CooldownPeriod  int       `yaml:"cooldownPeriod"`
	Fallback        *fallback `yaml:"fallback,flow,omitempty"`
	Advanced        advanced  `yaml:"advanced"`
	Triggers        []trigger `yaml:"triggers"`
}

type fallback struct {
	FailureThreshold int    `yaml:"failureThreshold"`
	Replicas         int32  `yaml:"replicas"`
	Behavior         string `yaml:"behavior"`
}

type advanced struct {
	HPA       hpaConfig  `yaml:"horizontalPodAutoscalerConfig"`
	Modifiers *modifiers `yaml:"scalingModifiers,omitempty"`
}

type hpaConfig struct {
	Behavior behavior `yaml:"behavior"`
}

type modifiers struct {
	Formula          string `yaml:"formula"`
	Target           string `yaml:"target"`
	ActivationTarget string `yaml:"activationTarget"`
	MetricType       string `yaml:"metricType"`
}

// ScaledObject returns the manifest of a ScaledObject that follows a policy exactly. The ScaledObject has mirror triggers for the queues
// that the policy reads, with which KEDA can scale up while gpuscaler is not available. With Options.Formula, KEDA also scales down with
// the mirror triggers.
func ScaledObject(c *policy.Compiled, p *policy.Platform, o Options) (string, error) {
	w := &c.Workload
	m, err := newMirrors(c, p, &o)
	if err != nil {
		return "", err
	}
	written := scaledObjectSpec{
		ScaleTargetRef:  scaleTarget(w.Target),
		MinReplicaCount: w.Policy.MinReplicas, MaxReplicaCount: w.Policy.MaxReplicas,
		CooldownPeriod: cooldownOf(w.Policy.MinReplicas),
		Fallback:       fallbackOf(w.Policy.MinReplicas, len(m.triggers) > 0),
		Advanced:       advanced{HPA: hpaConfig{exactBehavior(o.KEDA)}},
		Triggers:       written(append([]map[string]any{scalerTrigger(o)}, m.triggers...)),
	}
	notes := append(modeNotes(w), o.KEDA.notes()...)
	if w.Policy.MinReplicas == 0 {
		notes = append(notes, fmt.Sprintf("The idle delay is the policy's %s. KEDA's cooldownPeriod only protects against a single wrong "+
			"poll: with 0, one "+
			"poll without an active trigger removes the last replicas, even while KEDA replaces its cache.", spec.Duration(w.Policy.CooldownPeriod)))
	}
	switch {
	case o.Formula && o.KEDA.before(formulaFallback):
		return "", fmt.Errorf("policy %s: KEDA %s has no fallback.behavior scalingModifiers (2.20 or later): leave --formula out", w.Key, o.KEDA)
	case o.Formula:
		if len(m.terms) == 0 {
			return "", fmt.Errorf("policy %s: KEDA can read no signal of it, so a formula has no fallback: leave --formula out", w.Key)
		}
		written.Fallback = &fallback{FailureThreshold: 0, Replicas: max(w.Policy.MinReplicas, 1), Behavior: "scalingModifiers"}
		written.Advanced.Modifiers = &modifiers{
			Formula: triggerName + " ?? " + maxOf(m.terms), Target: "1", ActivationTarget: "0", MetricType: "AverageValue",
		}
		notes = append(notes, "While gpuscaler is not available, the formula follows the mirror triggers up and down. "+
			"fallback.behavior scalingModifiers needs KEDA 2.20 or later.")
	case o.KEDA.before(fallbackBehavior):
		written.Fallback = nil
	default:
		notes = append(notes, outageNotes(w.Policy, m)...)
	}
	return manifest(append(notes, m.notes...), object{
		APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Metadata: metadata{w.Key.Name, w.Key.Namespace}, Spec: written,
	})
}

// kedaGuard is KEDA's cooldownPeriod in seconds, longer than two polls of KEDA. It is small because the policy already delays the scale to
// zero. With a cooldownPeriod of 0, KEDA would scale to zero after a single poll without an active trigger. The result of one poll can be
// wrong: KEDA 2.21 finds no active trigger while it rebuilds its cache, after an error of any trigger or a change of the spec.
const kedaGuard = 60

func cooldownOf(minReplicas int32) int {
	if minReplicas > 0 {
		return 0 // KEDA uses the cooldownPeriod only for the scale to zero
	}
	return kedaGuard
}

// fallbackOf returns the fallback of the ScaledObject. KEDA applies it to the trigger for gpuscaler while gpuscaler is not available.
// mirror is true if the ScaledObject has mirror triggers.
//
// With mirror triggers, failureThreshold is 0, so that the fallback applies at the first error. Without a fallback, KEDA 2.21 handles an
// error by deleting its cache of the ScaledObject. It then returns no metric of any trigger, and the mirror triggers cannot scale up.
//
// The fallback's replicas are never 0. With 0 replicas and a minReplicaCount of 0, KEDA would scale the workload to zero after an error,
// even before failureThreshold is reached.
func fallbackOf(minReplicas int32, mirror bool) *fallback {
	f := &fallback{FailureThreshold: 3, Replicas: max(minReplicas, 1), Behavior: "currentReplicasIfHigher"}
	if mirror {
		f.FailureThreshold = 0
	}
	return f
}

func outageNotes(p *scaling.Policy, m mirrorTriggers) (notes []string) {
	if len(m.triggers) == 0 {
		notes = append(notes, "While gpuscaler is not available, replicas do not change. fallback.behavior needs KEDA 2.17 or later.")
	} else {
		notes = append(notes, fmt.Sprintf("While gpuscaler is not available, replicas do not decrease, and the mirror triggers can increase "+
			"them. Their target is %d times the target of the policy, so that they normally have no effect. This needs KEDA 2.21 and "+
			"failureThreshold: 0; otherwise replicas do not change.", mirrorFactor))
	}
	if p.MinReplicas == 0 {
		when := "After the first failed poll"
		if len(m.triggers) == 0 {
			when = "After the third failed poll"
		}
		notes = append(notes, when+" KEDA treats the fallback as activity: a workload with 0 replicas then gets 1. "+
			"Without `fallback` it would keep 0 replicas until a mirror trigger is active.")
	}
	if len(m.triggers) > 0 && slices.ContainsFunc(p.Schedules, func(s scaling.Schedule) bool { return s.Max >= 0 }) {
		notes = append(notes, "The policy has a schedule with maxReplicas. KEDA uses the highest trigger, so a mirror trigger can exceed this "+
			"maximum: "+
			"use --mirror=false if it must not.")
	}
	return notes
}

func scaleTarget(t scaling.Target) targetRef {
	r := targetRef{Name: t.Name}
	if t.APIVersion != "apps/v1" || t.Kind != "Deployment" { // apiVersion and kind are omitted for a Deployment, because it is KEDA's default
		r.APIVersion, r.Kind = t.APIVersion, t.Kind
	}
	return r
}

// scalerTrigger returns the trigger that reads the policy's target from gpuscaler.
func scalerTrigger(o Options) map[string]any {
	address := o.ScalerAddress
	if address == "" {
		address = ScalerAddress
	}
	t := map[string]any{"type": "external-push", "name": triggerName, "metadata": map[string]any{"scalerAddress": address}}
	if o.Authentication != "" {
		t["authenticationRef"] = map[string]any{"name": o.Authentication, "kind": "ClusterTriggerAuthentication"}
	}
	return t
}

// trigger is a trigger of KEDA. In YAML, its type and name are written first.
type trigger map[string]any

func written(all []map[string]any) (triggers []trigger) {
	for _, t := range all {
		triggers = append(triggers, trigger(t))
	}
	return triggers
}

// MarshalYAML writes the fields in the order that KEDA's documentation uses.
func (t trigger) MarshalYAML() (any, error) {
	order := []string{"type", "name", "metricType", "metadata", "authenticationRef"}
	for _, key := range slices.Sorted(maps.Keys(t)) {
		if !slices.Contains(order, key) {
			order = append(order, key)
		}
	}
	out := &yaml.Node{Kind: yaml.MappingNode}
	for _, key := range order {
		v, ok := t[key]
		if !ok {
			continue
		}
		value := &yaml.Node{}
		if err := value.Encode(v); err != nil {
			return nil, err
		}
		if key == "authenticationRef" {
			value.Style = yaml.FlowStyle
		}
		out.Content = append(out.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
	}
	return out, nil
}

// maxOf returns the text of an expression for the maximum of the terms. The text can be an operand of the operator ?? in a formula.
func maxOf(terms []string) string {
	if len(terms) == 1 {
		return "(" + terms[0] + ")"
	}
	return "max(" + strings.Join(terms, ", ") + ")"
}
