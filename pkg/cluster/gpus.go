package cluster

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// isGPU reports whether an extended resource is a GPU or a slice of one. Resources that merely describe a GPU
// (gpu.intel.com/millicores, gpu.intel.com/memory.max) are not: counting them would make thousands of GPUs out of one.
func isGPU(name corev1.ResourceName) bool {
	switch name {
	case "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi":
		return true
	}
	n := string(name)
	return n == "nvidia.com/gpu" || n == "nvidia.com/gpu.shared" || strings.HasPrefix(n, "nvidia.com/mig-")
}

// gpusOf counts the GPUs that the scheduler sets aside for one pod: what the running containers hold together, or what the
// hungriest init container holds before them, whichever is more (the rule of Kubernetes' resource accounting; init containers
// that restart always run beside the others).
func gpusOf(spec *corev1.PodSpec) int32 {
	var running, peak int64
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		n := containerGPUs(c)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			running += n
			peak = max(peak, running)
			continue
		}
		peak = max(peak, running+n)
	}
	for i := range spec.Containers {
		running += containerGPUs(&spec.Containers[i])
	}
	return int32(min(max(running, peak), maxGPUs))
}

// maxGPUs keeps an absurd template from overflowing a sum; the largest pod known holds 16.
const maxGPUs = 1 << 16

// containerGPUs sums a container's GPU resources. Limits win because an extended resource's request must equal its limit and
// may be left out.
func containerGPUs(c *corev1.Container) int64 {
	var n int64
	for name, q := range c.Resources.Limits {
		if isGPU(name) {
			n += min(max(q.Value(), 0), maxGPUs)
		}
	}
	for name, q := range c.Resources.Requests {
		if _, limited := c.Resources.Limits[name]; !limited && isGPU(name) {
			n += min(max(q.Value(), 0), maxGPUs)
		}
	}
	return n
}
