package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func onDemandGroup(name string) capacity.Group {
	return capacity.Group{Name: name, Resource: "nvidia.com/gpu", Pools: []capacity.Pool{{Name: name + "-pool", Type: capacity.OnDemand}}}
}

func TestUseOfAGroupIsTheSumOfItsNodes(t *testing.T) {
	node := func(kind capacity.CapacityType, stage capacity.Stage, gpus, used int64, hourly float64) capacity.Node {
		return capacity.Node{Type: kind, Stage: stage, GPUs: gpus, Used: used, Hourly: hourly}
	}
	first := useOf("a", &capacity.PoolView{Exists: true, Ready: true, Nodes: []capacity.Node{
		node(capacity.Spot, capacity.Usable, 8, 6, 4), // 2 of 8 GPUs are unused, so a quarter of the price is for unused GPUs
		node(capacity.Spot, capacity.Launched, 8, 0, 4),
		node(capacity.Spot, capacity.Requested, 8, 0, 4),
		node(capacity.Reserved, capacity.Usable, 4, 4, 9),
		// a capacity type that is not declared counts as the last declared type, Reserved
		node(capacity.CapacityType(200), capacity.Usable, 1, 0, 2),
	}})
	second := useOf("b", &capacity.PoolView{Nodes: []capacity.Node{
		node(capacity.Spot, capacity.Usable, 2, 5, 3), // the pods on the node request more GPUs than it has
		node(capacity.Spot, capacity.Usable, 0, 0, 1), // a node without the resource
	}})
	r := GroupRecord{Pools: []PoolUse{first, second}}
	all := r.Use()
	if want := (Use{Nodes: 3, Coming: 2, GPUs: 10, Used: 11, Hourly: 8, Unused: 1}); all[capacity.Spot] != want {
		t.Errorf("spot %+v, want %+v", all[capacity.Spot], want)
	}
	if want := (Use{Nodes: 2, GPUs: 5, Used: 4, Hourly: 11, Unused: 2}); all[capacity.Reserved] != want {
		t.Errorf("reserved %+v, want %+v", all[capacity.Reserved], want)
	}
	if !first.Exists || !first.Ready || second.Exists || second.Ready || all[capacity.OnDemand] != (Use{}) {
		t.Errorf("%+v, %+v", first, second)
	}
	if spot := all[capacity.Spot]; spot.Idle() != 0 || all[capacity.Reserved].Idle() != 1 {
		t.Errorf("idle %d and %d", spot.Idle(), all[capacity.Reserved].Idle())
	}
}

// The history of a group contains changes of a NodePool, of the phase and of the rules that have a reason. It does not contain a tick that
// only writes the annotation of a pod.
func TestPodAnnotationsAreNotChangesOfAGroup(t *testing.T) {
	w := newFakeCluster("chat")
	w.workloads[0].Group = "gpu"
	group := onDemandGroup("gpu")
	group.EmptyWholeNodes = true
	g := newFakeNodes(group)
	g.pools["gpu-pool"].Nodes = []capacity.Node{{Name: "n", GPUs: 3, Used: 3, Stage: capacity.Usable, Ready: true}}
	g.pods["team/chat"] = []capacity.Pod{{UID: "idle", Namespace: "team", Name: "idle", Owner: capacity.OwnerReplicaSet, GPUs: 1, Ready: true}}
	e := New(w, watched{w, []string{"idle"}}, w, Options{Groups: g, Nodes: g, ApplyTimeout: 20 * time.Millisecond})
	w.after(e, time.Minute)
	if len(g.acts) < 3 {
		t.Fatalf("the mark is not repeated: %q", g.acts)
	}
	if h := e.Decisions().GroupHistory("gpu", nine, w.now); len(h) != 1 {
		t.Errorf("%d records of the group, want the first alone", len(h))
	}
	if r, _ := e.Decisions().Group("gpu"); !r.At.Equal(w.now) || !r.Since.Equal(nine.Add(time.Second)) {
		t.Errorf("decided at %v, its phase since %v; the phase has not changed since the first tick", r.At, r.Since)
	}
}

