package gpupods

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// container returns a container with the given limits. The arguments are alternately the name and the quantity of a resource.
func container(limits ...string) corev1.Container {
	c := corev1.Container{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}}}
	for i := 0; i < len(limits); i += 2 {
		c.Resources.Limits[corev1.ResourceName(limits[i])] = resource.MustParse(limits[i+1])
	}
	return c
}

func TestGPUsAreWhatTheSchedulerReserves(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container("nvidia.com/gpu", "1")
	sidecar.RestartPolicy = &always
	requestOnly := corev1.Container{}
	requestOnly.Resources.Requests = corev1.ResourceList{"amd.com/gpu": resource.MustParse("8")}
	one, four := container("nvidia.com/gpu", "1"), container("nvidia.com/gpu", "4")
	type list = []corev1.Container
	for name, c := range map[string]struct {
		init, containers list
		want             int32
	}{
		"none":                              {nil, list{container("cpu", "8")}, 0},
		"two containers":                    {nil, list{four, four}, 8},
		"MIG partitions":                    {nil, list{container("nvidia.com/mig-1g.10gb", "2")}, 2},
		"time slices":                       {nil, list{container("nvidia.com/gpu.shared", "1")}, 1},
		"a request without a limit":         {nil, list{requestOnly}, 8},
		"Gaudi accelerators":                {nil, list{container("habana.ai/gaudi", "8")}, 8},
		"Intel GPUs with the xe driver":     {nil, list{container("gpu.intel.com/xe", "2")}, 2},
		"memory of a GPU is not a GPU":      {nil, list{container("gpu.intel.com/i915", "1", "gpu.intel.com/memory.max", "16000")}, 1},
		"a larger init container":           {list{four}, list{one}, 4},
		"a smaller init container":          {list{one}, list{four}, 4},
		"a sidecar runs beside containers":  {list{sidecar}, list{four}, 5},
		"a sidecar beside a later init one": {list{sidecar, container("nvidia.com/gpu", "6")}, list{four}, 7},
		"an invalid large number":           {nil, list{container("nvidia.com/gpu", "9223372036854775807")}, MaxGPUs},
		"a negative number":                 {nil, list{container("nvidia.com/gpu", "-3")}, 0},
	} {
		if got := GPUs(&corev1.PodSpec{InitContainers: c.init, Containers: c.containers}); got != c.want {
			t.Errorf("%s: %d GPUs, want %d", name, got, c.want)
		}
	}
}

func TestNodeSharesGPUs(t *testing.T) {
	for label, want := range map[string]bool{
		"nvidia.com/gpu.replicas=4":                         true,
		"nvidia.com/gpu.replicas=1":                         false,
		"nvidia.com/gpu.replicas=x":                         false,
		"nvidia.com/mig-1g.10gb.replicas=2":                 true,
		"cloud.google.com/gke-max-shared-clients-per-gpu=8": true,
		"nvidia.com/gpu.count=4":                            false,
		"example.com/gpu.replicas=4":                        false,
	} {
		key, value, _ := strings.Cut(label, "=")
		if got := NodeSharesGPUs(map[string]string{key: value}); got != want {
			t.Errorf("a node with %s: shared %t, want %t", label, got, want)
		}
	}
}

func TestFactsOfAPodWithoutExtendedResourcesAreNil(t *testing.T) {
	if f := FactsOf(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("cpu", "8")}}}); f != nil {
		t.Errorf("facts %+v", f)
	}
	claim := "gpu"
	p := &corev1.Pod{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "d", ResourceClaimTemplateName: &claim}}}}
	if f := FactsOf(p); f == nil || len(f.Claims) != 1 || f.Claims[0] != (ClaimRef{Template: "gpu"}) {
		t.Errorf("facts %+v of a pod with a claim", f)
	}
}
