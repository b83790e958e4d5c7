package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func gpuPodOf(app string, n int, state, gpus string) *corev1.Pod {
	p := podOf(app, n, state)
	p.Spec.Containers = []corev1.Container{{Name: "server", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(gpus)},
	}}}
	return p
}

func TestRequestsOfWorkloadsAndOfPodsWithoutAPolicy(t *testing.T) {
	c := &Cluster{world: newWorld()}
	w := c.world
	w.putTarget(must(trimDeployment(deployment("chat", 3, "2"))).(*targetFacts))
	w.putTarget(must(trimDeployment(deployment("free", 1, "1"))).(*targetFacts))
	for _, p := range []*corev1.Pod{
		gpuPodOf("chat", 1, "ready", "2"), gpuPodOf("chat", 2, "pending", "2"), gpuPodOf("chat", 3, "terminating", "2"),
		gpuPodOf("free", 1, "ready", "1"), gpuPodOf("notebook", 1, "loading", "4"), podOf("cpu", 1, "ready"),
	} {
		w.putPod(must(trimPod(p)).(*podFacts))
	}
	const gpu = "nvidia.com/gpu"
	chat, unknown := workload("chat"), workload("unknown")
	if n, known, pods := c.Request(chat, gpu); n != 2 || !known || pods != 4 {
		t.Errorf("chat: %d per replica (known %v), its pods %d, want 2 and 4", n, known, pods)
	}
	if n, known, pods := c.Request(chat, "amd.com/gpu"); n != 0 || !known || pods != 0 {
		t.Errorf("chat, another resource: %d (known %v), %d", n, known, pods)
	}
	if _, known, _ := c.Request(unknown, gpu); known {
		t.Error("a target that is not there has a known amount")
	}
	team, of := &scaling.Team{Namespaces: []string{"team", "empty"}}, []*scaling.Workload{chat}
	if n := c.Unmanaged(team, of, gpu); n != 5 {
		t.Errorf("pods without a policy request %d, want 1 of free and 4 of the notebook", n)
	}
	w.dropPod("team", "notebook-1")
	if n := c.Unmanaged(team, of, gpu); n != 1 {
		t.Errorf("after the notebook: %d, want 1", n)
	}
	if n := c.Unmanaged(team, []*scaling.Workload{chat, workload("free")}, gpu); n != 0 {
		t.Errorf("after free has a policy: %d, want 0", n)
	}
	if n := c.Unmanaged(&scaling.Team{Namespaces: []string{"other"}}, of, gpu); n != 0 {
		t.Errorf("another team: %d, want 0", n)
	}
}

// A kind without a pod template that can be read requests an unknown amount, not 0.
func TestATemplateThatCannotBeReadIsUnknown(t *testing.T) {
	without := rollout(3)
	unstructured.RemoveNestedField(without.Object, "spec", "template")
	empty := rollout(3)
	_ = unstructured.SetNestedField(empty.Object, []any{}, "spec", "template", "spec", "containers")
	broken := rollout(3)
	_ = unstructured.SetNestedField(broken.Object, "many", "spec", "template", "spec", "containers")
	for name, u := range map[string]*unstructured.Unstructured{"none": without, "no container": empty, "broken": broken} {
		if f := must(trimScalable(u)).(*targetFacts); !f.unreadable {
			t.Errorf("%s: the amount counts as known", name)
		}
	}
	if f := must(trimScalable(rollout(3))).(*targetFacts); f.unreadable || gpupods.CountOf(f.extended, "nvidia.com/gpu") != 2 {
		t.Errorf("a template: %+v", f)
	}
	if f := must(trimLeaderWorkerSet(leaderWorkerSet("big", 2))).(*targetFacts); f.unreadable {
		t.Error("a LeaderWorkerSet counts as unreadable")
	}
}
