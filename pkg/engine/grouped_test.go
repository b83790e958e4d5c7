package engine

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The evaluation of a workload panics, or its scale target is not found. The time of its last decision then does not change, so the
// decision becomes too old and is no longer served. The test checks this with and without a capacity group.
func TestGroupedWorkloadIsNotPublishedWithoutAnEvaluation(t *testing.T) {
	for _, group := range []string{"", "gpu"} {
		w := newFakeCluster("chat", "other")
		chat, other := w.workloads[0].Key, w.workloads[1].Key
		w.workloads[0].Group, w.workloads[1].Group = group, group
		g := newFakeNodes(capacity.Group{Name: "gpu", Resource: "nvidia.com/gpu", Pools: []capacity.Pool{{Name: "gpu-pool",
			Type: capacity.OnDemand}}})
		e := New(w, w, w, Options{Groups: g, Nodes: g, ApplyTimeout: 20 * time.Millisecond})
		w.after(e, time.Second)
		decided := w.now
		w.explode = []scaling.Key{chat}
		out := w.after(e, 30*time.Second)
		if r, _ := e.Decisions().Record(chat); !r.At.Equal(decided) || len(out.Errors) == 0 || out.Decided != 1 {
			t.Errorf("group %q: decided at %v, %v; outcome %+v", group, r.At, decided, out)
		}
		if got, err := e.Decisions().Lookup(chat, w.now); err != nil || !got.At.Equal(decided) {
			t.Errorf("group %q: served %+v, %v half a minute after the last evaluation", group, got, err)
		}
		w.after(e, DefaultMaxAge)
		if got, err := e.Decisions().Lookup(chat, w.now); !errors.Is(err, ErrStale) {
			t.Errorf("group %q: served %+v, %v, want ErrStale", group, got, err)
		}
		if got, err := e.Decisions().Lookup(other, w.now); err != nil || !got.At.Equal(w.now) {
			t.Errorf("group %q: the other workload: served %+v, %v", group, got, err)
		}
		w.explode = nil
		w.after(e, time.Second)
		decided = w.now
		delete(w.views, chat)
		out = w.after(e, 5*time.Second)
		if r, _ := e.Decisions().Record(chat); !r.At.Equal(decided) || !r.Unseen || out.Unseen != 1 {
			t.Errorf("group %q: scale target not found, decided at %v, %v; outcome %+v", group, r.At, decided, out)
		}
	}
}

// delayed is a fakeNodes whose writes take some time. When a write that allows new nodes is complete, delayed records the target that is
// served at that moment.
type delayed struct {
	*fakeNodes
	takes time.Duration
	mu    sync.Mutex
	done  []int32
}

func (d *delayed) Act(g *capacity.Group, actions []capacity.Action) <-chan struct{} {
	d.fakeNodes.Act(g, actions)
	done, first := make(chan struct{}), loosens(actions[0]) // actions is read before Act returns, because the engine then reuses the slice
	go func() {
		defer close(done)
		time.Sleep(d.takes)
		if first {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.done = append(d.done, d.served())
		}
	}()
	return done
}

