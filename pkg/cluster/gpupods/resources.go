package gpupods

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// MaxGPUs is the greatest number of GPUs of one container that is counted. Greater numbers are reduced to MaxGPUs, so that a wrong value in
// a pod template cannot cause an overflow of a sum. The largest known pods have 16 GPUs.
const MaxGPUs = 1 << 16

// Amount is a quantity of one extended resource.
type Amount struct {
	Resource string
	Count    int64
}

// CountOf returns the count of a resource in a list, or 0 if the list does not contain the resource.
func CountOf(amounts []Amount, resource string) int64 {
	for i := range amounts {
		if amounts[i].Resource == resource {
			return amounts[i].Count
		}
	}
	return 0
}

// IsGPU reports whether an extended resource is a GPU or a partition of a GPU. Resources that describe a property of a GPU
// (gpu.intel.com/millicores, gpu.intel.com/memory.max) are not GPUs: otherwise one GPU would count as thousands of GPUs.
func IsGPU(name corev1.ResourceName) bool {
	switch name {
	case "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi":
		return true
	}
	n := string(name)
	return n == "nvidia.com/gpu" || n == "nvidia.com/gpu.shared" || strings.HasPrefix(n, "nvidia.com/mig-")
}

// IsPartition reports whether an extended resource is a partition or a share of a GPU. Instance types have whole GPUs, and the
// configuration of the device plugin determines whether nodes offer partitions or shares.
func IsPartition(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), "nvidia.com/mig-") || IsSharedGPU(name)
}

// IsSharedGPU reports whether an extended resource is a share of a GPU that several pods use. NVIDIA's device plugin adds the suffix
// ".shared" to the names of such resources.
func IsSharedGPU(name corev1.ResourceName) bool {
	return IsGPU(name) && strings.HasSuffix(string(name), ".shared")
}

// NodeSharesGPUs reports whether the labels of a node say that several pods share its GPUs or MIG instances. NVIDIA's GPU feature discovery
// sets a label for each resource with the number of pods that share one unit (nvidia.com/gpu.replicas, nvidia.com/mig-1g.10gb.replicas).
// GKE sets a label with the largest number of clients of a GPU. A number above 1 means that pods share GPUs.
func NodeSharesGPUs(labels map[string]string) bool {
	for name, value := range labels {
		nvidia := strings.HasPrefix(name, "nvidia.com/") && strings.HasSuffix(name, ".replicas")
		if nvidia || name == "cloud.google.com/gke-max-shared-clients-per-gpu" {
			if n, err := strconv.Atoi(value); err == nil && n > 1 {
				return true
			}
		}
	}
	return false
}

// IsExtended reports whether a resource is an extended resource, such as nvidia.com/gpu. It is false for cpu, hugepages-2Mi and
// attachable-volumes-aws-ebs, and for resources of a kubernetes.io domain.
func IsExtended(name corev1.ResourceName) bool {
	domain, _, found := strings.Cut(string(name), "/")
	return found && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

// GPUs returns the number of GPUs that the scheduler reserves for one pod.
func GPUs(spec *corev1.PodSpec) int32 { return int32(min(reserved(spec, IsGPU), MaxGPUs)) }

// SharesGPU reports whether a pod requests a share of a GPU.
func SharesGPU(spec *corev1.PodSpec) bool { return reserved(spec, IsSharedGPU) > 0 }

// ExtendedResources returns the extended resources that the scheduler reserves for one pod. Most pods have none or one.
func ExtendedResources(spec *corev1.PodSpec) (all []Amount) {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for _, list := range []corev1.ResourceList{containers[i].Resources.Limits, containers[i].Resources.Requests} {
				for name := range list {
					if IsExtended(name) && CountOf(all, string(name)) == 0 {
						n := reserved(spec, func(other corev1.ResourceName) bool { return other == name })
						all = append(all, Amount{Resource: string(name), Count: n})
					}
				}
			}
		}
	}
	return all
}

// HasLimitWithoutRequest reports whether a container of a pod template has a limit of an extended resource but no request. The API server
// copies the limit to the request in a pod, but not in a pod template.
func HasLimitWithoutRequest(spec *corev1.PodSpec) bool {
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Limits {
				if _, requested := containers[i].Resources.Requests[name]; IsExtended(name) && !requested {
					return true
				}
			}
		}
	}
	return false
}

// reserved returns how much of the selected resources the scheduler reserves for one pod. As Kubernetes does, it computes two amounts and
// returns the larger one: the sum of the containers and the sidecars (init containers with restartPolicy Always), and the largest init
// container plus the sidecars that start before it.
func reserved(spec *corev1.PodSpec, selected func(corev1.ResourceName) bool) int64 {
	var running, peak int64
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		n := requestOf(c, selected)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			running += n
			peak = max(peak, running)
			continue
		}
		peak = max(peak, running+n)
	}
	for i := range spec.Containers {
		running += requestOf(&spec.Containers[i], selected)
	}
	return max(running, peak)
}

// requestOf returns how much of the selected resources one container requests. It reads the limit first, because the request of an extended
// resource must equal its limit and may be omitted.
func requestOf(c *corev1.Container, selected func(corev1.ResourceName) bool) int64 {
	var n int64
	for name, q := range c.Resources.Limits {
		if selected(name) {
			n += min(max(q.Value(), 0), MaxGPUs)
		}
	}
	for name, q := range c.Resources.Requests {
		if _, limited := c.Resources.Limits[name]; !limited && selected(name) {
			n += min(max(q.Value(), 0), MaxGPUs)
		}
	}
	return n
}
