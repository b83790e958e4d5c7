package cluster

import (
	"encoding/json"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// operatorFacts is what a person said on one object.
type operatorFacts struct {
	said     bool
	operator scaling.Operator
	by       string // "kubectl-annotate, 02:58 UTC": for people
	problem  string // what was not understood of it, and what was made of that
}

// readOperator reads the operator's annotations and who wrote them. Managed fields are read only where there is something to
// read them for: they are the largest part of most objects, and are dropped right after.
func readOperator(values map[string]string, managed []metav1.ManagedFieldsEntry) operatorFacts {
	_, paused := values[annotations.Paused]
	_, override := values[annotations.Override]
	if !paused && !override {
		return operatorFacts{operator: scaling.NoOperator}
	}
	operator, problems := annotations.ParseOperator(values)
	f := operatorFacts{said: true, operator: operator}
	for _, p := range problems {
		f.problem = strings.TrimPrefix(f.problem+"; "+p.String(), "; ")
	}
	f.by = whoSet(managed, annotations.Paused, annotations.Override)
	return f
}

// whoSet names the manager that last wrote one of the annotations, and when.
func whoSet(managed []metav1.ManagedFieldsEntry, annotations ...string) string {
	var newest *metav1.ManagedFieldsEntry
	for i := range managed {
		m := &managed[i]
		if m.FieldsV1 == nil || !owns(m.FieldsV1.GetRawBytes(), annotations) {
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

func owns(fields []byte, annotations []string) bool {
	var set struct {
		Metadata struct {
			Annotations map[string]json.RawMessage `json:"f:annotations"`
		} `json:"f:metadata"`
	}
	if json.Unmarshal(fields, &set) != nil {
		return false
	}
	for _, a := range annotations {
		if _, ok := set.Metadata.Annotations["f:"+a]; ok {
			return true
		}
	}
	return false
}

// merge joins what was said on a workload and on the objects that scale it: a pause anywhere pauses, and of several overrides
// the one that ends last counts, so that one that has ended hides none that has not.
func merge(all ...*operatorFacts) (scaling.Operator, string) {
	merged, by := scaling.NoOperator, ""
	for _, f := range all {
		if f == nil || !f.said {
			continue
		}
		o := f.operator
		if o.Paused && !merged.Paused {
			merged.Paused, by = true, f.by
		}
		if (o.Min >= 0 || o.Max >= 0) && o.Until.After(merged.Until) {
			merged.Min, merged.Max, merged.Until = o.Min, o.Max, o.Until
			if !merged.Paused {
				by = f.by
			}
		}
	}
	return merged, by
}
