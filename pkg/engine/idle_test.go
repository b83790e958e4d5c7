package engine

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// watched is a fake Telemetry that reports the pods in idle as idle.
type watched struct {
	*fakeCluster
	idle []string
}

func (w watched) Idle(_ *scaling.Workload, pod string, _ time.Time) bool {
	return slices.Contains(w.idle, pod)
}

func TestIdlePodsArePassedToTheGroup(t *testing.T) {
	for name, on := range map[string]bool{"where whole nodes are emptied": true, "elsewhere": false} {
		w := newFakeCluster("chat")
		w.workloads[0].Group = "gpu"
		g := newFakeNodes(capacity.Group{Name: "gpu", Resource: "nvidia.com/gpu", EmptyWholeNodes: on,
			Pools: []capacity.Pool{{Name: "gpu-pool", Type: capacity.OnDemand}}})
		g.pools["gpu-pool"].Nodes = []capacity.Node{{Name: "n", GPUs: 3, Used: 3, Stage: capacity.Usable, Ready: true}}
		var pods []capacity.Pod
		for _, pod := range []string{"busy", "idle", "loads"} {
			pods = append(pods, capacity.Pod{UID: pod, Namespace: "team", Name: pod, Owner: capacity.OwnerReplicaSet, GPUs: 1,
				Ready: pod != "loads"})
		}
		g.pods["team/chat"] = pods
		e := New(w, watched{w, []string{"idle", "loads"}}, w, Options{Groups: g, Nodes: g, ApplyTimeout: 20 * time.Millisecond})
		w.after(e, time.Second)
		want := ""
		if on {
			want = "team/idle: annotation controller.kubernetes.io/pod-deletion-cost set to -40  (scale-in packing)"
		}
		if got := strings.Join(g.acts, "; "); !strings.HasPrefix(got, want) || want == "" && got != "" || len(g.acts) > 1 {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		if slices.ContainsFunc(pods, func(p capacity.Pod) bool { return p.Idle }) {
			t.Errorf("%s: what is observed was written to", name)
		}
	}
}