// When demand returns in the morning, a tick removes the zero limit and publishes the target only after the removal. The test repeats this
// on three days: the deadline of an earlier tick must not shorten the wait.
func TestEachTickWaitsForTheRemovalOfAZeroLimit(t *testing.T) {
	w, g, _, chat := night(t)
	d := &delayed{fakeNodes: g, takes: 30 * time.Millisecond}
	e := New(w, w, w, Options{Groups: d, Nodes: d, ApplyTimeout: 10 * time.Second})
	g.served = func() int32 {
		n, err := e.Decisions().Lookup(chat, w.now)
		if err != nil {
			return -1
		}
		return n.Replicas
	}
	w.after(e, time.Second)
	for day := range 3 {
		w.backlog[chat] = 25
		w.after(e, time.Second)
		if got := g.served(); got != 3 {
			t.Fatalf("day %d: %d is served", day+1, got)
		}
		w.backlog[chat] = 0
		for range 20 {
			w.after(e, time.Minute)
		}
		if v := g.pools["gpu-pool"].Limits; len(v) != 1 || v[0].Value != `"0"` {
			t.Fatalf("day %d: no zero limit at night: %+v", day+1, v)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.done) < 3 || slices.Max(d.done) != 0 {
		t.Errorf("targets that were served when a limit was removed: %v, want 0 on three days", d.done)
	}
}

// hanging is a fakeNodes whose writes never complete.
type hanging struct{ *fakeNodes }

func (h hanging) Act(*capacity.Group, []capacity.Action) <-chan struct{} { return make(chan struct{}) }

// If the API server does not respond, a tick waits for at most ApplyTimeout, even if several groups have writes that do not complete.
func TestGroupsOfATickShareOneDeadline(t *testing.T) {
	w := newFakeCluster()
	var groups []capacity.Group
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		key := w.add(name, scaling.Auto)
		w.workloads[len(w.workloads)-1].Group = name
		w.views[key], w.backlog[key] = View{Operator: scaling.NoOperator, GPUs: 1}, 0
		p := queuePolicy()
		p.MinReplicas = 0
		w.workloads[len(w.workloads)-1].Policy = p
		groups = append(groups, zeroLimited(name))
	}
	g := newFakeNodes(groups...)
	first := New(w, w, w, Options{Groups: g, Nodes: g})
	w.after(first, 10*time.Minute)
	const deadline = 300 * time.Millisecond
	e := New(w, w, w, Options{Groups: g, Nodes: hanging{g}, ApplyTimeout: deadline})
	w.after(e, time.Second)
	for key := range w.backlog {
		w.backlog[key] = 25
	}
	synctest.Test(t, func(t *testing.T) {
		waited := 0
		for range 22 { // the engine repeats the writes every 10 s, so at least two of the 22 ticks wait
			origin := time.Now()
			w.after(e, time.Second)
			switch took := time.Since(origin); took {
			case deadline:
				waited++
			case 0:
			default:
				t.Errorf("a tick with 6 groups that wait took %v, the deadline is %v", took, deadline)
			}
		}
		if waited < 2 {
			t.Errorf("%d ticks waited for writes, want at least 2", waited)
		}
	})
	for _, x := range w.workloads {
		if got, err := e.Decisions().Lookup(x.Key, w.now); err != nil || got.Replicas != 3 {
			t.Errorf("%s: %+v, %v", x.Key, got, err)
		}
	}
}

func TestTickWithoutPoliciesSucceeds(t *testing.T) {
	for name, nodes := range map[string]bool{"alone": false, "with nodes": true} {
		t.Run(name, func(t *testing.T) {
			w := newFakeCluster()
			g := newFakeNodes()
			var o Options
			if nodes {
				o = Options{Groups: g, Nodes: g}
			}
			e := New(w, w, w, o)
			for range 3 {
				if out := w.after(e, time.Second); len(out.Errors) != 0 || out.Decided != 0 || out.Unseen != 0 || len(out.Changes) != 0 {
					t.Fatalf("outcome %+v", out)
				}
			}
			chat := w.add("chat", scaling.Auto)
			if out := w.after(e, time.Second); len(out.Errors) != 0 || out.Decided != 1 {
				t.Errorf("with its first policy: %+v", out)
			}
			w.workloads = nil
			for range 2 {
				if out := w.after(e, time.Second); len(out.Errors) != 0 || out.Decided != 0 {
					t.Errorf("after the last policy was removed: %+v", out)
				}
			}
			if _, err := e.Decisions().Lookup(chat, w.now); !errors.Is(err, ErrUnknown) {
				t.Errorf("%v, want ErrUnknown", err)
			}
			e.Reset()
			w.after(e, time.Second)
			e.Shutdown(t.Context(), rounds(t.Context(), w.now))
		})
	}
}
