package cluster

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
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
		states                            []string // of one group's pods, the leader first
		ready, loading, pending, crashing int32
	}{
		"all ready":                            {[]string{"ready", "ready", "ready", "ready"}, 1, 0, 0, 0},
		"the leader alone is ready":            {[]string{"ready", "loading", "loading", "loading"}, 0, 1, 0, 0},
		"one worker has no node":               {[]string{"ready", "ready", "ready", "pending"}, 0, 0, 1, 0},
		"the workers are not made yet":         {[]string{"loading"}, 0, 1, 0, 0},
		"the leader is ready, no workers yet":  {[]string{"ready"}, 0, 1, 0, 0},
		"one worker crashes in a loop":         {[]string{"ready", "ready", "ready", "crashing"}, 0, 0, 0, 1},
		"the group is torn down":               {[]string{"terminating", "terminating", "terminating", "terminating"}, 0, 0, 0, 0},
		"a worker was lost, the others remain": {[]string{"ready", "ready", "ready", "terminating"}, 0, 1, 0, 0},
		"the leader waits for a node":          {[]string{"pending"}, 0, 0, 1, 0},
	} {
		w := newWorld()
		w.putTarget(must(trimLeaderWorkerSet(leaderWorkerSet("big", 2))).(*targetFacts))
		for worker, state := range c.states {
			w.putPod(must(trimPod(groupPod("big", 0, worker, state))).(*podFacts))
		}
		v, ok := w.view(groupWorkload("big"))
		if !ok || v.Ready != c.ready || v.Loading != c.loading || v.Pending != c.pending || v.Crashing != c.crashing {
			t.Errorf("%s: ready %d, loading %d, pending %d, crashing %d", name, v.Ready, v.Loading, v.Pending, v.Crashing)
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

// A LeaderWorkerSet says how many pods a replica has; nodes are decided by replicas.
func TestNodesAreDecidedByReplicasOfGroups(t *testing.T) {
	c := clusterWithPools(t)
	c.world.putTarget(must(trimLeaderWorkerSet(leaderWorkerSet("big", 11))).(*targetFacts))
	for group := range 11 {
		for worker := range 4 {
			p := groupPod("big", group, worker, "pending")
			p.Spec.Containers = []corev1.Container{{Name: "server", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}}}
			c.world.putPod(must(trimPod(p)).(*podFacts))
		}
	}
	o := capacity.Observation{Workloads: make([]capacity.Workload, 1)}
	c.nodes.Observe(spotAndOnDemand(t), []*scaling.Workload{groupWorkload("big")}, &o)
	w := o.Workloads[0]
	if w.Size != 4 || w.GPUs != 25 || w.PodGPUs != 8 || len(w.Pods) != 44 {
		t.Fatalf("size %d, GPUs %d, of a pod %d, %d pods; want 4, 25, 8 and 44", w.Size, w.GPUs, w.PodGPUs, len(w.Pods))
	}
	seen := map[string]bool{}
	for i := 0; i < len(w.Pods); i += 4 {
		for _, p := range w.Pods[i : i+4] {
			if p.Replica == "" || p.Replica != w.Pods[i].Replica || seen[p.Replica] {
				t.Fatalf("the pods of one replica are not together: %q at %d", p.Replica, i)
			}
		}
		seen[w.Pods[i].Replica] = true
	}
}

// Any other kind does not say it. Counted as replicas, two pods a replica would double the targets again and again.
func TestAKindWithSeveralPodsForAReplicaIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		replicas, exist int64
		pods            int
		refused         bool
	}{
		"one pod each":                          {3, 3, 3, false},
		"two pods each":                         {3, 3, 6, true},
		"four pods of one replica":              {1, 1, 4, true},
		"one replica in a rolling update":       {1, 2, 2, false},
		"a surge of a quarter":                  {4, 4, 5, false},
		"a scale-in whose pods have not ended":  {2, 10, 10, false},
		"a scale-out whose pods do not exist":   {10, 3, 3, false},
		"no replica, and one pod that is left":  {0, 0, 1, false},
		"status.replicas is not written at all": {3, 0, 3, false},
	} {
		w := newWorld()
		client := &Cluster{world: w}
		client.synced.Store(true)
		scale := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": c.replicas},
			"status": map[string]any{"replicas": c.exist, "selector": "app=chat"}}}
		full, err := withScale(must(trimScalable(rollout(c.replicas))).(*targetFacts), scale)
		if err != nil {
			t.Fatal(err)
		}
		w.putTarget(full)
		for i := range c.pods {
			w.putPod(must(trimPod(podOf("chat", i, "ready"))).(*podFacts))
		}
		_, ok := client.View(rolloutWorkload())
		why := client.Refusal(rolloutWorkload())
		if ok == c.refused || (why != "") != c.refused {
			t.Errorf("%s: view %v, refusal %q, want refused %v", name, ok, why, c.refused)
		}
		if want := fmt.Sprintf("Rollout team/chat has %d pods for %d replicas", c.pods, c.replicas); c.refused && !strings.HasPrefix(why, want) {
			t.Errorf("%s: %q, want %q", name, why, want)
		}
	}
}
