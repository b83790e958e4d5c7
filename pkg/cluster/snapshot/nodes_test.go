package snapshot

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
)

// The API server returns Nodes in pages. Only the fields that the checks need must be kept, because the status of a Node in a cloud lists
// up to 50 images.
func TestNodesAreReadInPages(t *testing.T) {
	node := func(name string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Node",
			"metadata": map[string]any{"name": name, "labels": map[string]any{"pool": "a100"}, "annotations": map[string]any{"long": "text"}},
			"status": map[string]any{"allocatable": map[string]any{"nvidia.com/gpu": "8"},
				"images": []any{map[string]any{"names": []any{"registry.example.com/vllm"}}}}}}
	}
	var failure error
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{nodes: "NodeList"})
	requests := 0
	client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		requests++
		page := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "NodeList"}}
		if requests == 1 {
			page.SetContinue("page2")
			page.Items = []unstructured.Unstructured{node("n1"), node("n2")}
			return true, page, nil
		}
		if failure != nil {
			return true, nil, failure
		}
		page.Items = []unstructured.Unstructured{node("n3")}
		return true, page, nil
	})
	var s Snapshot
	s.ReadNodes(t.Context(), client)
	group := &capacity.Group{Name: "train", Resource: "nvidia.com/gpu", NodeSelector: map[string]string{"pool": "a100"}}
	found, known := s.GroupNodes(group, []*capacity.Group{group})
	if !known || found.Nodes != 3 || found.Units != 24 {
		t.Errorf("%+v, known %v; want 3 nodes with 24 units", found, known)
	}
	for _, n := range s.nodes {
		if len(n.Status.Images) > 0 || len(n.Annotations) > 0 {
			t.Errorf("Node %s is kept as a whole", n.Name)
		}
	}

	s, failure, requests = Snapshot{}, errors.New("etcd is slow"), 0
	s.ReadNodes(t.Context(), client)
	if _, known := s.GroupNodes(group, []*capacity.Group{group}); known || !strings.Contains(strings.Join(s.Unread, ""), "etcd is slow") {
		t.Errorf("known %v after a failed page, unread %q", known, s.Unread)
	}
}
