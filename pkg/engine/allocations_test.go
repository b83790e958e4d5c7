package engine

import (
	"context"
	"testing"
	"time"
)

// applies counts the calls of Apply.
type applies struct {
	*steady
	n int
}

func (a *applies) Apply(context.Context, []Change) error { a.n++; return nil }

// A tick in which nothing changed allocates no memory and applies nothing. This matters because the engine ticks every second and does the
// work for every policy.
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
	for range 700 { // after 700 ticks every window is full
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
