package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Each replica of the LeaderWorkerSet has four pods. The observation of a capacity group must contain the size of a replica and list the
// pods of one replica next to each other.
func TestPodsOfALeaderWorkerSetAreObservedByReplica(t *testing.T) {
	c := clusterWithPools(t)
	c.cache.PutTarget(fixture.Must[*cache.Target](cache.TrimLeaderWorkerSet(fixture.LeaderWorkerSet("big", 11))))
	for group := range 11 {
		for worker := range 4 {
			p := fixture.GroupPod("big", group, worker, "pending")
			p.Spec.Containers = []corev1.Container{{Name: "server", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")},
			}}}
			c.cache.PutPod(fixture.Must[*cache.Pod](cache.TrimPod(p)))
		}
	}
	o := capacity.Observation{Workloads: make([]capacity.Workload, 1)}
	c.nodes.Observe(spotAndOnDemand(t), []*scaling.Workload{fixture.GroupWorkload("big")}, &o)
	w := o.Workloads[0]
	if w.Size != 4 || w.GPUs != 25 || w.PodGPUs != 8 || len(w.Pods) != 44 {
		t.Fatalf("size %d, GPUs %d, of a pod %d, %d pods; want 4, 25, 8 and 44", w.Size, w.GPUs, w.PodGPUs, len(w.Pods))
	}
	seen := map[string]bool{}
	for i := 0; i < len(w.Pods); i += 4 {
		for _, p := range w.Pods[i : i+4] {
			if p.Replica == "" || p.Replica != w.Pods[i].Replica || seen[p.Replica] {
				t.Fatalf("the pods of one replica are not adjacent: %q at %d", p.Replica, i)
			}
		}
		seen[w.Pods[i].Replica] = true
	}
}
