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

// If an object has no pod template, or its template cannot be decoded, the request of a replica must be unknown instead of 0.
func TestRequestOfAnUnreadableTemplateIsUnknown(t *testing.T) {
	without := fixture.Rollout(3)
	unstructured.RemoveNestedField(without.Object, "spec", "template")
	empty := fixture.Rollout(3)
	_ = unstructured.SetNestedField(empty.Object, []any{}, "spec", "template", "spec", "containers")
	broken := fixture.Rollout(3)
	_ = unstructured.SetNestedField(broken.Object, "many", "spec", "template", "spec", "containers")
	for name, u := range map[string]*unstructured.Unstructured{"none": without, "no container": empty, "broken": broken} {
		if f := fixture.Must[*Target](ScaleKind{}.Trim(u)); !f.Unreadable {
			t.Errorf("%s: the amount counts as known", name)
		}
	}
	if f := fixture.Must[*Target](ScaleKind{}.Trim(fixture.Rollout(3))); f.Unreadable || gpupods.CountOf(f.Extended, "nvidia.com/gpu") != 2 {
		t.Errorf("a template: %+v", f)
	}
	if f := fixture.Must[*Target](TrimLeaderWorkerSet(fixture.LeaderWorkerSet("big", 2))); f.Unreadable {
		t.Error("a LeaderWorkerSet counts as unreadable")
	}
}

// A pod can claim an unknown number of GPUs by dynamic resource allocation. The request of a workload with such a claim is unknown, and a
// pod without a policy that has such a claim counts as at least one GPU. If the number of devices is known, each device counts as one GPU.
func TestGPUsThatAreClaimedAreNotZero(t *testing.T) {
	template := "gpus"
	claiming := func(spec *corev1.PodSpec) {
		spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimTemplateName: &template}}
	}
	c := New(0)
	chat := fixture.Deployment("chat", 2, "0")
	claiming(&chat.Spec.Template.Spec)
	c.PutTarget(fixture.Must[*Target](TrimDeployment(chat)))
	for _, p := range []*corev1.Pod{
		fixture.Pod("chat", 1, "ready"), fixture.Pod("chat", 2, "ready"), fixture.Pod("notebook", 1, "ready"),
		fixture.Pod("notebook", 2, "terminating"),
	} {
		claiming(&p.Spec)
		c.PutPod(fixture.Must[*Pod](TrimPod(p)))
	}
	const gpu = "nvidia.com/gpu"
	w, team := fixture.Workload("chat"), &scaling.Team{Namespaces: []string{"team"}}
	managed := []*scaling.Workload{w}
	counts := func(n gpupods.ClaimCount) CountClaims {
		return func(string, []gpupods.ClaimRef, string, gpupods.Counted) gpupods.ClaimCount { return n }
	}
	unknown, four := counts(gpupods.ClaimCount{Unknown: true}), counts(gpupods.ClaimCount{Devices: 4, Claimed: true})
	for _, step := range []struct {
		when                       string
		claims                     CountClaims
		resource                   string
		known                      bool
		each, pods, unmanaged, all int64
	}{
		{"no claim is known", nil, gpu, false, 0, 2, 1, 3},
		{"the claims are for GPUs", unknown, gpu, false, 0, 2, 1, 3},
		{"another resource", unknown, "example.com/fpga", true, 0, 0, 0, 0},
		{"the claims are for network devices", counts(gpupods.ClaimCount{}), gpu, true, 0, 0, 0, 0},
		{"each claim is for four GPUs", four, gpu, true, 4, 8, 4, 12},
	} {
		c.SetClaims(step.claims)
		if each, known, pods := c.Request(w, step.resource); each != step.each || known != step.known || pods != step.pods {
			t.Errorf("%s: %d per replica, known %v, pods %d, want %d, %v and %d", step.when, each, known, pods, step.each, step.known, step.pods)
		}
		if v, ok := c.View(w); !ok || int64(v.GPUs) != step.each {
			t.Errorf("%s: the view has %d GPUs per replica, want %d", step.when, v.GPUs, step.each)
		}
		if n := c.Unmanaged(team, managed, step.resource); n != step.unmanaged {
			t.Errorf("%s: pods without a policy request %d, want %d", step.when, n, step.unmanaged)
		}
		if n := c.Unmanaged(team, nil, step.resource); n != step.all {
			t.Errorf("%s: all pods request %d, want %d", step.when, n, step.all)
		}
	}
}

// A LimitRange gives each container of the namespace one GPU, so the pods request more than their template. The request of a replica must
// be the request of these pods. Pods from a previous version of the template must not change the request of the current version.
func TestRequestIncludesWhatOnlyThePodsRequest(t *testing.T) {
	c := New(0)
	chat := fixture.Workload("chat")
	d := fixture.Deployment("chat", 2, "1")
	d.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	c.PutTarget(fixture.Must[*Target](TrimDeployment(d)))
	request := func(perReplica, pods int64, gpus int32) {
		t.Helper()
		n, known, sum := c.Request(chat, "nvidia.com/gpu")
		v, _ := c.View(chat)
		c.RLock()
		amounts, _ := c.ResourcesOf(chat)
		extended := gpupods.CountOf(amounts, "nvidia.com/gpu")
		c.RUnlock()
		if n != perReplica || extended != perReplica || !known || sum != pods || v.GPUs != gpus {
			t.Errorf("%d per replica (nodes: %d, view: %d), %d in pods, known: %t; want %d, %d", n, extended, v.GPUs, sum, known, perReplica, pods)
		}
	}
	request(0, 0, 0)
	c.PutPod(fixture.Must[*Pod](TrimPod(fixture.GPUPod("chat", 0, "ready", "1"))))
	c.PutPod(fixture.Must[*Pod](TrimPod(fixture.GPUPod("chat", 1, "pending", "1"))))
	request(1, 2, 1)
	c.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 2, "1"))))
	c.PutPod(fixture.Must[*Pod](TrimPod(fixture.GPUPod("chat", 0, "ready", "4"))))
	request(1, 5, 1)
}
