package migrate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

var errNothing = errors.New("nothing of it can be a signal or a schedule of a policy")

// fromHPA reads metrics, bounds and behavior, and writes the HPA that reads our number in their place.
func (p *Plan) fromHPA(u *unstructured.Unstructured) (*spec.Policy, error) {
	if !strings.HasPrefix(u.GetAPIVersion(), "autoscaling/v2") {
		return nil, fmt.Errorf("is of %s: read it as autoscaling/v2 (kubectl get hpa.v2.autoscaling)", u.GetAPIVersion())
	}
	var h autoscalingv2.HorizontalPodAutoscaler
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &h); err != nil {
		return nil, err
	}
	for _, o := range h.OwnerReferences {
		if o.Kind == kindScaledObject {
			return nil, fmt.Errorf("KEDA made it: import ScaledObject %s/%s", h.Namespace, o.Name)
		}
	}
	low, high := int32(1), h.Spec.MaxReplicas
	if h.Spec.MinReplicas != nil {
		low = *h.Spec.MinReplicas
	}
	out := &spec.Policy{
		ScaleTargetRef: target(h.Spec.ScaleTargetRef.APIVersion, h.Spec.ScaleTargetRef.Kind, h.Spec.ScaleTargetRef.Name),
		MinReplicas:    &low, MaxReplicas: &high, Behavior: behaviorOf(h.Spec.Behavior),
	}
	for i := range h.Spec.Metrics {
		if err := p.hpaMetric(&h.Spec.Metrics[i], out); err != nil {
			return nil, err
		}
	}
	if len(out.Signals) == 0 {
		return nil, p.nothing()
	}
	p.lose("external.metrics.k8s.io has one owner, and another adapter serves this HPA's metric through it. gpuscaler can serve its number there only in that adapter's place; beside KEDA, use its entrance.")
	return out, p.replaceHPA(u)
}

// nothing says what was lost, as there is no plan to list it.
func (p *Plan) nothing() error { return fmt.Errorf("%w: %s", errNothing, strings.Join(p.Lost, "; ")) }

func (p *Plan) hpaMetric(m *autoscalingv2.MetricSpec, out *spec.Policy) error {
	switch { // by what is there: a file may name one type and hold another
	case m.External != nil:
		if m.External.Metric.Name == metricName {
			return ErrOurs
		}
		p.externalMetric(m.External, out)
	case m.Resource != nil:
		p.lose("metric %s: CPU and memory are no signals here; for a GPU workload use dcgm (GPU activity) beside a queue", m.Resource.Name)
	case m.ContainerResource != nil:
		p.lose("metric %s of container %s: CPU and memory are no signals here; for a GPU workload use dcgm (GPU activity) beside a queue", m.ContainerResource.Name, m.ContainerResource.Container)
	case m.Pods != nil:
		p.lose("pods metric %s: custom.metrics.k8s.io is not read; write the same series as a prometheus signal with metricType: Value", m.Pods.Metric.Name)
	case m.Object != nil:
		p.lose("object metric %s of %s %s: custom.metrics.k8s.io is not read; write the same series as a prometheus signal", m.Object.Metric.Name, m.Object.DescribedObject.Kind, m.Object.DescribedObject.Name)
	default:
		p.lose("metric of type %q: it says nothing", m.Type)
	}
	return nil
}

func (p *Plan) externalMetric(m *autoscalingv2.ExternalMetricSource, out *spec.Policy) {
	s := spec.Signal{Name: signalName(m.Metric.Name, out), Type: "external", Metric: m.Metric.Name}
	quantity := m.Target.AverageValue
	if m.Target.Type == autoscalingv2.ValueMetricType {
		quantity, s.MetricType = m.Target.Value, "Value"
	}
	if quantity == nil {
		p.lose("external metric %s: it has no target", m.Metric.Name)
		return
	}
	if sel := m.Metric.Selector; sel != nil {
		s.MatchLabels = maps.Clone(sel.MatchLabels)
		for _, e := range sel.MatchExpressions {
			p.lose("external metric %s: matchExpressions on %s; a signal takes matchLabels only", m.Metric.Name, e.Key)
		}
	}
	if s.Target = p.amount(quantity.AsApproximateFloat64(), "external metric "+m.Metric.Name); s.Target != nil {
		out.Signals = append(out.Signals, s)
	}
}

