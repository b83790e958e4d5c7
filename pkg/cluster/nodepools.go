package cluster

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
)

// Karpenter's kinds and words.
var (
	nodePoolKind     = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}
	nodeClaimKind    = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}
	nodePoolResource = nodePoolKind.GroupVersion().WithResource("nodepools")
)

const (
	nodePoolLabel     = "karpenter.sh/nodepool"
	capacityTypeLabel = "karpenter.sh/capacity-type"
	templateHash      = "karpenter.sh/nodepool-hash"

	// NudgeAnnotation is where a NodePool's owner hands fields over: "limits,weight,disruption".
	NudgeAnnotation = "gpuscaler.io/nudge"
	// RecordAnnotation is where we remember what we changed on a NodePool, and what it was.
	RecordAnnotation = "gpuscaler.io/record"
)

// poolFacts is what is kept of a NodePool: all of it, as there are few, and what it says in the words of package capacity.
type poolFacts struct {
	object       *unstructured.Unstructured
	view         capacity.PoolView // without nodes, usage and what the CRD's schema says
	usage        map[string]int64
	counted      map[string]float64 // usage with fractions
	static       bool
	unknownWord  string // of the consent
	labels       map[string]string
	requirements []requirement
	taints       []corev1.Taint
	holder       string // the release that wrote the record: the Lease that it leads by, NAMESPACE/NAME
	ours         bool   // our record stands on it, or a field is ours
}

func poolOf(u *unstructured.Unstructured) *poolFacts {
	annotations, owned := u.GetAnnotations(), ownership.Read(u.GetManagedFields())
	f := &poolFacts{object: u, labels: map[string]string{nodePoolLabel: u.GetName()}, usage: map[string]int64{}, counted: map[string]float64{}}
	_, f.static, _ = unstructured.NestedFieldNoCopy(u.Object, "spec", "replicas")
	v := &f.view
	v.Exists, v.Ready = u.GetDeletionTimestamp() == nil, !unready(u)
	v.Record, v.Template = annotations[RecordAnnotation], annotations[templateHash]
	f.holder = annotations[HolderAnnotation]
	v.Consent, f.unknownWord = capacity.ConsentOf(annotations[NudgeAnnotation])
	v.Weight = f.field(owned, "spec", "weight")
	v.ConsolidateAfter = f.field(owned, "spec", "disruption", "consolidateAfter")
	v.ConsolidationPolicy = f.field(owned, "spec", "disruption", "consolidationPolicy")
	v.Budgets = f.field(owned, "spec", "disruption", "budgets")
	limits, _, _ := unstructured.NestedMap(u.Object, "spec", "limits")
	for _, name := range sortedNames(limits) {
		v.Limits = append(v.Limits, capacity.LimitView{Resource: name, FieldView: f.field(owned, "spec", "limits", name)})
	}
	f.ours = v.Record != "" || ownership.HasManager(u.GetManagedFields(), fieldManager)
	used, _, _ := unstructured.NestedMap(u.Object, "status", "resources")
	for name, q := range used {
		f.usage[name], f.counted[name] = quantity(q), fraction(q)
	}
	f.readTemplate()
	return f
}

// field is what stands at a path, and who owns it.
func (f *poolFacts) field(owned ownership.Fields, path ...string) capacity.FieldView {
	v := capacity.FieldView{}
	if value, found, _ := unstructured.NestedFieldNoCopy(f.object.Object, path...); found {
		v.Value = valueOf(value)
	}
	for _, o := range owned.Owners(path...) {
		if o.Manager == fieldManager {
			v.Ours = true
			continue
		}
		if v.Owner != "" {
			v.Owner += ","
		}
		v.Owner += o.String()
	}
	return v
}

// valueOf prints a value as package capacity keeps it.
func valueOf(value any) capacity.Value {
	text, err := json.Marshal(value)
	if err != nil {
		return "" // what came as JSON goes as JSON
	}
	return capacity.Value(text)
}

