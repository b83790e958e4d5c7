package cluster

import (
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// Names by which an HPA reads a workload's number.
const (
	// DesiredReplicasMetric is the external metric that carries a workload's target.
	DesiredReplicasMetric = "gpuscaler-desired-replicas"
	// PolicyLabel selects the policy whose number is read.
	PolicyLabel = "gpuscaler.io/policy"

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
	min, max     int32
	desired      int32
	ours         bool   // one of its metrics is ours
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
		min:        1, max: h.Spec.MaxReplicas,
		desired: h.Status.DesiredReplicas,
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
	if f.ours {
		f.spec = &h.Spec
	}
	if f.scaledObject == "" {
		f.operator = readOperator(h.Annotations, h.ManagedFields)
		f.annotations = ourAnnotations(h.Annotations)
	}
	return f, nil
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
		if strings.HasPrefix(k, "gpuscaler.io/") {
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
	min, max    int32
	cooldown    int64 // seconds
	paused      bool  // KEDA deletes the HPA of a paused ScaledObject: nobody moves the replicas
	operator    operatorFacts
	annotations map[string]string
}

// kedaCooldown is KEDA's default cooldownPeriod in seconds.
const kedaCooldown = 300

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
	return &scaledObjectFacts{
		ObjectMeta:  m,
		target:      refOf(m.Namespace, version, kind, name),
		min:         int32(numberOr(u, kedaMinReplicas, "spec", "minReplicaCount")),
		max:         int32(numberOr(u, kedaMaxReplicas, "spec", "maxReplicaCount")),
		cooldown:    numberOr(u, kedaCooldown, "spec", "cooldownPeriod"),
		paused:      kedaPaused(annotations),
		operator:    readOperator(annotations, u.GetManagedFields()),
		annotations: ourAnnotations(annotations),
	}, nil
}

// kedaPaused follows KEDA's reading: a replica count pauses whatever else is said, and a value that is no boolean is true.
func kedaPaused(annotations map[string]string) bool {
	if _, ok := annotations["autoscaling.keda.sh/paused-replicas"]; ok {
		return true
	}
	v, ok := annotations["autoscaling.keda.sh/paused"]
	return ok && !isFalse(v)
}

func isFalse(v string) bool {
	switch v {
	case "0", "f", "F", "false", "FALSE", "False":
		return true
	}
	return false
}

func numberOr(u *unstructured.Unstructured, fallback int64, fields ...string) int64 {
	n, found, err := unstructured.NestedInt64(u.Object, fields...)
	if !found || err != nil {
		return fallback
	}
	return min(max(n, 0), maxReplicas)
}

// follow says who reads the number of a target and moves its replicas. An HPA that reads ours wins over one that does not;
// of two equals the first by name, so that the answer does not depend on the order of events.
func (t *target) follow() (engine.Follower, string, *hpaFacts) {
	h := t.readingHPA()
	switch {
	case t.scaledObject != nil:
		return t.followScaledObject(h)
	case h == nil:
		return engine.Follower{}, "", nil
	}
	f := engine.Follower{Kind: kindHPA, Name: h.Name, Desired: h.desired, Exact: true}
	if why := t.inexact(h); why != "" {
		f.Exact, f.Why = false, why
	}
	return f, h.policy, h
}

func (t *target) followScaledObject(h *hpaFacts) (engine.Follower, string, *hpaFacts) {
	so := t.scaledObject
	f := engine.Follower{Kind: kindScaledObject, Name: so.Name}
	switch {
	case so.paused:
		f.Why = "KEDA holds it: autoscaling.keda.sh/paused"
	case h == nil || h.scaledObject != so.Name:
		return engine.Follower{}, "", nil // none of its triggers is ours
	default:
		f.Desired, f.Exact = h.desired, true
		if why := t.inexact(h); why != "" {
			f.Exact, f.Why = false, why
		}
	}
	return f, "", h
}

// readingHPA is the HPA on the target that reads our metric; nil where none does.
func (t *target) readingHPA() *hpaFacts {
	var best *hpaFacts
	for _, h := range t.hpas {
		if h.ours && (best == nil || h.Name < best.Name) {
			best = h
		}
	}
	return best
}

// bounds are those of whoever stands on the target: -1, -1 where nobody does.
func (t *target) bounds() (lo, hi int32) {
	if t.scaledObject != nil {
		return t.scaledObject.min, t.scaledObject.max
	}
	h := t.readingHPA()
	for _, other := range t.hpas {
		if h == nil || (!h.ours && other.Name < h.Name) {
			h = other
		}
	}
	if h == nil {
		return -1, -1
	}
	return h.min, h.max
}

// inexact says in one sentence why an HPA will not follow every step; empty where it will.
func (t *target) inexact(h *hpaFacts) string {
	if found := Lint(h.object(), t.lintFacts(h)); len(found) > 0 {
		return found[0].Why
	}
	return ""
}

func (h *hpaFacts) object() *autoscalingv2.HorizontalPodAutoscaler {
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: h.ObjectMeta, Spec: *h.spec}
}

// lintFacts is what the objects around a target say about one of its HPAs; what policies say is added by the linter.
func (t *target) lintFacts(h *hpaFacts) Facts {
	f := Facts{Minor: t.minor, ScaledObject: h.scaledObject}
	for _, name := range sortedNames(t.hpas) {
		if name != h.Name {
			f.Others = append(f.Others, kindHPA+" "+name)
		}
	}
	if s := t.scaledObject; s != nil && s.Name != h.scaledObject {
		f.Others = append(f.Others, kindScaledObject+" "+s.Name)
	}
	return f
}