// While no NodePool can launch a node, the group caps the target from the next tick on. When the cap ends, the target increases again.
func TestCapacityCapLimitsTheTarget(t *testing.T) {
	w := newFakeCluster("chat")
	chat := w.workloads[0].Key
	w.workloads[0].Group = "gpu"
	w.views[chat] = View{Replicas: 2, Ready: 2, Pending: 1, GPUs: 1, Operator: scaling.NoOperator}
	w.backlog[chat] = 30
	g := newFakeNodes(onDemandGroup("gpu"))
	g.pools["gpu-pool"].Nodes = []capacity.Node{{Name: "n", GPUs: 2, Used: 2, Stage: capacity.Usable, Ready: true}}
	g.pods["team/chat"] = []capacity.Pod{
		{UID: "a", GPUs: 1, Ready: true}, {UID: "b", GPUs: 1, Ready: true}, {UID: "c", GPUs: 1, Pool: -1, Pending: true},
	}
	e := New(w, w, w, Options{Groups: g, Nodes: g})
	w.after(e, time.Minute)
	g.pools["gpu-pool"].Failures = []evidence.Failure{{UID: "claim", At: w.now, Capacity: true}}
	w.backlog[chat] = 90
	w.after(e, 5*time.Second)
	if r, _ := e.Decisions().Record(chat); r.Decision.Replicas != 3 || r.Decision.Binding != scaling.RuleCapacity || r.Decision.Uncapped != 9 {
		t.Errorf("%d by %v, uncapped %d; want 3 by the capacity cap", r.Decision.Replicas, r.Decision.Binding, r.Decision.Uncapped)
	}
	g.pools["gpu-pool"].Failures = nil
	w.after(e, 5*time.Second)
	if r, _ := e.Decisions().Record(chat); r.Decision.Replicas != 9 || r.View.Advice != (Advice{}) {
		t.Errorf("%d, advice %+v; want 9 without a cap", r.Decision.Replicas, r.View.Advice)
	}
}

// OnTransition panics for one workload of a group. The tick returns the panic as an error and publishes the other workload of the group.
func TestPanicOfAListenerIsReported(t *testing.T) {
	w := newFakeCluster("bad", "good")
	bad, good := w.workloads[0].Key, w.workloads[1].Key
	w.workloads[0].Group, w.workloads[1].Group = "gpu", "gpu"
	g := newFakeNodes(onDemandGroup("gpu"))
	e := New(w, w, w, Options{Groups: g, Nodes: g, OnTransition: func(r Record) {
		if r.Workload.Key == bad {
			panic("a bug in a listener")
		}
	}})
	out := w.after(e, time.Second)
	if _, err := e.Decisions().Lookup(good, w.now); err != nil || len(out.Errors) != 1 {
		t.Errorf("outcome %+v, the other workload %v", out, err)
	}
	if r, _ := e.Decisions().Group("gpu"); r.Err != "" || r.At.IsZero() {
		t.Errorf("the group did not fail: %+v", r)
	}
}

// Before the first decision of a workload, its record contains the newest policy. After that, it contains the policy of the last decision.
func TestRecordContainsThePolicyOfTheDecision(t *testing.T) {
	w := newFakeCluster("chat")
	chat, view := w.workloads[0].Key, w.views[w.workloads[0].Key]
	delete(w.views, chat)
	e := New(w, w, w, Options{})
	origin := func(s string) string {
		w.workloads = []scaling.Workload{{Key: chat, Policy: queuePolicy(), Origin: s}}
		w.after(e, time.Second)
		r, _ := e.Decisions().Record(chat)
		return r.Workload.Origin
	}
	if a, b := origin("first"), origin("second"); a != "first" || b != "second" {
		t.Errorf("before the first decision: %q, then %q", a, b)
	}
	w.views[chat] = view
	if a := origin("third"); a != "third" {
		t.Errorf("decided under %q", a)
	}
	delete(w.views, chat)
	if a := origin("fourth"); a != "third" {
		t.Errorf("scale target not found after a decision: %q, want the policy of the decision", a)
	}
	if _, err := e.Decisions().Lookup(chat, w.now); !errors.Is(err, ErrUnseen) {
		t.Errorf("%v, want ErrUnseen", err)
	}
}

// The advice after a rejection depends on the object that causes the rejection.
func TestNextStepAfterARejection(t *testing.T) {
	for rejection, want := range map[Rejection]string{
		{Kind: "ResourceQuota", Name: "gpus"}: "raise the quota or lower maxReplicas: kubectl -n team describe resourcequota gpus",
		{Kind: "ResourceQuota"}:               "raise the quota or lower maxReplicas: kubectl -n team describe resourcequota",
		{Kind: "LimitRange"}:                  "change the pod template or the LimitRange: kubectl -n team describe limitrange",
		{Kind: "admission"}: "change the pod template or the admission policy: " +
			"kubectl -n team get events --field-selector reason=FailedCreate",
	} {
		if got := rejection.NextStep("team"); got != want {
			t.Errorf("%v: %q, want %q", rejection, got, want)
		}
	}
}
