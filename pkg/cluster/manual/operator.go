package manual

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Operator contains the pause and the override that a user set by annotations on one object.
type Operator struct {
	set     bool
	Values  scaling.Operator
	by      string // field manager and time, for users: "kubectl-annotate, 2026-11-22T02:58:00Z"
	Problem string // which value is invalid, and the value that is used instead; empty: all values are valid
}

// ReadOperator reads the pause and override annotations of an object, and from its managedFields which field manager wrote them. It decodes
// the managedFields only if the object has such an annotation, because they are the largest part of most objects.
func ReadOperator(values map[string]string, managed []metav1.ManagedFieldsEntry) Operator {
	_, paused := values[annotations.Paused]
	_, override := values[annotations.Override]
	if !paused && !override {
		return Operator{Values: scaling.NoOperator}
	}
	parsed, problems := annotations.ParseOperator(values)
	o := Operator{set: true, Values: parsed}
	for _, p := range problems {
		o.Problem = strings.TrimPrefix(o.Problem+"; "+p.String(), "; ")
	}
	o.by = lastManager(managed, annotations.Paused, annotations.Override)
	return o
}

// lastManager returns the field manager that wrote one of the annotations last, and the time of the write.
func lastManager(managed []metav1.ManagedFieldsEntry, keys ...string) string {
	var newest *metav1.ManagedFieldsEntry
	for i := range managed {
		m := &managed[i]
		if m.FieldsV1 == nil || !ownsAnnotation(m.FieldsV1.GetRawBytes(), keys...) {
			continue
		}
		if newest == nil || newest.Time.Before(m.Time) {
			newest = m
		}
	}
	switch {
	case newest == nil:
		return "an unknown manager"
	case newest.Time == nil:
		return newest.Manager
	}
	return newest.Manager + ", " + newest.Time.UTC().Format(time.RFC3339)
}

// ownsAnnotation reports whether a list of owned fields (FieldsV1) contains one of the annotations.
func ownsAnnotation(fields []byte, keys ...string) bool {
	var set struct {
		Metadata struct {
			Annotations map[string]json.RawMessage `json:"f:annotations"`
		} `json:"f:metadata"`
	}
	if json.Unmarshal(fields, &set) != nil {
		return false
	}
	return slices.ContainsFunc(keys, func(key string) bool {
		_, ok := set.Metadata.Annotations["f:"+key]
		return ok
	})
}

// Merge combines the annotations of a workload and of the objects that scale it. A pause on any of these objects pauses the workload. If
// several objects have an override, Merge uses the override that ends last, so that an override that has ended does not hide a current
// override.
func Merge(all ...*Operator) (scaling.Operator, string) {
	merged, by := scaling.NoOperator, ""
	for _, o := range all {
		if o == nil || !o.set {
			continue
		}
		v := o.Values
		if v.Paused && !merged.Paused {
			merged.Paused, by = true, o.by
		}
		if (v.Min >= 0 || v.Max >= 0) && v.Until.After(merged.Until) {
			merged.Min, merged.Max, merged.Until = v.Min, v.Max, v.Until
			if !merged.Paused {
				by = o.by
			}
		}
	}
	return merged, by
}
