package engine

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/capcause"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/explain"
)

// The NodePool is at its owner's limit of 8 GPUs, of which a pod without a policy uses 2. The decision and the history must contain the
// group, the NodePool and these numbers as the reason for the cap, and the text of the reason must contain them. While no number changes,
// all decisions refer to the same reason in memory.
func TestDecisionContainsWhyTheGroupCapsTheTarget(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	w.workloads[0].Group = "gpu"
	w.views[chat] = View{Replicas: 6, Ready: 5, Pending: 1, GPUs: 1, Operator: scaling.NoOperator}
	w.backlog[chat] = 90
	g := newFakeNodes(onDemandGroup("gpu"))
	g.pools["gpu-pool"].Nodes = []capacity.Node{{Name: "n", GPUs: 8, Used: 8, Stage: capacity.Usable, Ready: true}}
	g.pools["gpu-pool"].Limits = []nodepool.LimitView{{Resource: "nvidia.com/gpu", FieldView: nodepool.FieldView{Value: "8"}}}
	for i := range 5 {
		g.pods["team/chat"] = append(g.pods["team/chat"], capacity.Pod{UID: strconv.Itoa(i), GPUs: 1, Ready: true})
	}
	g.pods["team/chat"] = append(g.pods["team/chat"], capacity.Pod{UID: "waits", GPUs: 1, Pool: -1, Pending: true})
	g.others = []capacity.Pod{{UID: "notebook", GPUs: 2, Ready: true}, {UID: "queued", GPUs: 2, Pool: -1, Pending: true}}
	e := New(w, w, w, Options{Groups: g, Nodes: g})
	w.after(e, time.Minute)
	w.backlog[chat] = 91
	w.after(e, 30*time.Second)
	r, _ := e.Decisions().Record(chat)
	got := r.Decision.CapCause
	if got == nil || r.Decision.Replicas != 6 || !got.Until.After(w.now) {
		t.Fatalf("%d replicas, capped by %+v", r.Decision.Replicas, got)
	}
	want := capcause.Cause{Group: "gpu", Resource: "nvidia.com/gpu", Until: got.Until, Pools: []capcause.Pool{{Name: "gpu-pool",
		Kind: capcause.Limit, Limited: "nvidia.com/gpu", Limit: 8, Used: 8, Units: 8, Unmanaged: 2}}}
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v\nwant %+v", *got, want)
	}
	text := explain.Decision(&r.Decision, r.Workload.Policy)
	if !strings.Contains(text, "is at its owner's limit of 8 GPUs, 2 of them used by pods") {
		t.Error(text)
	}
	h := e.Decisions().History().Of(chat, nine, w.now)
	if last := h[len(h)-1].Decision; last.Replicas != 6 || !reflect.DeepEqual(last.CapCause, got) {
		t.Errorf("the history has %d replicas because of %+v", last.Replicas, last.CapCause)
	}
	w.after(e, time.Second)
	if r, _ = e.Decisions().Record(chat); r.Decision.CapCause != got {
		t.Error("a tick without a change made another cause")
	}
	g.pools["gpu-pool"].Limits = nil
	w.after(e, 5*time.Second)
	if r, _ = e.Decisions().Record(chat); r.Decision.CapCause != nil || r.View.Advice != (Advice{}) {
		t.Errorf("without the limit: %+v, advice %+v", r.Decision.CapCause, r.View.Advice)
	}
}

// A NodePool is full, and a workload without replicas gets work. The target of this workload is one replica. Its pod stays pending, so that
// Karpenter tries to launch a node. When the limit is removed, the target increases to the number of replicas that the queue needs.
func TestAFullGroupCapsAWorkloadWithoutReplicas(t *testing.T) {
	w := newFakeCluster("chat", "batch")
	chat, batch := w.workloads[0].Key, w.workloads[1].Key
	for i := range w.workloads {
		w.workloads[i].Group = "gpu"
	}
	w.workloads[1].Policy.MinReplicas = 0
	w.views[chat] = View{Replicas: 6, Ready: 5, Pending: 1, GPUs: 1, Operator: scaling.NoOperator}
	w.views[batch] = View{GPUs: 1, Operator: scaling.NoOperator}
	w.backlog[chat], w.backlog[batch] = 90, 0
	g := newFakeNodes(onDemandGroup("gpu"))
	g.pools["gpu-pool"].Nodes = []capacity.Node{{Name: "n", GPUs: 5, Used: 5, Stage: capacity.Usable, Ready: true}}
	g.pools["gpu-pool"].Limits = []nodepool.LimitView{{Resource: "nvidia.com/gpu", FieldView: nodepool.FieldView{Value: "5"}}}
	for i := range 5 {
		g.pods["team/chat"] = append(g.pods["team/chat"], capacity.Pod{UID: strconv.Itoa(i), GPUs: 1, Ready: true})
	}
	g.pods["team/chat"] = append(g.pods["team/chat"], capacity.Pod{UID: "waits", GPUs: 1, Pool: -1, Pending: true})
	e := New(w, w, w, Options{Groups: g, Nodes: g})
	w.after(e, time.Minute)
	w.backlog[batch] = 30
	w.after(e, 30*time.Second)
	r, _ := e.Decisions().Record(batch)
	if r.Decision.Replicas != 1 || r.Decision.Binding != scaling.RuleCapacity || r.Decision.CapCause == nil {
		t.Errorf("%d replicas by %v because of %+v, want 1 by the capacity of the group", r.Decision.Replicas, r.Decision.Binding,
			r.Decision.CapCause)
	}
	g.pools["gpu-pool"].Limits = nil
	w.after(e, 5*time.Second)
	if r, _ = e.Decisions().Record(batch); r.Decision.Replicas != 3 {
		t.Errorf("%d replicas without the limit, want 3", r.Decision.Replicas)
	}
}
