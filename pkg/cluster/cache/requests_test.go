package cache

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func TestRequestsOfWorkloadsAndOfPodsWithoutAPolicy(t *testing.T) {
	c := New(0)
	c.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 3, "2"))))
	c.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("free", 1, "1"))))
	for _, p := range []*corev1.Pod{
		fixture.GPUPod("chat", 1, "ready", "2"), fixture.GPUPod("chat", 2, "pending", "2"), fixture.GPUPod("chat", 3, "terminating", "2"),
		fixture.GPUPod("free", 1, "ready", "1"), fixture.GPUPod("notebook", 1, "loading", "4"), fixture.Pod("cpu", 1, "ready"),
	} {
		c.PutPod(fixture.Must[*Pod](TrimPod(p)))
	}
	const gpu = "nvidia.com/gpu"
	chat, unknown := fixture.Workload("chat"), fixture.Workload("unknown")
	if n, known, pods := c.Request(chat, gpu); n != 2 || !known || pods != 4 {
		t.Errorf("chat: %d per replica (known %v), its pods %d, want 2 and 4", n, known, pods)
	}
	if n, known, pods := c.Request(chat, "amd.com/gpu"); n != 0 || !known || pods != 0 {
		t.Errorf("chat, another resource: %d (known %v), %d", n, known, pods)
	}
	if _, known, _ := c.Request(unknown, gpu); known {
		t.Error("a target that was not read has a known amount")
	}
	team, of := &scaling.Team{Namespaces: []string{"team", "empty"}}, []*scaling.Workload{chat}
	if n := c.Unmanaged(team, of, gpu); n != 5 {
		t.Errorf("pods without a policy request %d, want 1 of free and 4 of the notebook", n)
	}
	c.DropPod("team", "notebook-1")
	if n := c.Unmanaged(team, of, gpu); n != 1 {
		t.Errorf("after the notebook: %d, want 1", n)
	}
	if n := c.Unmanaged(team, []*scaling.Workload{chat, fixture.Workload("free")}, gpu); n != 0 {
		t.Errorf("after free has a policy: %d, want 0", n)
	}
	if n := c.Unmanaged(&scaling.Team{Namespaces: []string{"other"}}, of, gpu); n != 0 {
		t.Errorf("another team: %d, want 0", n)
	}
}

// A kind without a pod template that can be read requests an unknown amount, not 0.
func TestRequestOfAnUnreadableTemplateIsUnknown(t *testing.T) {
	without := fixture.Rollout(3)
	unstructured.RemoveNestedField(without.Object, "spec", "template")
	empty := fixture.Rollout(3)
	_ = unstructured.SetNestedField(empty.Object, []any{}, "spec", "template", "spec", "containers")
	broken := fixture.Rollout(3)
	_ = unstructured.SetNestedField(broken.Object, "many", "spec", "template", "spec", "containers")
	for name, u := range map[string]*unstructured.Unstructured{"none": without, "no container": empty, "broken": broken} {
		if f := fixture.Must[*Target](TrimScalable(u)); !f.Unreadable {
			t.Errorf("%s: the amount counts as known", name)
		}
	}
	if f := fixture.Must[*Target](TrimScalable(fixture.Rollout(3))); f.Unreadable || gpupods.CountOf(f.Extended, "nvidia.com/gpu") != 2 {
		t.Errorf("a template: %+v", f)
	}
	if f := fixture.Must[*Target](TrimLeaderWorkerSet(fixture.LeaderWorkerSet("big", 2))); f.Unreadable {
		t.Error("a LeaderWorkerSet counts as unreadable")
	}
}
