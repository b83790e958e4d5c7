package cluster

import (
	"strconv"
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

// isSharedGPU reports whether an extended resource is a share of a GPU: NVIDIA's device plugin adds the suffix where it renames what it
// offers several times.
func isSharedGPU(name corev1.ResourceName) bool {
	return isGPU(name) && strings.HasSuffix(string(name), ".shared")
}

// sharesGPUs reports whether a node offers its GPUs, or MIG instances, several times. NVIDIA's GPU feature discovery sets a label of
// replicas for each resource (nvidia.com/gpu.replicas, nvidia.com/mig-1g.10gb.replicas), GKE one of clients.
func sharesGPUs(labels map[string]string) bool {
	for name, value := range labels {
		if name == "cloud.google.com/gke-max-shared-clients-per-gpu" || strings.HasPrefix(name, "nvidia.com/") && strings.HasSuffix(name, ".replicas") {
			if n, err := strconv.Atoi(value); err == nil && n > 1 {
				return true
			}
		}
	}
	return false
}

// gpusOf counts the GPUs that the scheduler sets aside for one pod.
func gpusOf(spec *corev1.PodSpec) int32 { return int32(min(asked(spec, isGPU), maxGPUs)) }

// asked counts what the scheduler sets aside for one pod of some resources: what the running containers hold together, or what the
// hungriest init container holds before them, whichever is more (the rule of Kubernetes' resource accounting; init containers
// that restart always run beside the others).
func asked(spec *corev1.PodSpec, counts func(corev1.ResourceName) bool) int64 {
	var running, peak int64
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		n := askedBy(c, counts)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			running += n
			peak = max(peak, running)
			continue
		}
		peak = max(peak, running+n)
	}
	for i := range spec.Containers {
		running += askedBy(&spec.Containers[i], counts)
	}
	return max(running, peak)
}

// maxGPUs keeps an absurd template from overflowing a sum; the largest pod known holds 16.
const maxGPUs = 1 << 16

// askedBy sums a container's resources. Limits win because an extended resource's request must equal its limit and may be left out.
func askedBy(c *corev1.Container, counts func(corev1.ResourceName) bool) int64 {
	var n int64
	for name, q := range c.Resources.Limits {
		if counts(name) {
			n += min(max(q.Value(), 0), maxGPUs)
		}
	}
	for name, q := range c.Resources.Requests {
		if _, limited := c.Resources.Limits[name]; !limited && counts(name) {
			n += min(max(q.Value(), 0), maxGPUs)
		}
	}
	return n
}

// extended is so much of an extended resource.
type extended struct {
	resource string
	n        int64
}

// extendedOf lists the extended resources that a pod asks for: nearly always none, or one.
func extendedOf(spec *corev1.PodSpec) (all []extended) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for _, list := range []corev1.ResourceList{containers[i].Resources.Limits, containers[i].Resources.Requests} {
				for name := range list {
					if isExtended(name) && amount(all, string(name)) == 0 {
						n := asked(spec, func(other corev1.ResourceName) bool { return other == name })
						all = append(all, extended{string(name), n})
					}
				}
			}
		}
	}
	return all
}

// limitsOnly tells a pod template that limits an extended resource and does not request it. The API server makes the one of the other
// in pods, and in no template.
func limitsOnly(spec *corev1.PodSpec) bool {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Limits {
				if _, requested := containers[i].Resources.Requests[name]; isExtended(name) && !requested {
					return true
				}
			}
		}
	}
	return false
}

// isExtended tells nvidia.com/gpu from cpu, hugepages-2Mi and attachable-volumes-aws-ebs.
func isExtended(name corev1.ResourceName) bool {
	domain, _, found := strings.Cut(string(name), "/")
	return found && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

func amount(all []extended, resource string) int64 {
	for i := range all {
		if all[i].resource == resource {
			return all[i].n
		}
	}
	return 0
}
