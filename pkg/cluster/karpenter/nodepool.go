package karpenter

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/schedulability"
)

// NodePool is a decoded NodePool. Object is the object as the API server returned it. Patches are computed from Object, so that fields
// which gpuscaler does not know, and the notation of values, do not change. The other fields are computed from Object.
type NodePool struct {
	Object *unstructured.Unstructured
	Spec   karpv1.NodePoolSpec
	// Schedulability determines which pods can run on nodes of the NodePool.
	Schedulability schedulability.NodePool
	// UnknownConsent is the first word in ConsentAnnotation that is not a field which gpuscaler can override. Empty: all words are such
	// fields.
	UnknownConsent string
	// Holder is the Lease of the release that wrote the override record (see RecordAnnotation), as NAMESPACE/NAME. Empty: HolderAnnotation is
	// not set.
	Holder string
	// Ours is true if the NodePool has a record that gpuscaler wrote, or a field that gpuscaler owns.
	Ours bool
	// Err is the reason why the object could not be decoded. If it is set, Spec is empty, and the pods that can run on nodes of the NodePool
	// are unknown.
	Err error

	view  capacity.PoolView // the result of View without the usage, and without the marks of fields that the CRD lacks
	usage corev1.ResourceList
}

// DecodeNodePool decodes a NodePool. If it cannot be decoded, the result has Err and the fields that could be read.
func DecodeNodePool(u *unstructured.Unstructured) *NodePool {
	p := &NodePool{Object: u}
	p.view.Ready = true
	typed, err := decodeTyped[karpv1.NodePool](u)
	if p.Err = err; err == nil {
		p.Spec, p.usage = typed.Spec, typed.Status.Resources
		p.Schedulability = schedulability.Of(u.GetName(), &p.Spec.Template)
		p.view.Ready = !isFalse(typed, "Ready")
		p.view.NodeGPUs, p.view.Mixed = largestNode(&p.Spec.Template), p.launchesSpotAndOthers()
		p.view.Quiet = quietTimes(p.Spec.Disruption.Budgets)
		p.view.LaunchesOnDemand = p.Schedulability.Allows(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeReserved) &&
			p.Schedulability.Allows(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand)
	}
	annotations, owned := u.GetAnnotations(), ownership.Read(u.GetManagedFields())
	v := &p.view
	v.Exists, v.UID = u.GetDeletionTimestamp() == nil, string(u.GetUID())
	v.Record, v.Template = annotations[RecordAnnotation], annotations[karpv1.NodePoolHashAnnotationKey]
	v.RecordOurs = slices.ContainsFunc(owned.Owners("metadata", "annotations", RecordAnnotation),
		func(o ownership.Owner) bool { return o.Manager == ownership.Manager })
	v.Consent, p.UnknownConsent = nodepool.ConsentOf(annotations[ConsentAnnotation])
	v.Weight = p.field(owned, nodepool.FieldWeight.Path(""))
	v.ConsolidateAfter = p.field(owned, nodepool.FieldConsolidateAfter.Path(""))
	v.ConsolidationPolicy = p.field(owned, nodepool.FieldConsolidationPolicy.Path(""))
	v.Budgets = p.field(owned, nodepool.FieldBudgets.Path(""))
	limits, _, _ := unstructured.NestedMap(u.Object, "spec", "limits")
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		v.Limits = append(v.Limits, nodepool.LimitView{Resource: name, FieldView: p.field(owned, nodepool.FieldLimit.Path(name))})
	}
	p.Holder = annotations[HolderAnnotation]
	p.Ours = v.Record != "" || ownership.HasManager(u.GetManagedFields(), ownership.Manager)
	return p
}

