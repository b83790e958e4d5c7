package engine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func TestUnknownPolicyHasNoRecord(t *testing.T) {
	w := newFakeCluster("chat")
	e := New(w, w, w, Options{})
	w.after(e, time.Second)
	unknown := scaling.Key{Namespace: "team", Name: "other"}
	if d, ok := e.Decisions().Decision(unknown); ok || d != (scaling.Decision{}) {
		t.Errorf("decision %+v, %v", d, ok)
	}
	if got := e.Decisions().StateOrigin(unknown); got != Continued {
		t.Errorf("origin %v", got)
	}
	if r, ok := e.Decisions().Record(unknown); ok || !r.At.IsZero() {
		t.Errorf("record %+v, %v", r, ok)
	}
	if d, ok := e.Decisions().Decision(w.workloads[0].Key); !ok || d.Replicas != 2 {
		t.Errorf("the policy that is known: %+v, %v", d, ok)
	}
}

func TestKeysAreSortedByNamespaceAndName(t *testing.T) {
	w := newFakeCluster()
	for _, k := range []scaling.Key{{Namespace: "b", Name: "a"}, {Namespace: "a", Name: "c"}, {Namespace: "c",
		Name: "b"}, {Namespace: "a", Name: "a"}} {
		w.workloads = append(w.workloads, scaling.Workload{Key: k, Policy: queuePolicy()})
	}
	e := New(w, w, w, Options{})
	e.Tick(context.Background(), nine)
	want := []scaling.Key{{Namespace: "a", Name: "a"}, {Namespace: "a", Name: "c"}, {Namespace: "b", Name: "a"}, {Namespace: "c", Name: "b"}}
	if got := e.Decisions().Keys(); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// calls is a cluster that records the number of changes in each call of Apply.
type calls struct {
	*fakeCluster
	sizes []int
}

func (c *calls) Apply(ctx context.Context, changes []Change) error {
	c.sizes = append(c.sizes, len(changes))
	return c.fakeCluster.Apply(ctx, changes)
}

func TestTickWithoutAChangeCallsNoListener(t *testing.T) {
	w := newFakeCluster("chat", "embed")
	c := &calls{fakeCluster: w}
	e := New(w, w, c, Options{})
	w.after(e, 10*time.Second)
	w.backlog[w.workloads[1].Key] = 90
	w.after(e, 10*time.Second)
	if want := []int{2, 1}; !slices.Equal(c.sizes, want) {
		t.Errorf("changes of %v, want %v", c.sizes, want)
	}
}

// The HPA is slow: the last target is 3, but 2 replicas run. The target that the decision would have had without a rule must be computed
// from the same state as the decision, in which the last target is 3.
func TestCounterfactualStartsFromTheSameState(t *testing.T) {
	w := newFakeCluster("chat")
	p := queuePolicy()
	p.ScaleUp.Rates = []scaling.RatePolicy{{Type: scaling.Pods, Value: 1, Period: time.Minute}}
	w.workloads[0].Policy = p
	chat := w.workloads[0].Key
	e := New(w, w, w, Options{})
	w.after(e, time.Second)
	w.backlog[chat] = 90 // the load needs 9 replicas, but the slow HPA keeps 2
	w.after(e, 90*time.Second)
	r, _ := e.Decisions().Record(chat)
	without := map[scaling.Rule]int32{}
	for _, c := range r.Without {
		without[c.Rule] = c.Replicas
	}
	if r.Decision.Replicas != 4 || without[scaling.RuleRate] != 9 || without[scaling.RuleCombine] != 3 {
		t.Errorf("%d; without the rate %d, without the signal %d; want 4, 9 and 3", r.Decision.Replicas,
			without[scaling.RuleRate], without[scaling.RuleCombine])
	}
}

// GroupTick.Fresh is true if a group's decision starts from the zero state. This applies to the first decision and to the first decision
// after a failure.
func TestGroupTickReportsAFreshState(t *testing.T) {
	w := newFakeCluster("chat")
	w.workloads[0].Group = "gpu"
	g := newFakeNodes(onDemandGroup("gpu"))
	var fresh []bool
	e := New(w, w, w, Options{Groups: g, Nodes: g, OnGroupTick: func(tick GroupTick) { fresh = append(fresh, tick.Fresh) }})
	w.after(e, 3*time.Second)
	g.broken = "gpu"
	w.after(e, 2*time.Second)
	g.broken = ""
	w.after(e, 2*time.Second)
	if want := []bool{true, false, false, true, false}; !slices.Equal(fresh, want) {
		t.Errorf("%v, want %v", fresh, want)
	}
}
