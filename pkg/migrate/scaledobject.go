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

// ScalerAddress is where the chart's Service answers KEDA. The dns scheme makes KEDA look again when the leader moves.
const ScalerAddress = "dns:///gpuscaler-scaler.gpuscaler-system.svc:9090"

// Options say how a ScaledObject differs from the usual one.
type Options struct {
	ScalerAddress string // default: ScalerAddress
	// Authentication names the ClusterTriggerAuthentication with KEDA's client certificate; empty: plain text.
	Authentication string
	// Formula makes KEDA use a formula, ours or else the mirrors, in place of the greatest of all. It cannot stand beside a signal of
	// type keda.
	Formula bool
	// KEDA is the version that will read it.
	KEDA Version
	// NoMirror leaves out the coarse triggers.
	NoMirror bool
	// Triggers are those of the ScaledObject that stands now: the ones that signals of type keda name are kept from there.
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

// ScaledObject returns the ScaledObject that follows a policy exactly, with coarse mirrors of its queues beside our trigger: while
// gpuscaler is away KEDA still raises replicas on those, and nothing falls.
func ScaledObject(c *policy.Compiled, p *policy.Platform, o Options) (string, error) {
	w := &c.Workload
	m, err := mirrors(c, p, &o)
	if err != nil {
		return "", err
	}
	written := scaledObjectSpec{
		ScaleTargetRef:  scaleTarget(w.Target),
		MinReplicaCount: w.Policy.MinReplicas, MaxReplicaCount: w.Policy.MaxReplicas,
		CooldownPeriod: guardOf(w.Policy.MinReplicas),
		Fallback:       stay(w.Policy.MinReplicas, len(m.triggers) > 0),
		Advanced:       advanced{HPA: hpaConfig{exactly(o.KEDA)}},
		Triggers:       written(append([]map[string]any{ours(o)}, m.triggers...)),
	}
	notes := append(followerNotes(w), o.KEDA.notes()...)
	if w.Policy.MinReplicas == 0 {
		notes = append(notes, fmt.Sprintf("The idle delay is the policy's %s. KEDA's cooldownPeriod is only a guard: at 0 one look that finds no trigger active takes the last replicas, also one in which KEDA was just replacing its cache.", spec.Duration(w.Policy.CooldownPeriod)))
	}
	switch {
	case o.Formula && o.KEDA.before(formulaFallback):
		return "", fmt.Errorf("policy %s: KEDA %s has no fallback.behavior scalingModifiers, which came with 2.20: leave --formula out", w.Key, o.KEDA)
	case o.Formula:
		if len(m.terms) == 0 {
			return "", fmt.Errorf("policy %s: no signal of it can be read by KEDA itself, so there is nothing for a formula to fall back on: leave --formula out", w.Key)
		}
		written.Fallback = &fallback{FailureThreshold: 0, Replicas: max(w.Policy.MinReplicas, 1), Behavior: "scalingModifiers"}
		written.Advanced.Modifiers = &modifiers{Formula: triggerName + " ?? " + greatest(m.terms), Target: "1", ActivationTarget: "0", MetricType: "AverageValue"}
		notes = append(notes, "While gpuscaler is away the formula follows the mirrors, in replicas, both ways. fallback.behavior scalingModifiers needs KEDA 2.20 or later.")
	case o.KEDA.before(fallbackBehavior):
		written.Fallback = nil
	default:
		notes = append(notes, neverDark(w.Policy, m)...)
	}
	return manifest(append(notes, m.notes...), object{
		APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Metadata: metadata{w.Key.Name, w.Key.Namespace}, Spec: written,
	})
}

// guard is the cooldownPeriod of a ScaledObject whose idle delay is the policy's: two of KEDA's looks, so that the last one that found
// the workload active is never older. At 0 a look into a cache that is being replaced, which finds neither activity nor an error (KEDA
// 2.21, after an error of any trigger or a change of the spec), took seven replicas at once.
const guard = 60

func guardOf(minReplicas int32) int {
	if minReplicas > 0 {
		return 0 // KEDA never waits for it
	}
	return guard
}

// stay is what KEDA makes of our trigger while gpuscaler is away.
//
// With a mirror it acts at the first failure. An error that is passed on makes KEDA (2.21) drop its cache of the ScaledObject and our
// metric's spec with it, and a trigger without a spec makes it refuse every metric: the mirror would not raise.
//
// Its replicas are never 0: KEDA would take a workload with minReplicaCount 0 down at an error before failureThreshold is reached.
func stay(minReplicas int32, mirror bool) *fallback {
	f := &fallback{FailureThreshold: 3, Replicas: max(minReplicas, 1), Behavior: "currentReplicasIfHigher"}
	if mirror {
		f.FailureThreshold = 0
	}
	return f
}

func neverDark(p *scaling.Policy, m mirrored) (notes []string) {
	if len(m.triggers) == 0 {
		notes = append(notes, "While gpuscaler is away nothing moves. fallback.behavior needs KEDA 2.17 or later.")
	} else {
		notes = append(notes, fmt.Sprintf("While gpuscaler is away nothing falls, and the coarse mirror still raises (%d times the policy's target, so that it normally stays below our number). That needs KEDA 2.21, which streams what it knows of our metric, and failureThreshold: 0; before 2.21, and with a threshold above 0, everything stays where it is instead.", coarse))
	}
	if p.MinReplicas == 0 {
		when := "From the first failed poll on"
		if len(m.triggers) == 0 {
			when = "From the third failed poll on"
		}
		notes = append(notes, when+" KEDA takes a fallback for activity: a workload at 0 then gets 1 replica. Without `fallback` it would stay at 0 until a mirror wakes it.")
	}
	if len(m.triggers) > 0 && slices.ContainsFunc(p.Schedules, func(s scaling.Schedule) bool { return s.Max >= 0 }) {
		notes = append(notes, "The policy has a schedule with maxReplicas. KEDA takes the greatest trigger, so a mirror may raise above that ceiling: where the ceiling must win, leave the mirrors out (--mirror=false).")
	}
	return notes
}

func scaleTarget(t scaling.Target) targetRef {
	r := targetRef{Name: t.Name}
	if t.APIVersion != "apps/v1" || t.Kind != "Deployment" { // KEDA's default
		r.APIVersion, r.Kind = t.APIVersion, t.Kind
	}
	return r
}

// ours is the trigger that asks us.
func ours(o Options) map[string]any {
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

// trigger is written with its type and name first, as people do.
type trigger map[string]any

func written(all []map[string]any) (triggers []trigger) {
	for _, t := range all {
		triggers = append(triggers, trigger(t))
	}
	return triggers
}

// MarshalYAML orders the fields.
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

// greatest is a formula's right side of ??, which takes no bare operator beside it.
func greatest(terms []string) string {
	if len(terms) == 1 {
		return "(" + terms[0] + ")"
	}
	return "max(" + strings.Join(terms, ", ") + ")"
}
