package nodepoolwriter

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// operation is one operation of a JSON patch (RFC 6902).
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

// decodeValue converts a value from JSON to the types of unstructured objects, with whole numbers as int64. It returns nil for an empty
// value, which means that the field is absent.
func decodeValue(v nodepool.Value) (value any, err error) {
	if v == "" {
		return nil, nil
	}
	if err := utiljson.Unmarshal([]byte(v), &value); err != nil {
		return nil, fmt.Errorf("value %s: %w", v, err)
	}
	return value, nil
}

// restoredValues returns the operations that restore original values. A field that has its original value needs no operation.
func restoredValues(p capacity.NodePoolPatch, base *unstructured.Unstructured) (all []operation, err error) {
	limits, _, _ := unstructured.NestedMap(base.Object, "spec", "limits")
	left := len(limits)
	for _, c := range p.Changes {
		if !c.Restore {
			continue
		}
		path := c.Path()
		current := nodepool.Value("")
		if value, found, _ := unstructured.NestedFieldNoCopy(base.Object, path...); found {
			current = karpenter.EncodeValue(value)
		}
		value, err := decodeValue(c.To)
		switch {
		case err != nil:
			return nil, err
		case current == c.To:
		case value == nil:
			all = append(all, operation{Op: "remove", Path: path.Pointer()})
			if c.Field >= nodepool.FieldLimit {
				left--
			}
		default:
			all = append(all, missingParents(base, path)...)
			all = append(all, operation{Op: "add", Path: path.Pointer(), Value: value})
		}
	}
	// if no limit remains, the NodePool had no spec.limits before the override, so spec.limits is also removed
	if len(limits) > 0 && left == 0 {
		all = append(all, operation{Op: "remove", Path: "/spec/limits"})
	}
	return all, nil
}

// missingParents returns the operations that create the missing parent objects of a field. Another client can have removed them.
func missingParents(base *unstructured.Unstructured, path nodepool.Path) (all []operation) {
	for i := 2; i < len(path); i++ {
		if _, found, _ := unstructured.NestedFieldNoCopy(base.Object, path[:i]...); !found {
			all = append(all, operation{Op: "add", Path: path[:i].Pointer(), Value: map[string]any{}})
		}
	}
	return all
}
