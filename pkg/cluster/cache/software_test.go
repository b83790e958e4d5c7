package cache

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// server is a container that uses a GPU.
func server(image string, args ...string) corev1.Container {
	return corev1.Container{Name: "server", Image: image, Args: args, Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), "memory": resource.MustParse("8Gi")}}}
}

// The version of a pod depends only on the fields that determine how much work the pod serves: image, arguments, GPUs and selected nodes.
func TestVersionOfAPod(t *testing.T) {
	of := func(selector map[string]string, containers ...corev1.Container) uint64 {
		return softwareOf(&corev1.PodSpec{NodeSelector: selector, Containers: containers})
	}
	now := of(nil, server("vllm:1", "--model", "a"))
	memory := server("vllm:1", "--model", "a")
	memory.Resources.Limits["memory"] = resource.MustParse("16Gi")
	for name, same := range map[string]uint64{
		"a sidecar":    of(nil, server("vllm:1", "--model", "a"), corev1.Container{Name: "proxy", Image: "envoy:2"}),
		"its image":    of(nil, server("vllm:1", "--model", "a"), corev1.Container{Name: "proxy", Image: "envoy:3"}),
		"other memory": of(nil, memory),
	} {
		if same != now {
			t.Errorf("%s changes the version", name)
		}
	}
	two := server("vllm:1", "--model", "a")
	two.Resources.Limits["nvidia.com/gpu"] = resource.MustParse("2")
	seen := map[uint64]string{now: "the first version", 0: "unknown"}
	for name, other := range map[string]uint64{
		"another image":    of(nil, server("vllm:2", "--model", "a")),
		"other arguments":  of(nil, server("vllm:1", "--model", "b")),
		"joined arguments": of(nil, server("vllm:1", "--modela")),
		"two GPUs":         of(nil, two),
		"another GPU type": of(map[string]string{"nvidia.com/gpu.product": "NVIDIA-L40S"}, server("vllm:1", "--model", "a")),
		"no GPU":           of(nil, corev1.Container{Image: "server"}),
		"no container":     of(nil),
	} {
		if as, is := seen[other]; is {
			t.Errorf("%s has the same version as %s", name, as)
		}
		seen[other] = name
	}
}

// In a rollout that replaces four replicas one by one, the version changes once. While no pod is ready, the version is unknown.
func TestVersionChangesOnceInARollout(t *testing.T) {
	e := &entry{pods: map[string]*Pod{}}
	for i := range 4 {
		e.pods[fmt.Sprint(i)] = &Pod{phase: ready, software: 7}
	}
	version, changes := e.softwareVersion(0), 0
	if version != 7 {
		t.Fatalf("version %d, want 7", version)
	}
	for i := range 4 {
		for _, p := range []*Pod{{phase: loading, software: 9}, {phase: ready, software: 9}} {
			e.pods[fmt.Sprint(i)] = p
			next := e.softwareVersion(version)
			if next != version {
				changes++
			}
			version = next
		}
	}
	if version != 9 || changes != 1 {
		t.Errorf("version %d after %d changes, want 9 after 1", version, changes)
	}
	for _, p := range e.pods {
		p.phase = pending
	}
	if v := e.softwareVersion(version); v != 0 {
		t.Errorf("version %d without a ready pod, want 0", v)
	}
}

// The view of a Deployment has the version of its ready pods.
func TestViewHasTheVersionOfTheReadyPods(t *testing.T) {
	pod, err := TrimPod(&corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{server("vllm:1")}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}})
	if err != nil {
		t.Fatal(err)
	}
	e := &entry{target: &Target{Size: 1, Replicas: 1}, pods: map[string]*Pod{"a": pod.(*Pod)}}
	e.refresh()
	if want := softwareOf(&corev1.PodSpec{Containers: []corev1.Container{server("vllm:1")}}); e.view.Version != want {
		t.Errorf("version %d, want %d", e.view.Version, want)
	}
}
