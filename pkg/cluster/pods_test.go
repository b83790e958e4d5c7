package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAPodIsCountedWhereItStands(t *testing.T) {
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
		p := podOf("chat", 1, "loading")
		change(p)
		return p
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want phase
	}{
		"without a node":                  {podOf("chat", 1, "pending"), podPending},
		"without a node, and deleted":     {on(func(p *corev1.Pod) { p.Spec.NodeName = ""; p.DeletionTimestamp = &metav1.Time{} }), podGone},
		"ready":                           {podOf("chat", 1, "ready"), podReady},
		"ready, and terminating":          {on(func(p *corev1.Pod) { p.Status.Conditions[0].Status = "True"; p.DeletionTimestamp = &metav1.Time{} }), podGone},
		"finished":                        {on(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), podGone},
		"evicted":                         {on(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), podGone},
		"on a node, no status yet":        {on(func(p *corev1.Pod) { p.Status.Conditions = nil }), podLoading},
		"pulls its image":                 {on(func(p *corev1.Pod) { p.Status.ContainerStatuses = waiting("ContainerCreating") }), podLoading},
		"cannot pull its image yet":       {on(func(p *corev1.Pod) { p.Status.ContainerStatuses = waiting("ImagePullBackOff") }), podLoading},
		"waits for the next crash":        {on(func(p *corev1.Pod) { p.Status.ContainerStatuses = waiting("CrashLoopBackOff") }), podCrashing},
		"an init container crashes":       {on(func(p *corev1.Pod) { p.Status.InitContainerStatuses = waiting("CrashLoopBackOff") }), podCrashing},
		"looks alive between two crashes": {on(func(p *corev1.Pod) { p.Status.ContainerStatuses = died(2, 1, 40*time.Second) }), podCrashing},
		"crashed once":                    {on(func(p *corev1.Pod) { p.Status.ContainerStatuses = died(1, 1, 40*time.Second) }), podLoading},
		"restarted after a long life":     {on(func(p *corev1.Pod) { p.Status.ContainerStatuses = died(7, 137, 48*time.Hour) }), podLoading},
		"ended well and starts again":     {on(func(p *corev1.Pod) { p.Status.ContainerStatuses = died(3, 0, time.Minute) }), podLoading},
		"a container that crashed, but ready": {on(func(p *corev1.Pod) {
			p.Status.Conditions[0].Status = "True"
			p.Status.ContainerStatuses = died(9, 1, time.Second)
		}), podReady},
	} {
		if got := phaseOf(c.pod); got != c.want {
			t.Errorf("%s: phase %d, want %d", name, got, c.want)
		}
	}
}
