package cluster

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func gpuTemplate(gpus string) map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
		"name": "server", "resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": gpus}},
	}}}}
}

// leaderWorkerSet serves with groups of four pods: a leader with one GPU and three workers with eight.
func leaderWorkerSet(name string, replicas int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
		"metadata": map[string]any{"name": name, "namespace": "team", "uid": "lws"},
		"spec": map[string]any{
			"replicas": replicas,
			"leaderWorkerTemplate": map[string]any{
				"size": int64(4), "leaderTemplate": gpuTemplate("1"), "workerTemplate": gpuTemplate("8"),
			},
		},
	}}
}

func groupPod(name string, group, worker int, state string) *corev1.Pod {
	p := podOf(name, 10*group+worker, state)
	p.Labels = map[string]string{lwsName: name, lwsGroup: fmt.Sprint(group), lwsWorker: fmt.Sprint(worker)}
	return p
}

func groupWorkload(name string) *scaling.Workload {
	w := workload(name)
	w.Target = scaling.Target{APIVersion: "leaderworkerset.x-k8s.io/v1", Kind: "LeaderWorkerSet", Name: name}
	return w
}

func TestAReplicaOfAGroupServesOnlyWithAllOfItsPods(t *testing.T) {
	for name, c := range map[string]struct {
		states                  []string // of one group's pods, the leader first
		ready, loading, pending int32
	}{
		"all ready":                            {[]string{"ready", "ready", "ready", "ready"}, 1, 0, 0},
		"the leader alone is ready":            {[]string{"ready", "loading", "loading", "loading"}, 0, 1, 0},
		"one worker has no node":               {[]string{"ready", "ready", "ready", "pending"}, 0, 0, 1},
		"the workers are not made yet":         {[]string{"loading"}, 0, 1, 0},
		"the leader is ready, no workers yet":  {[]string{"ready"}, 0, 1, 0},
		"one worker crashes in a loop":         {[]string{"ready", "ready", "ready", "crashing"}, 0, 0, 0},
		"the group is torn down":               {[]string{"terminating", "terminating", "terminating", "terminating"}, 0, 0, 0},
		"a worker was lost, the others remain": {[]string{"ready", "ready", "ready", "terminating"}, 0, 1, 0},
		"the leader waits for a node":          {[]string{"pending"}, 0, 0, 1},
	} {
		w := newWorld()
		w.putTarget(must(trimLeaderWorkerSet(leaderWorkerSet("big", 2))).(*targetFacts))
		for worker, state := range c.states {
			w.putPod(must(trimPod(groupPod("big", 0, worker, state))).(*podFacts))
		}
		v, ok := w.view(groupWorkload("big"))
		if !ok || v.Ready != c.ready || v.Loading != c.loading || v.Pending != c.pending {
			t.Errorf("%s: ready %d, loading %d, pending %d", name, v.Ready, v.Loading, v.Pending)
		}
	}
}

func TestAGroupsGPUsAndPodsCountItsWorkers(t *testing.T) {
	w := newWorld()
	w.putTarget(must(trimLeaderWorkerSet(leaderWorkerSet("big", 2))).(*targetFacts))
	for group := range 2 {
		for worker := range 4 {
			w.putPod(must(trimPod(groupPod("big", group, worker, "ready"))).(*podFacts))
		}
	}
	v, _ := w.view(groupWorkload("big"))
	if v.Replicas != 2 || v.Ready != 2 || v.GPUs != 25 {
		t.Errorf("replicas %d, ready %d, GPUs %d; want 2, 2 and 1 + 3*8", v.Replicas, v.Ready, v.GPUs)
	}
	leaders := 0
	pods := w.podsOf(groupWorkload("big"))
	for _, p := range pods {
		if p.Leader {
			leaders++
		}
	}
	if len(pods) != 8 || leaders != 2 {
		t.Errorf("%d pods, %d of them leaders", len(pods), leaders)
	}
}

func TestALeaderWithoutATemplateOfItsOwnIsLikeItsWorkers(t *testing.T) {
	u := leaderWorkerSet("big", 1)
	unstructured.RemoveNestedField(u.Object, "spec", "leaderWorkerTemplate", "leaderTemplate")
	if f := must(trimLeaderWorkerSet(u)).(*targetFacts); f.gpus != 32 {
		t.Errorf("GPUs %d, want 4*8", f.gpus)
	}
}

func TestABrokenGroupIsReadWithoutHarm(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": map[string]any{"name": "x"},
		"spec": map[string]any{"replicas": int64(1) << 40, "leaderWorkerTemplate": map[string]any{"size": int64(-4), "workerTemplate": "?"}},
	}}
	if f := must(trimLeaderWorkerSet(u)).(*targetFacts); f.size != 1 || f.gpus != 0 || f.replicas != maxReplicas {
		t.Errorf("%+v", f)
	}
}
