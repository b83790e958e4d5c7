package cluster

import (
	"context"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Synced reports whether the first lists of all objects were read. Before that, View returns false.
func (c *Cluster) Synced() bool { return c.synced.Load() }

// View returns the observed state of a workload's scale target and pods. It does no I/O and allocates memory only in rare cases.
func (c *Cluster) View(w *scaling.Workload) (engine.View, bool) {
	if !c.synced.Load() {
		return engine.View{}, false
	}
	return c.cache.View(w)
}

// Refusal returns why View has no result for a workload although its scale target exists. It returns "" if View has a result.
func (c *Cluster) Refusal(w *scaling.Workload) string { return c.cache.Refusal(w) }

// TargetUID returns the UID of a workload's scale target. It does no I/O and allocates nothing.
func (c *Cluster) TargetUID(w *scaling.Workload) (string, bool) {
	if !c.synced.Load() {
		return "", false
	}
	return c.cache.UID(w)
}

// Pods returns the pods of a workload, sorted by name, without pods that have finished or are terminating. The caller must not change the
// slice, because it is shared.
func (c *Cluster) Pods(w *scaling.Workload) []engine.Pod { return c.cache.Pods(w) }

// Exporters returns the pods of the DCGM exporter: the pods in a namespace that have all of the given labels, sorted by name. A DaemonSet
// runs them, so they belong to no workload. Pods that have finished, are terminating, or have no node or no IP address are skipped. Without
// a namespace or labels, no pod is returned. Exporters sends no request.
func (c *Cluster) Exporters(namespace string, by map[string]string) []engine.Pod {
	if namespace == "" || len(by) == 0 {
		return nil
	}
	return c.cache.PodsWithLabels(namespace, labels.SelectorFromSet(by))
}

// TriggerMetric returns the external metric that KEDA serves for a named trigger of the ScaledObject of a workload, and the selector that
// KEDA requires. ok is false if KEDA serves no such metric. It does no I/O.
func (c *Cluster) TriggerMetric(w *scaling.Workload, trigger string) (metric, selector string, ok bool) {
	return c.cache.TriggerMetric(w, trigger)
}

// Request returns how much of a resource one replica of a workload requests, and how much its existing pods request together. known is
// false if the request of a replica cannot be determined.
func (c *Cluster) Request(w *scaling.Workload, resource string) (perReplica int64, known bool, pods int64) {
	return c.cache.Request(w, resource)
}

// Unmanaged returns how much of a resource is requested in the team's namespaces by pods that belong to none of the given workloads.
func (c *Cluster) Unmanaged(team *scaling.Team, of []*scaling.Workload, resource string) int64 {
	return c.cache.Unmanaged(team, of, resource)
}

// SharesGPUs reports whether the labels of a node say that several pods share its GPUs. Without Options.Groups, nodes are not read and
// SharesGPUs returns false. A shared GPU is then detected only by the resource that a pod requests and by the series of the DCGM exporter.
// SharesGPUs sends no request.
func (c *Cluster) SharesGPUs(node string) bool {
	if c.nodes == nil || node == "" {
		return false
	}
	return c.nodes.SharesGPUs(node)
}

// Apply sends Events for the changes that a tick decided, and wakes the activator. It neither blocks nor does I/O.
func (c *Cluster) Apply(ctx context.Context, changes []engine.Change) error {
	c.transitions.Add(changes)
	c.activator.Wake()
	return ctx.Err()
}
