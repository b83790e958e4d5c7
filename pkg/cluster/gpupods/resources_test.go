package gpupods

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestGPUsAreWhatTheSchedulerReserves(t *testing.T) {
	container := func(resources ...string) corev1.Container {
		c := corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}}}
		for i := 0; i < len(resources); i += 2 {
			c.Resources.Limits[corev1.ResourceName(resources[i])] = resource.MustParse(resources[i+1])
		}
		return c
	}
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container("nvidia.com/gpu", "1")
	sidecar.RestartPolicy = &always
	asked := corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"amd.com/gpu": resource.MustParse("8")}}}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want int32
	}{
		"none":                         {corev1.PodSpec{Containers: []corev1.Container{container("cpu", "8")}}, 0},
		"two containers":               {corev1.PodSpec{Containers: []corev1.Container{container("nvidia.com/gpu", "4"), container("nvidia.com/gpu", "4")}}, 8},
		"MIG slices":                   {corev1.PodSpec{Containers: []corev1.Container{container("nvidia.com/mig-1g.10gb", "2")}}, 2},
		"time slices":                  {corev1.PodSpec{Containers: []corev1.Container{container("nvidia.com/gpu.shared", "1")}}, 1},
		"only a request":               {corev1.PodSpec{Containers: []corev1.Container{asked}}, 8},
		"memory of a GPU is no GPU":    {corev1.PodSpec{Containers: []corev1.Container{container("gpu.intel.com/i915", "1", "gpu.intel.com/memory.max", "16000")}}, 1},
		"a larger init container":      {corev1.PodSpec{InitContainers: []corev1.Container{container("nvidia.com/gpu", "4")}, Containers: []corev1.Container{container("nvidia.com/gpu", "1")}}, 4},
		"a smaller init container":     {corev1.PodSpec{InitContainers: []corev1.Container{container("nvidia.com/gpu", "1")}, Containers: []corev1.Container{container("nvidia.com/gpu", "4")}}, 4},
		"a sidecar runs beside":        {corev1.PodSpec{InitContainers: []corev1.Container{sidecar}, Containers: []corev1.Container{container("nvidia.com/gpu", "4")}}, 5},
		"a sidecar beside a later one": {corev1.PodSpec{InitContainers: []corev1.Container{sidecar, container("nvidia.com/gpu", "6")}, Containers: []corev1.Container{container("nvidia.com/gpu", "4")}}, 7},
		"an invalid large number":      {corev1.PodSpec{Containers: []corev1.Container{container("nvidia.com/gpu", "9223372036854775807")}}, MaxGPUs},
		"a negative number":            {corev1.PodSpec{Containers: []corev1.Container{container("nvidia.com/gpu", "-3")}}, 0},
	} {
		if got := GPUs(&c.spec); got != c.want {
			t.Errorf("%s: %d GPUs, want %d", name, got, c.want)
		}
	}
}

func TestNodeSharesGPUs(t *testing.T) {
	for label, want := range map[string]bool{
		"nvidia.com/gpu.replicas=4": true, "nvidia.com/gpu.replicas=1": false, "nvidia.com/gpu.replicas=x": false, "nvidia.com/mig-1g.10gb.replicas=2": true,
		"cloud.google.com/gke-max-shared-clients-per-gpu=8": true, "nvidia.com/gpu.count=4": false, "example.com/gpu.replicas=4": false,
	} {
		key, value, _ := strings.Cut(label, "=")
		if got := NodeSharesGPUs(map[string]string{key: value}); got != want {
			t.Errorf("a node with %s: shared %t, want %t", label, got, want)
		}
	}
}