// amount is a target as a policy writes it; nil, and lost, where it is none.
func (p *Plan) amount(v float64, what string) *spec.Amount {
	if v > 0 {
		if a, err := spec.NewAmount(number(v)); err == nil {
			return a
		}
	}
	p.lose("%s: a target of %s; it must be above 0", what, number(v))
	return nil
}

// replaceHPA keeps the HPA's name, labels and bounds, and has it follow the policy exactly.
func (p *Plan) replaceHPA(u *unstructured.Unstructured) error {
	r := pristine(u)
	spec := r.Object["spec"].(map[string]any)
	spec["metrics"] = []any{map[string]any{"type": "External", "external": map[string]any{
		"metric": map[string]any{"name": metricName, "selector": map[string]any{"matchLabels": map[string]any{policyLabel: p.key.Name}}},
		"target": map[string]any{"type": "AverageValue", "averageValue": "1"},
	}}}
	spec["behavior"] = behaviorMap(0)
	var err error
	p.Replacement, err = render(r)
	return err
}

// behaviorMap is exactly, for an object that is kept as a map.
func behaviorMap(v Version) map[string]any {
	b := exactly(v)
	side := func(d direction) map[string]any {
		r := d.Policies[0]
		m := map[string]any{"stabilizationWindowSeconds": int64(d.Window), "policies": []any{
			map[string]any{"type": r.Type, "value": int64(r.Value), "periodSeconds": int64(r.PeriodSeconds)},
		}}
		if d.Tolerance != "" {
			m["tolerance"] = d.Tolerance
		}
		return m
	}
	return map[string]any{"scaleUp": side(b.ScaleUp), "scaleDown": side(b.ScaleDown)}
}

func target(apiVersion, kind, name string) *spec.TargetRef {
	t := &spec.TargetRef{Name: name}
	if kind != "" && (kind != "Deployment" || apiVersion != "" && apiVersion != "apps/v1") {
		t.APIVersion, t.Kind = apiVersion, kind
	}
	return t
}

// behaviorOf carries an HPA's behavior, whose words are ours.
func behaviorOf(b *autoscalingv2.HorizontalPodAutoscalerBehavior) *spec.Behavior {
	if b == nil {
		return nil
	}
	side := func(r *autoscalingv2.HPAScalingRules) *spec.Direction {
		if r == nil {
			return nil
		}
		d := &spec.Direction{StabilizationWindowSeconds: r.StabilizationWindowSeconds}
		if r.Tolerance != nil {
			t := spec.Tolerance(r.Tolerance.AsApproximateFloat64())
			d.Tolerance = &t
		}
		if r.SelectPolicy != nil {
			d.SelectPolicy = string(*r.SelectPolicy)
		}
		for _, rate := range r.Policies {
			d.Policies = append(d.Policies, spec.Rate{Type: string(rate.Type), Value: &rate.Value, PeriodSeconds: &rate.PeriodSeconds})
		}
		return d
	}
	return &spec.Behavior{ScaleUp: side(b.ScaleUp), ScaleDown: side(b.ScaleDown)}
}

// signalName makes a name that a formula can call and no other signal of the policy has.
func signalName(from string, out *spec.Policy) string {
	name := strings.ToLower(identifierOf(from))
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "s_" + name
	}
	taken := func(n string) bool {
		return slices.ContainsFunc(out.Signals, func(s spec.Signal) bool { return s.Name == n })
	}
	for i, base := 2, name; taken(name); i++ {
		name = fmt.Sprintf("%s_%d", base, i)
	}
	return name
}
