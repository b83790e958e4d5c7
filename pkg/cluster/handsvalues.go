package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
)

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

func encode(operations []operation) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(operations)
	return b.Bytes(), err
}

// decodeValue reads a value as the API machinery keeps it, whole numbers as int64; nil is an absent one.
func decodeValue(v capacity.Value) (value any, err error) {
	if v == "" {
		return nil, nil
	}
	if err := utiljson.Unmarshal([]byte(v), &value); err != nil {
		return nil, fmt.Errorf("value %s: %w", v, err)
	}
	return value, nil
}

// restoredValues are the operations that put values back, of those that differ.
func restoredValues(p capacity.NodePoolPatch, base *unstructured.Unstructured) (all []operation, err error) {
	limits, _, _ := unstructured.NestedMap(base.Object, "spec", "limits")
	left := len(limits)
	for _, c := range p.Changes {
		if !c.Restore {
			continue
		}
		path := c.Path()
		have := capacity.Value("")
		if value, found, _ := unstructured.NestedFieldNoCopy(base.Object, path...); found {
			have = valueOf(value)
		}
		value, err := decodeValue(c.To)
		switch {
		case err != nil:
			return nil, err
		case have == c.To:
		case value == nil:
			all = append(all, operation{Op: "remove", Path: path.Pointer()})
			if c.Field >= capacity.FieldLimit {
				left--
			}
		default:
			all = append(all, missingParents(base, path)...)
			all = append(all, operation{Op: "add", Path: path.Pointer(), Value: value})
		}
	}
	// Limits that were made for ours alone were not there before.
	if len(limits) > 0 && left == 0 {
		all = append(all, operation{Op: "remove", Path: "/spec/limits"})
	}
	return all, nil
}

// missingParents makes what a field stands in, where somebody took that away meanwhile.
func missingParents(base *unstructured.Unstructured, path capacity.Path) (all []operation) {
	for i := 2; i < len(path); i++ {
		if _, found, _ := unstructured.NestedFieldNoCopy(base.Object, path[:i]...); !found {
			all = append(all, operation{Op: "add", Path: path[:i].Pointer(), Value: map[string]any{}})
		}
	}
	return all
}

// Reasons of our Events on NodePools.
const (
	ReasonOverridden = "NodePoolOverridden" // a field that was handed over was changed
	ReasonRestored   = "NodePoolRestored"   // it was put back
)

// tellOnPool tells of a written patch on its NodePool; a record alone is no news.
func (h *hands) tellOnPool(p capacity.NodePoolPatch, base *poolFacts) {
	if len(p.Changes) == 0 {
		return
	}
	reason := ReasonRestored
	for _, c := range p.Changes {
		if !c.Restore {
			reason = ReasonOverridden
		}
	}
	h.cluster.events.Send(base.reference(), corev1.EventTypeNormal, reason, strings.TrimSpace(p.Text()))
}

func (f *poolFacts) reference() corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: f.object.GetAPIVersion(), Kind: nodePoolKind.Kind, Name: f.object.GetName(), UID: f.object.GetUID()}
}