// quietTimes returns the times at which Karpenter replaces no drifted nodes, because a disruption budget with a schedule forbids it. It
// ignores a schedule that cannot be parsed. The API server rejects most invalid schedules.
func quietTimes(budgets []karpv1.Budget) (all []capacity.QuietTime) {
	for i := range budgets {
		b := &budgets[i]
		if b.Schedule == nil || b.Duration == nil || strings.Trim(strings.TrimSuffix(b.Nodes, "%"), "0") != "" ||
			b.Reasons != nil && !slices.Contains(b.Reasons, karpv1.DisruptionReasonDrifted) {
			continue
		}
		parsed, err := cron.ParseStandard("TZ=UTC " + *b.Schedule) // schedules are in UTC, as in Budget.IsActive of Karpenter 1.15
		if s, ok := parsed.(*cron.SpecSchedule); ok && err == nil {
			all = append(all, capacity.QuietTime{Duration: b.Duration.Duration,
				Start: calendar.Cron{Minute: s.Minute, Hour: s.Hour, DayOfMonth: s.Dom, Month: s.Month, DayOfWeek: s.Dow}})
		}
	}
	return all
}

// decodeTyped converts an object of Karpenter's v1 API to its type.
func decodeTyped[T any](u *unstructured.Unstructured) (*T, error) {
	typed := new(T)
	if version := u.GetAPIVersion(); version == UnsupportedVersion {
		return typed, fmt.Errorf("%s %s is written as %s, which is not supported: %s", u.GetKind(), u.GetName(), version, HowToConvert)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
		return typed, fmt.Errorf("decode %s %s: %w", u.GetKind(), u.GetName(), err)
	}
	return typed, nil
}

// Name returns the name of the NodePool.
func (p *NodePool) Name() string { return p.Object.GetName() }

// Exists reports whether the NodePool has no deletion timestamp.
func (p *NodePool) Exists() bool { return p.view.Exists }

// Static reports whether the NodePool has a fixed number of nodes (spec.replicas).
func (p *NodePool) Static() bool { return p.Spec.Replicas != nil }

// Record returns the value of the record annotation.
func (p *NodePool) Record() string { return p.view.Record }

// Consent returns the fields that the owner of the NodePool permits gpuscaler to override.
func (p *NodePool) Consent() nodepool.Consent { return p.view.Consent }

// Limits returns the limits in spec.limits, sorted by resource.
func (p *NodePool) Limits() []nodepool.LimitView { return p.view.Limits }

// ConsolidateAfter returns the value of spec.disruption.consolidateAfter as JSON. It is empty if the field is not set.
func (p *NodePool) ConsolidateAfter() nodepool.Value { return p.view.ConsolidateAfter.Value }

// Used returns how much of a resource the nodes of the NodePool have together, according to status.resources.
func (p *NodePool) Used(name string) int64 { return wholeCount(p.usage, name) }

// UsedResources returns the names of the resources whose amount in status.resources is above 0. status.resources is the sum over all nodes
// of the NodePool.
func (p *NodePool) UsedResources() (names []string) {
	for name, q := range p.usage {
		if q.Sign() > 0 {
			names = append(names, string(name))
		}
	}
	return names
}

// Reference returns the object reference that an Event about the NodePool contains.
func (p *NodePool) Reference() corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: p.Object.GetAPIVersion(), Kind: NodePoolKind.Kind, Name: p.Name(), UID: p.Object.GetUID()}
}

// field returns the value at a path of the NodePool, whether gpuscaler owns the field, and the other field managers that own it.
func (p *NodePool) field(owned ownership.Fields, path nodepool.Path) nodepool.FieldView {
	v := nodepool.FieldView{}
	if value, found, _ := unstructured.NestedFieldNoCopy(p.Object.Object, path...); found {
		v.Value = EncodeValue(value)
	}
	var others []string
	for _, o := range owned.Owners(path...) {
		if o.Manager == ownership.Manager {
			v.Ours = true
			continue
		}
		others = append(others, o.String())
	}
	v.Owner = strings.Join(others, ",")
	return v
}

// EncodeValue returns a value of an object as JSON, the form in which package capacity stores values.
func EncodeValue(value any) nodepool.Value {
	text, err := json.Marshal(value)
	if err != nil {
		return "" // cannot occur: the value was decoded from JSON
	}
	return nodepool.Value(text)
}

