package findings

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// SharedGPU is the name of the check for policies with a signal of type dcgm whose pods run on shared GPUs. The name must not change,
// because alerts and runbooks can refer to it.
const SharedGPU = "SharedGPU"

// sharedGPUs returns the scale targets whose policy reads the activity of GPUs that other pods also use.
func (r *Reporter) sharedGPUs() (all []cache.Problem) {
	for _, w := range r.options.Policies.Current() {
		signal := gpuSignal(&w)
		if signal == "" {
			continue
		}
		shared, total := 0, 0
		for _, p := range r.options.Cache.Pods(&w) {
			total++
			if p.SharedGPU || r.options.SharesGPUs(p.Node) {
				shared++
			}
		}
		about, ok := r.options.Cache.Reference(cache.RefOfWorkload(&w))
		if shared > 0 && ok {
			all = append(all, cache.Problem{About: about, Text: fmt.Sprintf("signal %s of policy %s reads GPUs that other pods also use "+
				"(%d of %d pods; time-slicing or MPS): it holds the target and does not raise it: scale on a queue or on concurrency",
				signal, w.Key, shared, total)})
		}
	}
	return all
}

// gpuSignal returns the name of a policy's first signal of type dcgm, or "" if the policy has no such signal.
func gpuSignal(w *scaling.Workload) string {
	for i := range w.Policy.Signals {
		if s := &w.Policy.Signals[i]; s.Type == "dcgm" {
			return s.Name
		}
	}
	return ""
}
