package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// buffered is a fakeNodes with one CapacityBuffer that gpuscaler created.
type buffered struct {
	*fakeNodes
	replicas int32
}

func (b *buffered) Observe(g *capacity.Group, of []*scaling.Workload, o *capacity.Observation) {
	b.fakeNodes.Observe(g, of, o)
	o.Buffers, o.Workloads[0].Buffer = true, b.replicas
}

func (b *buffered) Act(g *capacity.Group, actions []capacity.Action) <-chan struct{} {
	for _, a := range actions {
		if buffer, ok := a.(capacity.Buffer); ok {
			b.replicas = buffer.Replicas
		}
	}
	return b.fakeNodes.Act(g, actions)
}

// Shutdown deletes CapacityBuffers, because the nodes of a buffer cost money until it is deleted.
func TestShutdownDeletesCapacityBuffers(t *testing.T) {
	w := newFakeCluster("chat")
	w.workloads[0].Group = "gpu"
	b := &buffered{newFakeNodes(capacity.Group{Name: "gpu", Resource: "nvidia.com/gpu", Buffer: true,
		Pools: []capacity.Pool{{Name: "gpu-pool", Type: capacity.OnDemand}}}), 0}
	e := New(w, w, w, Options{Groups: b, Nodes: b, ApplyTimeout: 20 * time.Millisecond})
	w.after(e, time.Second)
	b.replicas, b.acts = 3, nil
	e.Shutdown(t.Context(), rounds(t.Context(), w.now))
	if b.replicas != 0 || !slices.ContainsFunc(b.acts, func(a string) bool {
		return strings.HasPrefix(a,
			"team/chat CapacityBuffer: 0 replicas")
	}) {
		t.Errorf("%d replicas are left: %q", b.replicas, b.acts)
	}
}

// rounds returns a channel that sends the times of rounds, 100 ms of simulated time apart, until ctx ends.
func rounds(ctx context.Context, now time.Time) <-chan time.Time {
	c := make(chan time.Time)
	go func() {
		for ; ctx.Err() == nil; now = now.Add(100 * time.Millisecond) {
			select {
			case c <- now:
			case <-ctx.Done():
			}
		}
	}()
	return c
}

// deaf is a fakeNodes that ignores its first writes, as if the API server returned conflicts.
type deaf struct {
	*fakeNodes
	lose  int
	times int
}

func (d *deaf) Act(g *capacity.Group, actions []capacity.Action) <-chan struct{} {
	if d.times++; d.times <= d.lose {
		done := make(chan struct{})
		close(done)
		return done
	}
	return d.fakeNodes.Act(g, actions)
}

func TestShutdownRepeatsALostWriteUntilItIsObserved(t *testing.T) {
	w, g, e, _ := night(t)
	d := &deaf{fakeNodes: g, lose: 2}
	e.options.Nodes = d
	e.Shutdown(t.Context(), rounds(t.Context(), w.now))
	if len(g.pools["gpu-pool"].Limits) > 0 && g.pools["gpu-pool"].Limits[0].Ours {
		t.Error("the limit is still set after two lost writes")
	}
	if d.times != 3 {
		t.Errorf("%d writes, want 3: two lost writes and one that is observed", d.times)
	}
}

// If a group panics, the shutdown of other groups continues, and the error of that group contains the stack.
func TestShutdownReportsAGroupThatPanics(t *testing.T) {
	w, g, e, _ := night(t)
	g.broken = g.groups[0].Name
	failed := e.Shutdown(t.Context(), rounds(t.Context(), w.now))
	if len(failed) != 1 || !strings.Contains(failed[0].Error(), g.broken) {
		t.Fatalf("%q, want one error that names the group", failed)
	}
	var panicked *PanicError
	if !errors.As(failed[0], &panicked) || !strings.Contains(string(panicked.Stack), "Observe") {
		t.Errorf("%#v has no stack", failed[0])
	}
}
