package cluster

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// SharedGPU is the finding of a policy with a signal of type dcgm whose pods run on shared GPUs. Alerts and runbooks may match it.
const SharedGPU = "SharedGPU"

// SharesGPUs reports whether a node offers shares of its GPUs. Nodes are known where Karpenter's are watched; elsewhere a shared GPU is
// known by the resource that its pods request and by the exporter's series. It does no I/O.
func (c *Cluster) SharesGPUs(node string) bool {
	if c.nodes == nil || node == "" {
		return false
	}
	return c.nodes.SharesGPUs(node)
}

// sharedGPUs lists the targets whose policy reads the activity of GPUs that are shared.
func (c *Cluster) sharedGPUs() (all []problem) {
	if c.options.Policies == nil {
		return nil
	}
	for _, w := range c.options.Policies.Current() {
		signal := gpuSignal(&w)
		if signal == "" {
			continue
		}
		shared, total := 0, 0
		for _, p := range c.Pods(&w) {
			total++
			if p.SharedGPU || c.SharesGPUs(p.Node) {
				shared++
			}
		}
		about, ok := c.world.reference(refOfWorkload(&w))
		if shared > 0 && ok {
			all = append(all, problem{about, fmt.Sprintf("signal %s of policy %s reads GPUs that other pods use too (%d of %d pods; time-slicing or MPS): "+
				"it holds the target and does not raise it: scale on a queue or on concurrency", signal, w.Key, shared, total)})
		}
	}
	return all
}

// gpuSignal returns the name of a policy's first signal that reads GPUs, empty for none.
func gpuSignal(w *scaling.Workload) string {
	for i := range w.Policy.Signals {
		if s := &w.Policy.Signals[i]; s.Type == "dcgm" {
			return s.Name
		}
	}
	return ""
}
