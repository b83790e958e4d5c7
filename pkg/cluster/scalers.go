package cluster

import (
	"slices"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Names by which an HPA reads a workload's number.
const (
	// DesiredReplicasMetric is the external metric that carries a workload's target.
	DesiredReplicasMetric = "gpuscaler-desired-replicas"
	// PolicyLabel selects the policy whose number is read.
	PolicyLabel = "gpuscaler.io/policy"

	// compositeMetric is what KEDA calls the result of scalingModifiers.
	compositeMetric = "composite-metric"

	kindHPA          = "HorizontalPodAutoscaler"
	kindScaledObject = "ScaledObject"
)

// Defaults of KEDA's ScaledObject.
const (
	kedaMinReplicas = 0
	kedaMaxReplicas = 100
)

// hpaFacts is what is kept of an HPA.
type hpaFacts struct {
	metav1.ObjectMeta
	target       ref
	scales       scaling.Target
	min, max     int32
	desired      int32
	inactive     string // why it does not act at present, by its own condition ScalingActive
	ours         bool   // one of its metrics is ours
	composite    bool   // it reads the formula of a ScaledObject, in which ours may stand
	policy       string // the policy whose number it reads; empty where a ScaledObject made it
	scaledObject string // the ScaledObject that made it
	operator     operatorFacts
	annotations  map[string]string // ours; nil where a ScaledObject made it, as KEDA copies its own annotations here
	spec         *autoscalingv2.HorizontalPodAutoscalerSpec
}

func trimHPA(obj any) (any, error) {
	h, ok := obj.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return obj, nil
	}
	t := h.Spec.ScaleTargetRef
	f := &hpaFacts{
		ObjectMeta: identity(&h.ObjectMeta),
		target:     refOf(h.Namespace, t.APIVersion, t.Kind, t.Name),
		scales:     scaling.Target{APIVersion: t.APIVersion, Kind: t.Kind, Name: t.Name},
		min:        1, max: h.Spec.MaxReplicas,
		desired:  h.Status.DesiredReplicas,
		inactive: inactive(h),
	}
	if h.Spec.MinReplicas != nil {
		f.min = *h.Spec.MinReplicas
	}
	for _, o := range h.OwnerReferences {
		if o.Kind == kindScaledObject && strings.HasPrefix(o.APIVersion, "keda.sh/") {
			f.scaledObject = o.Name
		}
	}
	f.policy, f.ours = readsOurs(&h.Spec)
	f.composite = f.scaledObject != "" && readsComposite(&h.Spec)
	if f.ours || f.composite {
		f.spec = &h.Spec
	}
	if f.scaledObject == "" {
		f.operator = readOperator(h.Annotations, h.ManagedFields)
		f.annotations = ourAnnotations(h.Annotations)
	}
	return f, nil
}

// inactive says why an HPA does not act: it could not read its metric, for example. At zero replicas every HPA is inactive, which
// is no fault of its own.
func inactive(h *autoscalingv2.HorizontalPodAutoscaler) string {
	for _, c := range h.Status.Conditions {
		if c.Type == autoscalingv2.ScalingActive && c.Status == corev1.ConditionFalse && c.Reason != "ScalingDisabled" {
			return "it holds: " + c.Reason
		}
	}
	return ""
}

// readsOurs finds our metric among an HPA's metrics. KEDA puts "s<index>-" before a trigger's metric name and chooses by its own
// label, so the policy's name is empty there.
func readsOurs(spec *autoscalingv2.HorizontalPodAutoscalerSpec) (policy string, ours bool) {
	for i := range spec.Metrics {
		m := spec.Metrics[i].External
		if m == nil || !isOurMetric(m.Metric.Name) {
			continue
		}
		if m.Metric.Selector != nil {
			policy = m.Metric.Selector.MatchLabels[PolicyLabel]
		}
		return policy, true
	}
	return "", false
}

// readsComposite tells whether an HPA reads what KEDA's formula makes of all triggers.
func readsComposite(spec *autoscalingv2.HorizontalPodAutoscalerSpec) bool {
	return slices.ContainsFunc(spec.Metrics, func(m autoscalingv2.MetricSpec) bool {
		return m.External != nil && m.External.Metric.Name == compositeMetric
	})
}