// largestNode returns the number of GPUs of the largest instance type that the NodePool can launch. This is the greatest value of a
// requirement on instance-gpu-count with the operator In, or 0 without such a requirement.
func largestNode(template *karpv1.NodeClaimTemplate) (gpus int64) {
	for i := range template.Spec.Requirements {
		r := &template.Spec.Requirements[i]
		if !strings.HasSuffix(r.Key, "/instance-gpu-count") || r.Operator != corev1.NodeSelectorOpIn {
			continue
		}
		for _, value := range r.Values {
			if n, err := strconv.ParseInt(value, 10, 32); err == nil {
				gpus = max(gpus, n)
			}
		}
	}
	return gpus
}

// launchesSpotAndOthers reports whether the NodePool may launch spot nodes and nodes of another capacity type. A NodePool without a
// requirement on the capacity type launches spot and on-demand nodes.
func (p *NodePool) launchesSpotAndOthers() bool {
	types := []string{karpv1.CapacityTypeSpot, karpv1.CapacityTypeOnDemand}
	if p.Schedulability.Mentions(karpv1.CapacityTypeLabelKey) {
		types = append(types, karpv1.CapacityTypeReserved)
	}
	types = slices.DeleteFunc(types, func(t string) bool { return !p.Schedulability.Allows(karpv1.CapacityTypeLabelKey, t) })
	return len(types) > 1 && slices.Contains(types, karpv1.CapacityTypeSpot)
}

// View returns the NodePool as a capacity group observes it. Fields that the CRD does not have are marked as unsupported. The caller adds
// the nodes, launch failures and lost nodes.
func (p *NodePool) View(g *capacity.Group, claims []*NodeClaim, s Schema) capacity.PoolView {
	v := p.view
	v.Usage, v.Replicas = p.Used(g.Resource), p.Spec.Replicas
	v.Weight.Unsupported = p.Static() || !s.Weight
	v.ConsolidateAfter.Unsupported = !s.ConsolidateAfter
	v.ConsolidationPolicy.Unsupported = !s.ConsolidationPolicy
	v.Budgets.Unsupported = !s.Budgets
	v.Limits = slices.Clone(p.view.Limits)
	for _, name := range g.Limits() {
		if !slices.ContainsFunc(v.Limits, func(l nodepool.LimitView) bool { return l.Resource == name }) {
			v.Limits = append(v.Limits, nodepool.LimitView{Resource: name})
		}
	}
	for i := range v.Limits {
		l := &v.Limits[i]
		l.Unsupported = p.Static() || !s.Limits
		l.Used, l.Node = p.usedAndSmallest(l.Resource, claims)
	}
	return v
}

// usedAndSmallest returns how much of a resource all nodes of the NodePool provide (used), and the smallest amount above 0 that one of its
// nodes provides. used is the greater of two amounts, the sum over the NodeClaims and the amount in status.resources, because Karpenter
// updates status.resources with a delay.
func (p *NodePool) usedAndSmallest(name string, claims []*NodeClaim) (used, smallest float64) {
	for _, c := range claims {
		n := c.Capacity[name]
		if used += n; n > 0 && (smallest == 0 || n < smallest) {
			smallest = n
		}
	}
	return max(used, fractionOf(p.usage, name)), smallest
}

// isFalse reports whether a condition of the NodePool has the status False. It returns false for Unknown: after a change of the spec, Ready
// is Unknown until Karpenter has checked the NodePool, but Karpenter still launches nodes.
func isFalse(p *karpv1.NodePool, kind string) bool {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == kind {
			return p.Status.Conditions[i].Status == metav1.ConditionFalse
		}
	}
	return false
}

func fractionOf(list corev1.ResourceList, name string) float64 {
	q := list[corev1.ResourceName(name)]
	return fraction(&q)
}

func fraction(q *resource.Quantity) float64 { return max(q.AsApproximateFloat64(), 0) }

func wholeCount(list corev1.ResourceList, name string) int64 {
	q := list[corev1.ResourceName(name)]
	return max(q.Value(), 0)
}
