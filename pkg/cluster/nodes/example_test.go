package nodes_test

import (
	"fmt"
	"iter"
	"log/slog"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/buffers"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/deviceclaims"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodes"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// empty is a cache of workloads for a cluster without workloads.
type empty struct{}

func (empty) RLock()                                                 {}
func (empty) RUnlock()                                               {}
func (empty) Version() uint64                                        { return 1 }
func (empty) NodeTarget(*scaling.Workload) (t nodes.Target, ok bool) { return t, false }
func (empty) TargetPods(*scaling.Workload) []nodes.Pod               { return nil }
func (empty) GPUPods() iter.Seq[nodes.Pod]                           { return slices.Values[[]nodes.Pod](nil) }
func (empty) AllPods() iter.Seq[nodes.Pod]                           { return slices.Values[[]nodes.Pod](nil) }

// Informers put objects into the cache. Observe converts them to the observation that package capacity reads.
func ExampleCache_Observe() {
	log := slog.New(slog.DiscardHandler)
	cache := nodes.New(nodes.Options{
		Workloads: empty{}, WorkloadsSynced: func() bool { return true }, Log: log, Claims: deviceclaims.New(func() {}),
		Buffers: buffers.New(buffers.Options{Changed: func() {}, Log: log}),
	})
	pool := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(fixture.SpotNodePool), &pool.Object); err != nil {
		fmt.Println(err)
		return
	}
	cache.PutNodePool(pool)
	group, err := capacity.NewGroup(capacity.Group{Name: "chat", Resource: "nvidia.com/gpu",
		Pools: []capacity.Pool{{Name: "l40s-spot", Type: capacity.Spot}, {Name: "l40s-missing", Type: capacity.OnDemand}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	var observed capacity.Observation
	cache.Observe(group, nil, &observed)
	for i, view := range observed.Pools {
		fmt.Println(group.Pools[i].Name, view.Exists, view.Consent, view.Weight.Value, len(view.Limits))
	}
	// Output:
	// l40s-spot true limits,weight 80 2
	// l40s-missing false  (absent) 0
}
