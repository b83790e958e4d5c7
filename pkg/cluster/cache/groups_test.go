package cache

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
)

func TestReplicaOfAGroupIsReadyOnlyWithAllOfItsPods(t *testing.T) {
	for name, c := range map[string]struct {
		states                            []string // states of the pods of one replica, the leader first
		ready, loading, pending, crashing int32
	}{
		"all ready":                            {[]string{"ready", "ready", "ready", "ready"}, 1, 0, 0, 0},
		"only the leader is ready":             {[]string{"ready", "loading", "loading", "loading"}, 0, 1, 0, 0},
		"one worker has no node":               {[]string{"ready", "ready", "ready", "pending"}, 0, 0, 1, 0},
		"the workers are not created yet":      {[]string{"loading"}, 0, 1, 0, 0},
		"the leader is ready, no workers yet":  {[]string{"ready"}, 0, 1, 0, 0},
		"one worker crashes in a loop":         {[]string{"ready", "ready", "ready", "crashing"}, 0, 0, 0, 1},
		"the group terminates":                 {[]string{"terminating", "terminating", "terminating", "terminating"}, 0, 0, 0, 0},
		"a worker was lost, the others remain": {[]string{"ready", "ready", "ready", "terminating"}, 0, 1, 0, 0},
		"the leader waits for a node":          {[]string{"pending"}, 0, 0, 1, 0},
	} {
		w := New(0)
		w.PutTarget(fixture.Must[*Target](TrimLeaderWorkerSet(fixture.LeaderWorkerSet("big", 2))))
		for worker, state := range c.states {
			w.PutPod(fixture.Must[*Pod](TrimPod(fixture.GroupPod("big", 0, worker, state))))
		}
		v, ok := w.View(fixture.GroupWorkload("big"))
		if !ok || v.Ready != c.ready || v.Loading != c.loading || v.Pending != c.pending || v.Crashing != c.crashing {
			t.Errorf("%s: ready %d, loading %d, pending %d, crashing %d", name, v.Ready, v.Loading, v.Pending, v.Crashing)
		}
	}
}

func TestGPUsOfAGroupIncludeItsWorkers(t *testing.T) {
	w := New(0)
	w.PutTarget(fixture.Must[*Target](TrimLeaderWorkerSet(fixture.LeaderWorkerSet("big", 2))))
	for group := range 2 {
		for worker := range 4 {
			w.PutPod(fixture.Must[*Pod](TrimPod(fixture.GroupPod("big", group, worker, "ready"))))
		}
	}
	v, _ := w.View(fixture.GroupWorkload("big"))
	if v.Replicas != 2 || v.Ready != 2 || v.GPUs != 25 {
		t.Errorf("replicas %d, ready %d, GPUs %d; want 2, 2 and 1 + 3*8", v.Replicas, v.Ready, v.GPUs)
	}
	leaders := 0
	pods := w.Pods(fixture.GroupWorkload("big"))
	for _, p := range pods {
		if p.Leader {
			leaders++
		}
	}
	if len(pods) != 8 || leaders != 2 {
		t.Errorf("%d pods, %d of them leaders", len(pods), leaders)
	}
}

func TestLeaderWithoutATemplateUsesTheWorkerTemplate(t *testing.T) {
	u := fixture.LeaderWorkerSet("big", 1)
	unstructured.RemoveNestedField(u.Object, "spec", "leaderWorkerTemplate", "leaderTemplate")
	if f := fixture.Must[*Target](TrimLeaderWorkerSet(u)); f.GPUs != 32 {
		t.Errorf("GPUs %d, want 4*8", f.GPUs)
	}
}

func TestInvalidLeaderWorkerSetIsRead(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": map[string]any{"name": "x"},
		"spec": map[string]any{"replicas": int64(1) << 40, "leaderWorkerTemplate": map[string]any{"size": int64(-4), "workerTemplate": "?"}},
	}}
	if f := fixture.Must[*Target](TrimLeaderWorkerSet(u)); f.Size != 1 || f.GPUs != 0 || f.Replicas != maxReplicas {
		t.Errorf("%+v", f)
	}
}

// /scale does not report how many pods a replica has. If a replica has two pods and each pod counts as a replica, the computed target
// doubles repeatedly. The cache must refuse such a workload.
func TestKindWithSeveralPodsPerReplicaIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		replicas, exist int64
		pods            int
		refused         bool
	}{
		"one pod each":                         {3, 3, 3, false},
		"two pods each":                        {3, 3, 6, true},
		"four pods of one replica":             {1, 1, 4, true},
		"one replica in a rolling update":      {1, 2, 2, false},
		"a surge of a quarter":                 {4, 4, 5, false},
		"a scale-in whose pods have not ended": {2, 10, 10, false},
		"a scale-out whose pods do not exist":  {10, 3, 3, false},
		"no replica, and one pod that is left": {0, 0, 1, false},
		"status.replicas is never written":     {3, 0, 3, false},
	} {
		w := New(0)
		scale := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": c.replicas},
			"status": map[string]any{"replicas": c.exist, "selector": "app=chat"}}}
		full, err := fixture.Must[*Target](ScaleKind{}.Trim(fixture.Rollout(c.replicas))).WithScale(scale)
		if err != nil {
			t.Fatal(err)
		}
		w.PutTarget(full)
		for i := range c.pods {
			w.PutPod(fixture.Must[*Pod](TrimPod(fixture.Pod("chat", i, "ready"))))
		}
		_, ok := w.View(fixture.RolloutWorkload())
		why := w.Refusal(fixture.RolloutWorkload())
		if ok == c.refused || (why != "") != c.refused {
			t.Errorf("%s: view %v, refusal %q, want refused %v", name, ok, why, c.refused)
		}
		if want := fmt.Sprintf("Rollout team/chat has %d pods for %d replicas", c.pods, c.replicas); c.refused && !strings.HasPrefix(why, want) {
			t.Errorf("%s: %q, want %q", name, why, want)
		}
	}
}

func TestScaleWithoutAValidSelectorOrReplicasIsRefused(t *testing.T) {
	f := fixture.Must[*Target](ScaleKind{}.Trim(fixture.Rollout(3)))
	for name, scale := range map[string]map[string]any{
		"no selector":         {"spec": map[string]any{"replicas": int64(1)}},
		"an empty selector":   {"spec": map[string]any{"replicas": int64(1)}, "status": map[string]any{"selector": ""}},
		"an invalid selector": {"spec": map[string]any{"replicas": int64(1)}, "status": map[string]any{"selector": "a in ("}},
		"negative replicas":   {"spec": map[string]any{"replicas": int64(-1)}, "status": map[string]any{"selector": "a=b"}},
		"replicas of a float": {"spec": map[string]any{"replicas": 1.5}, "status": map[string]any{"selector": "a=b"}},
	} {
		if full, err := f.WithScale(&unstructured.Unstructured{Object: scale}); err == nil {
			t.Errorf("%s: %+v", name, full)
		}
	}
}
