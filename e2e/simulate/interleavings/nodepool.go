package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// limits are the limits that the owner of the NodePool can set, as JSON. The first limit is in the manifest.
var limits = [...]string{`"4"`, `"6"`, overrideLimit}

// overrideLimit is the limit that gpuscaler sets.
const overrideLimit = `"0"`

// consents contains the possible values of the consent annotation: the owner of the NodePool allows gpuscaler to override the limit,
// forbids it, or requests that gpuscaler restores the limit.
var consents = [...]string{"limits", "", "limits,restore"}

const manifest = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s, annotations: {%s: %q}}
spec:
  limits: {%s: %s}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
`

// newNodePool adds the NodePool, as its owner creates it, to the table of contents. It returns the number in the table.
func (m *model) newNodePool() int32 {
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(fmt.Appendf(nil, manifest, poolName, karpenter.ConsentAnnotation, consents[0], resource, limits[0]),
		&u.Object); err != nil {
		panic(err)
	}
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(u.GroupVersionKind())
	return m.intern(apiserver.New(nil).Managed.Update(empty, u, "kubectl-client-side-apply"))
}

// edit identifies an edit of a version by a client other than gpuscaler: the field manager, the changed field and its value.
type edit struct {
	live          version
	manager, what string
	value         string
}

// edited returns the version after an edit by a client other than gpuscaler.
func (m *model) edited(live version, manager, what, value string) version {
	return m.edits.get(edit{live, manager, what, value}, func() version {
		f := m.managed.Get().(*apiserver.FieldManagers)
		defer m.managed.Put(f)
		before := m.object(live)
		next := before.DeepCopy()
		if what == editLimit {
			apiserver.SetField(next, strings.Trim(value, `"`), limitPath...)
		} else {
			annotations := next.GetAnnotations()
			annotations[what] = value
			next.SetAnnotations(annotations)
		}
		return m.successor(live, before, f.Update(before, next, manager))
	})
}

const (
	editLimit = "limit"
	// karpenterAnnotation represents all fields that Karpenter writes. A write to it changes the resourceVersion but not the generation.
	karpenterAnnotation = "karpenter.sh/nodepool-hash"
)

// ownerSets edits the limit as the owner.
func (m *model) ownerSets(s *state, limit uint8) {
	s.owner.waits, s.owner.unseen = 0, false
	if f := m.facts(s.live); f.limit != limits[s.owner.limit] && f.consent == consentLimits && s.policy && m.overridden(s) {
		s.owner.unseen = true
	}
	s.live = m.edited(s.live, "kubectl-edit", editLimit, limits[limit])
	s.owner.limit, s.owner.edit = limit, s.live.serial
}

// ownerConsents edits the consent annotation as the owner.
func (m *model) ownerConsents(s *state, consent string) {
	s.live = m.edited(s.live, "kubectl-annotate", karpenter.ConsentAnnotation, consent)
	s.owner.edit, s.owner.waits, s.owner.unseen = s.live.serial, 0, false
}

// karpenterWrites performs a write of Karpenter, which changes an annotation between two values.
func (m *model) karpenterWrites(s *state) {
	value := "1"
	if m.object(s.live).GetAnnotations()[karpenterAnnotation] == value {
		value = "2"
	}
	s.live = m.edited(s.live, "karpenter", karpenterAnnotation, value)
}

// ownerDeletes deletes the NodePool as the owner.
func (s *state) ownerDeletes() {
	s.owner.edit, s.owner.waits, s.owner.unseen = s.live.serial+1, 0, false
	s.live = version{}
}

// ownerCreates creates the NodePool from its manifest as the owner. The new version has a greater serial and a new UID.
func (m *model) ownerCreates(s *state) {
	next := version{content: m.created, serial: s.owner.edit}
	s.versions(func(v *version) {
		next.serial, next.generation, next.uid = max(next.serial, v.serial), max(next.generation, v.generation), max(next.uid, v.uid)
	})
	next.serial, next.generation, next.uid = next.serial+1, next.generation+1, next.uid+1
	s.live = next
	s.owner = owner{limit: 0, edit: next.serial}
}
