package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	model "github.com/gpuscaler/gpuscaler/e2e/simulate/karpenter"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/schedule"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// pool is a NodePool with the values that its owner has set.
type pool struct {
	name, group, capacityType string
	weight, limit             int                  // the values in the manifest of the NodePool
	owner                     map[string]string    // the owner's value of each field as JSON, by the path of the field
	edited                    map[string]time.Time // last time at which the owner edited a field during an override, by field
	touched                   time.Time            // last time at which the owner edited any field
	consented                 time.Time            // last time at which the owner changed the consent annotation
}

const poolManifest = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s, annotations: {gpuscaler.io/nudge: "limits,weight,disruption", karpenter.sh/nodepool-hash: "1"}}
spec:
  weight: %d
  limits: {nvidia.com/gpu: "%d"}
  disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 1m, budgets: [{nodes: "100%%"}]}
  template:
    metadata: {labels: {%s: %s}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      taints: [{key: nvidia.com/gpu, value: "true", effect: NoSchedule}]
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [%s]}
      - {key: node.kubernetes.io/instance-type, operator: In, values: [g6e.xlarge]}
      expireAfter: Never
`

func (s *simulation) addPool(group, capacityType string, weight, limit int) {
	p := &pool{name: group + "-" + capacityType, group: group, capacityType: capacityType, weight: weight, limit: limit}
	s.pools = append(s.pools, p)
	s.createPool(p)
}

func (s *simulation) nodePool(p *pool) *unstructured.Unstructured {
	u, _ := s.api.Get(apiserver.KindNodePool, p.name).(*unstructured.Unstructured)
	return u
}

// createPool creates a NodePool from its manifest.
func (s *simulation) createPool(p *pool) {
	u := &unstructured.Unstructured{}
	manifest := fmt.Sprintf(poolManifest, p.name, p.weight, p.limit, model.GroupLabel, p.group, p.capacityType)
	if err := yaml.Unmarshal([]byte(manifest), &u.Object); err != nil {
		panic(err)
	}
	whole(u.Object)
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(u.GroupVersionKind())
	s.api.Put(apiserver.KindNodePool, s.api.Managed.Update(empty, u, "kubectl-client-side-apply"))
	p.owner, p.edited, p.consented = ownedFields(s.nodePool(p)), map[string]time.Time{}, s.now
}

// whole converts each float64 in a map to an int64, as the API server returns whole numbers. The manifests contain no other numbers.
func whole(m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case map[string]any:
			whole(v)
		case float64:
			m[k] = int64(v)
		}
	}
}

// overridable contains the paths of the fields that gpuscaler may override.
var overridable = [][]string{
	{"spec", "weight"}, {"spec", "limits", gpuResource}, {"spec", "disruption", "consolidateAfter"},
	{"spec", "disruption", "consolidationPolicy"}, {"spec", "disruption", "budgets"},
}

// ownedFields returns the values of the overridable fields of a NodePool as JSON, by path; empty: the field is not set.
func ownedFields(u *unstructured.Unstructured) map[string]string {
	out := map[string]string{}
	for _, path := range overridable {
		out[strings.Join(path, ".")] = apiserver.FieldText(u, path...)
	}
	return out
}

// allFields is the value of the consent annotation that allows gpuscaler to override every field.
const allFields = "limits,weight,disruption"

// ownerActs applies an event that is an action of the owner of a NodePool.
func (s *simulation) ownerActs(p *pool, e schedule.Event) {
	if s.nodePool(p) == nil {
		return
	}
	switch e.Kind {
	case schedule.LimitEdited:
		if e.Value%7 == 0 {
			s.ownerSets(p, nil, "spec", "limits", gpuResource)
			return
		}
		s.ownerSets(p, fmt.Sprint(2+e.Value%10), "spec", "limits", gpuResource)
	case schedule.WeightEdited:
		s.ownerSets(p, int64(1+e.Value%50), "spec", "weight")
	case schedule.DisruptionEdited:
		s.ownerSets(p, []string{"30s", "1m", "2m"}[e.Value%3], "spec", "disruption", "consolidateAfter")
	case schedule.BudgetsEdited:
		list := [][]any{{"100%"}, {"20%"}, {"1", "50%"}}[e.Value%3]
		for i, nodes := range list {
			list[i] = map[string]any{"nodes": nodes}
		}
		s.ownerSets(p, list, "spec", "disruption", "budgets")
	case schedule.ConsentEdited:
		s.ownerConsents(p, []string{"", "limits", "weight,disruption", allFields, allFields + ",restore", allFields}[e.Value%6])
	case schedule.LimitApplied:
		s.ownerApplies(p, e.Value)
	case schedule.PoolReplaced:
		s.replacePool(p)
	case schedule.PoolAnnotated:
		s.api.Update(apiserver.KindNodePool, p.name, "kubectl-annotate", func(u *unstructured.Unstructured) {
			setAnnotation(u, "team", fmt.Sprint(e.Value))
		})
	}
}

func setAnnotation(u *unstructured.Unstructured, key, value string) {
	values := u.GetAnnotations()
	values[key] = value
	u.SetAnnotations(values)
}

// ownerSets edits a field of a NodePool as its owner. If the value is nil, the field is removed.
func (s *simulation) ownerSets(p *pool, value any, path ...string) {
	text := apiserver.TextOf(value)
	if apiserver.FieldText(s.nodePool(p), path...) == text {
		return // the value does not change, so kubectl edit sends no request
	}
	s.trace("the owner of NodePool %s sets %s to %s", p.name, joined(path), text)
	before := apiserver.FieldText(s.nodePool(p), path...)
	s.api.Update(apiserver.KindNodePool, p.name, "kubectl-edit", func(u *unstructured.Unstructured) { apiserver.SetField(u, value, path...) })
	s.ownerChanged(p, joined(path), before, text)
}

// ownerChanged records the owner's new value of a field. If gpuscaler may override the field, has overridden it and can observe the edit,
// gpuscaler must not override the field again for editWait. ownerChanged then also records the time of the edit. If the owner permits the
// override only after the edit, gpuscaler does not wait.
func (s *simulation) ownerChanged(p *pool, field, before, value string) {
	grouped := s.people.settings.groups[slices.Index(groupNames[:], p.group)]
	consent := strings.Split(s.nodePool(p).GetAnnotations()[karpenter.ConsentAnnotation], ",")
	permitted := grouped && slices.Contains(consent, strings.Split(field, ".")[1])
	if before != p.owner[field] && permitted && len(s.faults.races) == 0 && s.check.canWrite() {
		p.edited[field] = s.now
	}
	p.owner[field], p.touched = value, s.now
}

// forgetEdits deletes the recorded edits of the NodePools of a group, as gpuscaler does when the group is removed.
func (s *simulation) forgetEdits(group string) {
	for _, p := range s.pools {
		if p.group == group {
			clear(p.edited)
		}
	}
}

// ownerApplies applies the limit by server-side apply. In one of three cases it applies a new limit, as a GitOps controller does. In all
// other cases it applies the current limit of the NodePool, as Argo CD does with a field that it ignores. The current limit can be an
// override of gpuscaler, so the owner's value does not change.
func (s *simulation) ownerApplies(p *pool, value int) {
	live := s.nodePool(p)
	path := []string{"spec", "limits", gpuResource}
	var limit any = fmt.Sprint(2 + value%10)
	if current, found, _ := unstructured.NestedFieldCopy(live.Object, path...); found && value%3 != 0 {
		limit = current
	}
	desired := &unstructured.Unstructured{Object: map[string]any{}}
	desired.SetGroupVersionKind(live.GroupVersionKind())
	desired.SetName(p.name)
	apiserver.SetField(desired, limit, path...)
	next, err := s.api.Managed.Apply(live, desired, "gitops", true)
	if err != nil {
		panic(err)
	}
	s.trace("the owner of NodePool %s applies %s = %s", p.name, joined(path), apiserver.TextOf(limit))
	before := apiserver.FieldText(live, path...)
	s.api.Store(apiserver.KindNodePool, live, next)
	if before != apiserver.TextOf(limit) {
		s.ownerChanged(p, joined(path), before, apiserver.TextOf(limit))
	}
}

// ownerConsents sets the annotation that lists the fields that gpuscaler may override.
func (s *simulation) ownerConsents(p *pool, fields string) {
	if u := s.nodePool(p); u == nil || u.GetAnnotations()[karpenter.ConsentAnnotation] == fields {
		return
	}
	s.trace("the owner of NodePool %s lets gpuscaler override %q", p.name, fields)
	s.api.Update(apiserver.KindNodePool, p.name, "kubectl-annotate", func(u *unstructured.Unstructured) {
		setAnnotation(u, karpenter.ConsentAnnotation, fields)
	})
	p.consented = s.now
}

// replacePool deletes a NodePool with its nodes and creates it from its manifest.
func (s *simulation) replacePool(p *pool) {
	s.trace("the owner replaces NodePool %s", p.name)
	s.karpenter.DeleteNodes(p.name)
	s.api.Remove(apiserver.KindNodePool, p.name)
	s.createPool(p)
	p.touched = s.now // the values of the new NodePool can look like edits of gpuscaler's overrides
}