func (f *poolFacts) readTemplate() {
	template := func(fields ...string) []string { return append([]string{"spec", "template"}, fields...) }
	labels, _, _ := unstructured.NestedStringMap(f.object.Object, template("metadata", "labels")...)
	for key, value := range labels {
		f.labels[stableName(key)] = value
	}
	taints, _, _ := unstructured.NestedSlice(f.object.Object, template("spec", "taints")...)
	for _, raw := range taints {
		t, _ := raw.(map[string]any)
		text := func(key string) string { s, _ := t[key].(string); return s }
		f.taints = append(f.taints, corev1.Taint{Key: text("key"), Value: text("value"), Effect: corev1.TaintEffect(text("effect"))})
	}
	requirements, _, _ := unstructured.NestedSlice(f.object.Object, template("spec", "requirements")...)
	types := []string{"spot", "on-demand"} // of a pool that does not say
	for _, raw := range requirements {
		m, _ := raw.(map[string]any)
		key, _ := m["key"].(string)
		operator, _ := m["operator"].(string)
		values, _, _ := unstructured.NestedStringSlice(m, "values")
		r := requirement{stableName(key), corev1.NodeSelectorOperator(operator), values}
		f.requirements = append(f.requirements, r)
		if key == capacityTypeLabel {
			types = slices.DeleteFunc(append(types, "reserved"), func(t string) bool { return !r.fits(t) })
		}
		if strings.HasSuffix(key, "/instance-gpu-count") && r.operator == corev1.NodeSelectorOpIn {
			for _, v := range values {
				if n, err := strconv.ParseInt(v, 10, 32); err == nil {
					f.view.NodeGPUs = max(f.view.NodeGPUs, n)
				}
			}
		}
	}
	f.view.Mixed = len(types) > 1 && slices.Contains(types, "spot")
}

// fits tells whether a value is one of the requirement's.
func (r *requirement) fits(value string) bool {
	return r.allows(corev1.NodeSelectorOpIn, []string{value}) != never
}

// of is the pool's view for one group's resource; what the CRD does not have is told apart.
func (f *poolFacts) of(g *capacity.Group, claims []*claimFacts, s nodeSchema) capacity.PoolView {
	resource := g.Resource
	v := f.view
	v.Usage = f.usage[resource]
	v.Weight.Unsupported = f.static || !s.weight
	v.ConsolidateAfter.Unsupported = !s.consolidateAfter
	v.ConsolidationPolicy.Unsupported = !s.consolidationPolicy
	v.Budgets.Unsupported = !s.budgets
	v.Limits = slices.Clone(f.view.Limits)
	for _, resource := range g.Limits() {
		if !slices.ContainsFunc(v.Limits, func(l capacity.LimitView) bool { return l.Resource == resource }) {
			v.Limits = append(v.Limits, capacity.LimitView{Resource: resource})
		}
	}
	for i := range v.Limits {
		l := &v.Limits[i]
		l.Unsupported = f.static || !s.limits
		l.Used, l.Node = f.counts(l.Resource, claims)
	}
	return v
}

// counts returns what the pool's nodes have of a resource, and the least that one of them has. Karpenter counts nodes in memory and writes
// status.resources later.
func (f *poolFacts) counts(resource string, claims []*claimFacts) (used, node float64) {
	for _, c := range claims {
		n := c.limited[resource]
		if used += n; n > 0 && (node == 0 || n < node) {
			node = n
		}
	}
	return max(used, f.counted[resource]), node
}

func conditionTrue(u *unstructured.Unstructured, kind string) bool {
	status, _ := conditionOf(u, kind)
	return status == string(metav1.ConditionTrue)
}

// unready tells a NodePool that Karpenter found wanting. Each write of a spec, ours too, makes the condition Unknown until Karpenter has
// looked again: that closes no pool.
func unready(u *unstructured.Unstructured) bool {
	status, _ := conditionOf(u, "Ready")
	return status == string(metav1.ConditionFalse)
}

func conditionOf(u *unstructured.Unstructured, kind string) (status, reason string) {
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, raw := range conditions {
		c, _ := raw.(map[string]any)
		if c["type"] == kind {
			status, _ = c["status"].(string)
			reason, _ = c["reason"].(string)
			return status, reason
		}
	}
	return "", ""
}

// fraction reads a quantity; 0 where it is none.
func fraction(value any) float64 {
	switch v := value.(type) {
	case int64:
		return max(float64(v), 0)
	case string:
		if q, err := resource.ParseQuantity(v); err == nil {
			return max(q.AsApproximateFloat64(), 0)
		}
	}
	return 0
}

// quantity reads a quantity as a whole number; 0 where it is none.
func quantity(value any) int64 {
	switch v := value.(type) {
	case int64:
		return max(v, 0)
	case string:
		q, err := resource.ParseQuantity(v)
		if err == nil {
			return max(q.Value(), 0)
		}
	}
	return 0
}
