package lint

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// ResourceNotOffered is the name of the check in the findings that UnofferedResources returns.
const ResourceNotOffered = "ResourceNotOffered"

// UnofferedResources checks the workloads of capacity groups that need a part of a GPU, such as nvidia.com/mig-1g.10gb or
// nvidia.com/gpu.shared. It returns a finding for each such resource that no node and no instance type of Karpenter has. The function
// partitions returns the parts of GPUs that a workload needs: the parts that its pods request, and the resource of its capacity group. The
// function offers reports whether Karpenter has a node or an instance type with a resource.
func UnofferedResources(policies []*policy.Compiled, platform *policy.Platform, partitions func(*scaling.Workload) []string,
	offers func(string) bool,
) (all []Finding) {
	for _, c := range policies {
		w := &c.Workload
		if g := platform.Group(w.Group); w.Group == "" || g != nil && len(g.NodeSelector) > 0 {
			continue // Karpenter launches no node for the workload
		}
		for _, resource := range partitions(w) {
			if offers(resource) {
				continue
			}
			all = append(all, Finding{Severity: Warning, Check: ResourceNotOffered, About: "ScalingPolicy " + w.Key.String(),
				What: fmt.Sprintf("%s %s needs %s, and no node of a NodePool and no NodeOverlay has it: the instance types of Karpenter have "+
					"whole GPUs", w.Target.Kind, w.Target.Name, resource),
				Why: "Karpenter launches no node for a pod that requests the resource, so the replicas of capacity group " + w.Group +
					" wait although the target is raised",
				Fix: "add the resource to the instance types with a NodeOverlay (spec.capacity), and configure the device plugin of the same " +
					"NodePool to offer it; or request nvidia.com/gpu"})
		}
	}
	return all
}
