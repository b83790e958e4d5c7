package cluster

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
)

// BenchmarkObserveWhilePodsChange observes a group of 5,000 nodes with one pod each. One of the pods changes between two observations.
func BenchmarkObserveWhilePodsChange(b *testing.B) {
	c, err := Offline(nil, Options{Groups: noGroups{}})
	if err != nil {
		b.Fatal(err)
	}
	n, g := c.nodes, &capacity.Group{Name: "chat", Resource: "nvidia.com/gpu", Pools: []capacity.Pool{{Name: "spot", Type: capacity.Spot}}}
	pool := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": "NodePool"}}
	pool.SetName("spot")
	n.PutNodePool(pool)
	pod := func(i int) *cache.Pod {
		p := fixture.GPUPod("pod", i, "ready", "1")
		p.Spec.NodeName = fmt.Sprint("n", i)
		return fixture.Must[*cache.Pod](cache.TrimPod(p))
	}
	for i := range 5000 {
		n.PutNodeClaim(&karpenter.NodeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i), UID: types.UID(fmt.Sprint("u", i))},
			NodePool:   "spot", Node: fmt.Sprint("n", i), Launched: true, Initialized: true,
		})
		c.cache.PutPod(pod(i))
	}
	o := capacity.Observation{}
	b.Run("changing", func(b *testing.B) {
		for b.Loop() {
			c.cache.PutPod(pod(7))
			n.Observe(g, nil, &o)
		}
	})
	b.Run("quiet", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n.Observe(g, nil, &o)
		}
	})
}
