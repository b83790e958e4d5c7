package cache

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
)

func TestPhaseOfAPod(t *testing.T) {
	start := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	died := func(restarts int32, exit int32, ran time.Duration) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{
			RestartCount: restarts,
			State:        corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: exit, StartedAt: metav1.Time{Time: start}, FinishedAt: metav1.Time{Time: start.Add(ran)},
			}},
		}}
	}
	waiting := func(reason string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	}
	on := func(change func(p *corev1.Pod)) *corev1.Pod {
		p := fixture.Pod("chat", 1, "loading")
		change(p)
		return p
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want phase
	}{
		"without a node": {fixture.Pod("chat", 1, "pending"), pending},
		"without a node, and deleted": {
			on(func(p *corev1.Pod) { p.Spec.NodeName = ""; p.DeletionTimestamp = &metav1.Time{} }), ended,
		},
		"ready": {fixture.Pod("chat", 1, "ready"), ready},
		"ready, and terminating": {
			on(func(p *corev1.Pod) { p.Status.Conditions[0].Status = "True"; p.DeletionTimestamp = &metav1.Time{} }), ended,
		},
		"finished":                 {on(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), ended},
		"evicted":                  {on(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), ended},
		"on a node, no status yet": {on(func(p *corev1.Pod) { p.Status.Conditions = nil }), loading},
		"pulls its image": {
			on(func(p *corev1.Pod) { p.Status.ContainerStatuses = waiting("ContainerCreating") }), loading,
		},
		"cannot pull its image yet": {
			on(func(p *corev1.Pod) { p.Status.ContainerStatuses = waiting("ImagePullBackOff") }), loading,
		},
		"waits for the next crash": {
			on(func(p *corev1.Pod) { p.Status.ContainerStatuses = waiting("CrashLoopBackOff") }), inCrashLoop,
		},
		"an init container crashes": {
			on(func(p *corev1.Pod) { p.Status.InitContainerStatuses = waiting("CrashLoopBackOff") }), inCrashLoop,
		},
		"runs between two crashes": {
			on(func(p *corev1.Pod) { p.Status.ContainerStatuses = died(2, 1, 40*time.Second) }), inCrashLoop,
		},
		"crashed once":                            {on(func(p *corev1.Pod) { p.Status.ContainerStatuses = died(1, 1, 40*time.Second) }), loading},
		"restarted after two days":                {on(func(p *corev1.Pod) { p.Status.ContainerStatuses = died(7, 137, 48*time.Hour) }), loading},
		"ended with exit code 0 and starts again": {on(func(p *corev1.Pod) { p.Status.ContainerStatuses = died(3, 0, time.Minute) }), loading},
		"a container that crashed, but ready": {on(func(p *corev1.Pod) {
			p.Status.Conditions[0].Status = "True"
			p.Status.ContainerStatuses = died(9, 1, time.Second)
		}), ready},
	} {
		if got := phaseOf(c.pod); got != c.want {
			t.Errorf("%s: phase %d, want %d", name, got, c.want)
		}
	}
}

// A pod that shares its GPU with other pods is recognized by the name of the resource that it requests.
func TestSharedGPUOfAPod(t *testing.T) {
	for name, want := range map[string]bool{
		"nvidia.com/gpu": false, "nvidia.com/gpu.shared": true, "nvidia.com/mig-1g.10gb": false, "nvidia.com/mig-1g.10gb.shared": true,
		"example.com/x.shared": false, "cpu": false,
	} {
		p := fixture.Pod("llama", 0, "ready")
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceName(name): resource.MustParse("1")},
		}}}
		f, err := TrimPod(p)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.(*Pod).pod.SharedGPU; got != want {
			t.Errorf("a pod that requests %s: shared %t, want %t", name, got, want)
		}
	}
}
