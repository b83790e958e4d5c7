package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// fromHPA converts the metrics, bounds and behavior of an HPA to a policy. It sets p.Replacement to an HPA that reads the policy's target.
func (p *Plan) fromHPA(u *unstructured.Unstructured) (*spec.Policy, error) {
	if !strings.HasPrefix(u.GetAPIVersion(), "autoscaling/v2") {
		return nil, fmt.Errorf("its API version is %s: read it as autoscaling/v2 (kubectl get hpa.v2.autoscaling)", u.GetAPIVersion())
	}
	var h autoscalingv2.HorizontalPodAutoscaler
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &h); err != nil {
		return nil, err
	}
	for _, o := range h.OwnerReferences {
		if o.Kind == kindScaledObject {
			return nil, fmt.Errorf("KEDA owns it: import ScaledObject %s/%s", h.Namespace, o.Name)
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
	if len(h.Spec.Metrics) == 0 {
		p.lost("it has no metrics: Kubernetes then scales on CPU, which is not a signal")
		p.draftResource("an HPA without metrics")
	}
	if len(p.ReadExternalMetrics) > 0 {
		p.lost("the external metrics API (external.metrics.k8s.io) has one server, and another adapter serves this HPA's metric. gpuscaler " +
			"can serve " +
			"its target there only if it replaces that adapter; with KEDA, use gpuscaler's external scaler (gpuscaler manifests scaledobject)")
	}
	return out, p.replaceHPA(u)
}

// hpaMetric converts one metric of an HPA to a signal, and adds the signal to the policy out. If the metric cannot be converted, hpaMetric
// adds the reason to p.Lost. It returns ErrManaged if the metric is the target that gpuscaler serves.
func (p *Plan) hpaMetric(m *autoscalingv2.MetricSpec, out *spec.Policy) error {
	switch { // selects by the fields that are set, because the field type of an HPA in a file can contradict them
	case m.External != nil:
		if m.External.Metric.Name == metricName {
			return ErrManaged
		}
		p.externalMetric(m.External, out)
	case m.Resource != nil:
		p.resourceMetric(fmt.Sprintf("metric %s (%s)", m.Resource.Name, targetText(&m.Resource.Target)))
	case m.ContainerResource != nil:
		c := m.ContainerResource
		p.resourceMetric(fmt.Sprintf("metric %s of container %s (%s)", c.Name, c.Container, targetText(&c.Target)))
	case m.Pods != nil:
		p.podsMetric(m.Pods, out)
	case m.Object != nil:
		from := fmt.Sprintf("object metric %s of %s %s (%s)", m.Object.Metric.Name, m.Object.DescribedObject.Kind, m.Object.DescribedObject.Name,
			targetText(&m.Object.Target))
		p.lost("%s: custom.metrics.k8s.io is not read; read the same series with a prometheus signal", from)
		p.draftSeries(from, m.Object.Metric.Name, targetNumber(&m.Object.Target))
	default:
		p.lost("metric of type %q: it has no content", m.Type)
	}
	return nil
}

func (p *Plan) resourceMetric(from string) {
	p.lost("%s: CPU and memory are not signals; for a GPU workload use dcgm (GPU activity) and a queue", from)
	p.draftResource(from)
}

// podsMetric converts a metric of type Pods if it is a known metric of a model server or of DCGM.
func (p *Plan) podsMetric(m *autoscalingv2.PodsMetricSource, out *spec.Policy) {
	from := fmt.Sprintf("pods metric %s (%s)", m.Metric.Name, targetText(&m.Target))
	if _, series, found := knownIn(m.Metric.Name); found && m.Target.AverageValue != nil {
		if s := series.signal(m.Target.AverageValue.AsApproximateFloat64()); s != nil {
			s.Name = signalName(m.Metric.Name, out)
			out.Signals = append(out.Signals, *s)
			if s.Type == "dcgm" {
				p.lost("%s: the dcgm signal needs a data source of type prometheus in the PlatformConfig, or of type scrape with profile dcgm", from)
			}
			return
		}
	}
	p.lost("%s: custom.metrics.k8s.io is not read; read the same series with a prometheus signal with metricType: Value", from)
	p.draftSeries(from, m.Metric.Name, targetNumber(&m.Target))
}

// targetText returns the target of a metric as text for messages.
func targetText(t *autoscalingv2.MetricTarget) string {
	switch {
	case t.AverageUtilization != nil:
		return fmt.Sprintf("%d%% utilization", *t.AverageUtilization)
	case t.AverageValue != nil:
		return "average " + t.AverageValue.String()
	case t.Value != nil:
		return "value " + t.Value.String()
	}
	return "no target"
}

// targetNumber returns the target of a metric as a number for the draft of a signal. If the target is no number, it returns a text that
// asks the user to choose a number.
func targetNumber(t *autoscalingv2.MetricTarget) string {
	switch {
	case t.AverageValue != nil:
		return number(t.AverageValue.AsApproximateFloat64())
	case t.Value != nil:
		return number(t.Value.AsApproximateFloat64())
	}
	return "TODO   # the original metric has no target value: choose the highest value that the query may have"
}

// externalMetric converts an external metric to a signal that reads the same metric.
func (p *Plan) externalMetric(m *autoscalingv2.ExternalMetricSource, out *spec.Policy) {
	s := spec.Signal{Name: signalName(m.Metric.Name, out), Type: "external", Metric: m.Metric.Name}
	quantity := m.Target.AverageValue
	if m.Target.Type == autoscalingv2.ValueMetricType {
		quantity, s.MetricType = m.Target.Value, "Value"
	}
	if quantity == nil {
		p.lost("external metric %s: it has no target", m.Metric.Name)
		return
	}
	if sel := m.Metric.Selector; sel != nil {
		s.MatchLabels = maps.Clone(sel.MatchLabels)
		for _, e := range sel.MatchExpressions {
			p.lost("external metric %s: matchExpressions on %s is not converted; a signal has only matchLabels", m.Metric.Name, e.Key)
		}
	}
	if s.Target = p.amount(quantity.AsApproximateFloat64(), "external metric "+m.Metric.Name); s.Target != nil {
		out.Signals = append(out.Signals, s)
		p.ReadExternalMetrics = append(p.ReadExternalMetrics, m.Metric.Name)
	}
}

// amount returns v as the target of a signal. If v is not above 0, it returns nil and adds an entry to p.Lost. The parameter what is the
// name of the metric in this entry.
func (p *Plan) amount(v float64, what string) *spec.Amount {
	if v > 0 {
		if a, err := spec.NewAmount(number(v)); err == nil {
			return a
		}
	}
	p.lost("%s: its target is %s, but a target must be above 0", what, number(v))
	return nil
}

// replaceHPA sets p.Replacement to an HPA that follows the policy exactly. The HPA has the same name, labels and bounds as the original
// HPA.
func (p *Plan) replaceHPA(u *unstructured.Unstructured) error {
	r := withoutServerFields(u)
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

// behaviorMap returns exactBehavior as a map.
func behaviorMap(v Version) map[string]any {
	b := exactBehavior(v)
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

// target returns a reference to a scale target. For a Deployment of apps/v1, only the name is set, because Deployment and apps/v1 are the
// defaults of a policy.
func target(apiVersion, kind, name string) *spec.TargetRef {
	t := &spec.TargetRef{Name: name}
	if kind != "" && (kind != "Deployment" || apiVersion != "" && apiVersion != "apps/v1") {
		t.APIVersion, t.Kind = apiVersion, kind
	}
	return t
}

// behaviorOf converts the behavior of an HPA to the behavior of a policy, which has the same fields.
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

// signalName derives the name of a signal from the text from. The name is valid in a formula and unique among the signals of the policy
// out.
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
