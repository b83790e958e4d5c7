package engine

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// applies is a cluster that counts the calls of Apply.
type applies struct {
	*steady
	n int
}

func (a *applies) Apply(context.Context, []Change) error { a.n++; return nil }

// A tick in which no decision changes allocates no memory and does not call Apply. This matters because the engine decides for every policy
// in each second.
func TestQuietTickAllocatesNothingAndAppliesNothing(t *testing.T) {
	const policies = 1000
	s := newSteady(policies)
	cluster, now := &applies{steady: s}, nine
	e := New(s, s, cluster, Options{})
	tick := func() {
		now = now.Add(time.Second)
		s.at(now)
		if out := e.Tick(context.Background(), now); out.Decided != policies || len(out.Errors) > 0 {
			t.Fatalf("%d of %d policies were decided: %v", out.Decided, policies, out.Errors)
		}
	}
	for range 700 { // after 700 ticks every stabilization window is full
		tick()
	}
	cluster.n = 0
	if n := testing.AllocsPerRun(30, tick); n != 0 {
		t.Errorf("%g allocations in a tick of %d policies without a change", n, policies)
	}
	if cluster.n != 0 {
		t.Errorf("Apply was called %d times in 31 ticks without a change", cluster.n)
	}
	if n := testing.AllocsPerRun(100, func() {
		if _, err := e.Decisions().Lookup(s.workloads[77].Key, now); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%g allocations in a lookup of a target", n)
	}
}

// A tick in which every target changes, such as the first tick of a leader, allocates at most 14 objects with 4500 bytes for each change,
// which includes its record in the history.
func TestTickWithChangesAllocatesLittlePerChange(t *testing.T) {
	const policies, ticks = 4000, 4
	s := newSteady(policies)
	for i := range s.workloads {
		s.workloads[i].Policy.ScaleDown = scaling.Direction{}
	}
	e, now := New(s, s, s, Options{}), nine
	tick := func(queue float64) {
		now = now.Add(time.Second)
		s.at(now)
		s.readings[0].Value = queue
		if out := e.Tick(context.Background(), now); len(out.Changes) != policies {
			t.Fatalf("%d of %d targets changed: %v", len(out.Changes), policies, out.Errors)
		}
	}
	tick(47)
	tick(87)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range ticks {
		tick([]float64{67, 87}[i%2])
	}
	runtime.ReadMemStats(&after)
	bytes := (after.TotalAlloc - before.TotalAlloc) / policies / ticks
	if allocations := (after.Mallocs - before.Mallocs) / policies / ticks; allocations > 14 || bytes > 4500 {
		t.Errorf("%d allocations of %d bytes for each change, want at most 14 of 4500 bytes", allocations, bytes)
	}
	t.Logf("%d bytes for each change", bytes)
}