func isOurMetric(name string) bool {
	if name == DesiredReplicasMetric {
		return true
	}
	index, rest, found := strings.Cut(name, "-")
	return found && rest == DesiredReplicasMetric && len(index) > 1 && index[0] == 's' &&
		strings.Trim(index[1:], "0123456789") == ""
}

func ourAnnotations(all map[string]string) map[string]string {
	var ours map[string]string
	for k, v := range all {
		if strings.HasPrefix(k, annotations.Prefix) {
			if ours == nil {
				ours = map[string]string{}
			}
			ours[k] = v
		}
	}
	return ours
}

// scaledObjectFacts is what is kept of a KEDA ScaledObject.
type scaledObjectFacts struct {
	metav1.ObjectMeta
	target      ref
	scales      scaling.Target
	min, max    int32
	cooldown    int64 // seconds; -1 where it is not set
	pause       kedaPause
	manage      kedaManage
	lint        scaledObjectLint
	operator    operatorFacts
	annotations map[string]string
	metadata    map[string]string // of the trigger that points at us
	triggers    []string          // names
	metrics     map[string]string // by trigger: the external metric that KEDA serves for it; empty where that is not certain
}

func trimScaledObject(obj any) (any, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	annotations := u.GetAnnotations()
	m := metav1.ObjectMeta{Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion()}
	kind, _, _ := unstructured.NestedString(u.Object, "spec", "scaleTargetRef", "kind")
	version, _, _ := unstructured.NestedString(u.Object, "spec", "scaleTargetRef", "apiVersion")
	name, _, _ := unstructured.NestedString(u.Object, "spec", "scaleTargetRef", "name")
	f := &scaledObjectFacts{
		ObjectMeta:  m,
		target:      refOf(m.Namespace, version, kind, name),
		scales:      targetOr(version, kind, name),
		min:         int32(numberOr(u, kedaMinReplicas, "spec", "minReplicaCount")),
		max:         int32(numberOr(u, kedaMaxReplicas, "spec", "maxReplicaCount")),
		cooldown:    numberOr(u, -1, "spec", "cooldownPeriod"),
		pause:       readPause(annotations, u.GetManagedFields()),
		manage:      readManage(annotations, u.GetManagedFields()),
		operator:    readOperator(annotations, u.GetManagedFields()),
		annotations: ourAnnotations(annotations),
		metrics:     metricsOfTriggers(u),
	}
	f.readTriggers(u)
	f.lint = readScaledObjectLint(u, f)
	return f, nil
}

// readTriggers keeps the triggers' names, and the metadata of the one that asks us: an external scaler that is named gpuscaler or
// whose address says so.
func (f *scaledObjectFacts) readTriggers(u *unstructured.Unstructured) {
	triggers, _, _ := unstructured.NestedSlice(u.Object, "spec", "triggers")
	f.triggers = []string{}
	for _, t := range triggers {
		trigger, _ := t.(map[string]any)
		name, _, _ := unstructured.NestedString(trigger, "name")
		if name != "" {
			f.triggers = append(f.triggers, name)
		}
		if f.metadata == nil && asksUs(trigger) {
			if f.metadata, _, _ = unstructured.NestedStringMap(trigger, "metadata"); f.metadata == nil {
				f.metadata = map[string]string{}
			}
		}
	}
}

func asksUs(trigger map[string]any) bool {
	name, _, _ := unstructured.NestedString(trigger, "name")
	kind, _, _ := unstructured.NestedString(trigger, "type")
	address, _, _ := unstructured.NestedString(trigger, "metadata", "scalerAddress")
	return (kind == "external" || kind == "external-push") && (name == fieldManager || strings.Contains(address, fieldManager))
}

func numberOr(u *unstructured.Unstructured, fallback int64, fields ...string) int64 {
	n, found, err := unstructured.NestedInt64(u.Object, fields...)
	if !found || err != nil {
		return fallback
	}
	return min(max(n, 0), maxReplicas)
}
