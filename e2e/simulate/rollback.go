package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/ownership"
)

// newerField is a field that only a newer version of gpuscaler overrides, with its owner's value and the value of the override.
var newerField = struct {
	path            []string
	owner, override string
}{[]string{"spec", "template", "spec", "terminationGracePeriod"}, "", "1h"}

// rollBack simulates a rollback from a newer version of gpuscaler: the newer version writes every record annotation, and then both
// replicas start with the current version. If unknown is true, the newer version also overrides a field that the current version does not
// know.
func (s *simulation) rollBack(unknown bool) {
	for _, r := range s.replicas {
		r.kill()
	}
	for _, p := range s.pools {
		u := s.nodePool(p)
		record := map[string]any{}
		if u == nil || json.Unmarshal([]byte(u.GetAnnotations()[karpenter.RecordAnnotation]), &record) != nil {
			continue
		}
		record["v"], record["horizon"] = 2, map[string]any{"hours": 6}
		if unknown {
			fields, _ := record["fields"].([]any)
			record["fields"] = append(fields, map[string]any{
				"path": "/" + strings.Join(newerField.path, "/"), "on": true,
				"value": apiserver.TextOf(newerField.override), "original": newerField.owner})
		}
		s.applyNewer(u, apiserver.TextOf(record), unknown)
	}
}

// applyNewer simulates the last write of the newer version to a NodePool. It contains the current overrides, the given record and, if
// unknown is true, the override of newerField.
func (s *simulation) applyNewer(live *unstructured.Unstructured, record string, unknown bool) {
	desired := &unstructured.Unstructured{Object: map[string]any{}}
	desired.SetGroupVersionKind(live.GroupVersionKind())
	desired.SetName(live.GetName())
	desired.SetAnnotations(map[string]string{karpenter.RecordAnnotation: record,
		karpenter.HolderAnnotation: live.GetAnnotations()[karpenter.HolderAnnotation]})
	owned := ownership.Read(live.GetManagedFields())
	for _, path := range overridable {
		for _, o := range owned.Owners(path...) {
			if value, found, _ := unstructured.NestedFieldCopy(live.Object, path...); found && o.Manager == ownership.Manager {
				apiserver.SetField(desired, value, path...)
			}
		}
	}
	if unknown {
		apiserver.SetField(desired, newerField.override, newerField.path...)
	}
	next, err := s.api.Managed.Apply(live, desired, ownership.Manager, true)
	if err != nil {
		panic(err)
	}
	s.trace("a newer version of gpuscaler writes the record of NodePool %s", live.GetName())
	s.api.Store(apiserver.KindNodePool, live, next)
}

// finishNewer simulates that the newer version is installed again for a short time. On each NodePool with a record of the newer version,
// the newer version restores the field that only it knows, and removes the record.
func (s *simulation) finishNewer() {
	for _, p := range s.pools {
		live := s.nodePool(p)
		if live == nil || !isNewer(live) {
			continue
		}
		s.trace("the newer version of gpuscaler restores NodePool %s", p.name)
		desired := &unstructured.Unstructured{Object: map[string]any{}}
		desired.SetGroupVersionKind(live.GroupVersionKind())
		desired.SetName(p.name)
		next, err := s.api.Managed.Apply(live, desired, ownership.Manager, true)
		if err != nil {
			panic(err)
		}
		s.api.Store(apiserver.KindNodePool, live, next)
		clear(p.edited) // the removed record contained the ends of the waits after edits, so gpuscaler no longer waits
	}
}

// isNewer reports whether a newer version of gpuscaler wrote the record of a NodePool.
func isNewer(u *unstructured.Unstructured) bool {
	var record struct{ V int }
	return json.Unmarshal([]byte(u.GetAnnotations()[karpenter.RecordAnnotation]), &record) == nil && record.V > 1
}

// newerRecordKept checks a write to a NodePool that has a record of a newer version. The write may only set fields to their owner's values,
// and may remove the record only if no override remains. In this case the current version may write its own record, which contains until
// when it must not override fields that their owner edited.
func (c *checker) newerRecordKept(w *write) {
	if !isNewer(w.live) {
		return
	}
	p := c.sim.poolNamed(w.name)
	before, after := ownedFields(w.live), ownedFields(w.next)
	left := apiserver.FieldText(w.next, newerField.path...) != ""
	for _, path := range overridable {
		field := joined(path)
		left = left || after[field] != p.owner[field]
		if after[field] != before[field] && after[field] != p.owner[field] {
			c.fail(newerRecord, "%s changed %s of %s to %s; its owner's value is %s", w.replica.name, field, w.name, after[field], p.owner[field])
		}
	}
	record := w.next.GetAnnotations()[karpenter.RecordAnnotation]
	if record != w.live.GetAnnotations()[karpenter.RecordAnnotation] && (left || isNewer(w.next) || strings.Contains(record, `"on":true`)) {
		c.fail(newerRecord, "%s changed the record of %s to %q while an override was in force: %v", w.replica.name, w.name, record,
			fmt.Sprint(after))
	}
}
