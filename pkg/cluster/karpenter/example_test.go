package karpenter_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

func ExampleDecodeNodePool() {
	p := karpenter.DecodeNodePool(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
		"metadata": map[string]any{"name": "l40s-spot", "annotations": map[string]any{karpenter.ConsentAnnotation: "limits,weight"}},
		"spec":     map[string]any{"limits": map[string]any{"nvidia.com/gpu": "16"}},
	}})
	fmt.Println(p.Name(), p.Consent(), p.Limits()[0].Value, p.Err)
	// Output: l40s-spot limits,weight "16" <nil>
}
