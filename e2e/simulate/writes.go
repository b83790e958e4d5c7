package main

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// wrote checks a write.
func (c *checker) wrote(w *write) {
	c.writes++
	s, r := c.sim, w.replica
	if !s.holderIs(r) && !w.late {
		c.fail(holderWrites, "%s wrote %s %s; the holder is %q", r.name, w.kind, w.name, s.lease.holder)
	}
	if before, after := foreign(w.kind, w.live), foreign(w.kind, w.next); before != after {
		c.fail(consentedFields, "%s changed %s %s from %s to %s", r.name, w.kind, w.name, before, after)
	}
	if w.kind != kindNodePool {
		return
	}
	c.newerRecordKept(w)
	if !w.late && c.heldByOther(r, w.live.GetAnnotations()) {
		c.fail(oneRelease, "%s wrote NodePool %s, which %s overrides", r.name, w.name, w.live.GetAnnotations()[karpenter.HolderAnnotation])
	}
	c.writeTimes[w.name] = append(c.writeTimes[w.name], s.now)
	if t := c.writeTimes[w.name]; len(t) > 10 && s.now.Sub(t[len(t)-11]) < time.Minute {
		c.fail(fewWrites, "%s wrote NodePool %s 11 times in %s", r.name, w.name, s.now.Sub(t[len(t)-11]))
	}
	consent := strings.Split(w.live.GetAnnotations()[karpenter.ConsentAnnotation], ",")
	before, after := ownedFields(w.live), ownedFields(w.next)
	p := s.poolNamed(w.name)
	for _, path := range overridable {
		if field := joined(path); before[field] != after[field] {
			c.fieldWritten(w, p, path, consent)
		}
	}
}

// fieldWritten checks a write that changed a field of a NodePool.
func (c *checker) fieldWritten(w *write, p *pool, path, consent []string) {
	field, value := joined(path), fieldText(w.next, path...)
	owners := p.owner[field]
	if word := path[1]; !slices.Contains(consent, word) {
		c.fail(consentedFields, "%s changed %s of %s; its owner lets gpuscaler override %q", w.replica.name, field, w.name, consent)
	}
	if since := c.sim.now.Sub(p.edited[field]); since < editWait {
		c.fail(editsStay, "%s changed %s of %s to %s, %s after its owner set it to %s", w.replica.name, field, w.name, value, since, owners)
	}
	if value == owners {
		return
	}
	original, recorded := recordedOriginal(w.next, path)
	switch {
	case !recorded:
		c.fail(overridesRecorded, "%s: %s is %s, its owner's value is %s, and it is not in the record", w.name, field, value, owners)
	case strings.Trim(original, `"`) != strings.Trim(owners, `"`):
		c.fail(overridesRecorded, "%s: %s is %s, its owner's value is %s, and the record contains %s", w.name, field, value, owners, original)
	}
}

// editWait is the time in which gpuscaler does not override a field that its owner edited during an override.
const editWait = 10 * time.Minute

// recordedOriginal returns the owner's value of a field in the record of a NodePool.
func recordedOriginal(u *unstructured.Unstructured, path []string) (value string, recorded bool) {
	var record struct {
		Fields []struct {
			Path, Original string
			On             bool
		}
	}
	if json.Unmarshal([]byte(u.GetAnnotations()[karpenter.RecordAnnotation]), &record) != nil {
		return "", false
	}
	pointer := ""
	for _, key := range path {
		pointer += "/" + strings.ReplaceAll(key, "/", "~1")
	}
	for _, f := range record.Fields {
		if f.Path == pointer && f.On {
			return f.Original, true
		}
	}
	return "", false
}

// foreign returns the parts of an object that gpuscaler must not change, as JSON.
func foreign(kind string, u *unstructured.Unstructured) string {
	u = u.DeepCopy()
	values := u.GetAnnotations()
	for key := range values {
		if kind == kindPod || strings.HasPrefix(key, "gpuscaler.io/") && key != karpenter.ConsentAnnotation {
			delete(values, key)
		}
	}
	u.SetAnnotations(values)
	u.SetManagedFields(nil)
	u.SetResourceVersion("")
	u.SetGeneration(0)
	if kind == kindNodePool {
		for _, path := range overridable {
			unstructured.RemoveNestedField(u.Object, path...)
		}
		if limits, _, _ := unstructured.NestedMap(u.Object, "spec", "limits"); len(limits) == 0 {
			unstructured.RemoveNestedField(u.Object, "spec", "limits")
		}
	}
	text, err := json.Marshal(u.Object)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func joined(path []string) string { return strings.Join(path, ".") }
