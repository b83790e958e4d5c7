package engine

import (
	"context"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
)

// again is how far an instant must lie ahead for package capacity to repeat what no observation shows yet.
const again = 11 * time.Second

// Shutdown takes back what must not outlive this process: every limit on a NodePool, and every buffer. It is called after the last Tick, while the
// Lease is still held, and returns when nothing is left to take back or ctx ends. Without Nodes it does nothing.
func (e *Engine) Shutdown(ctx context.Context, now time.Time) {
	if e.nodes == nil {
		return
	}
	for left := true; left && ctx.Err() == nil; now = now.Add(again) {
		left = false
		for _, g := range e.nodes.groups {
			if e.lift(ctx, g, now) {
				left = true
			}
		}
		if left {
			settle(ctx)
		}
	}
}

// settle gives what was written the time to be seen.
func settle(ctx context.Context) {
	select {
	case <-time.After(100 * time.Millisecond): // I/O edge: paces shutdown rounds
	case <-ctx.Done():
	}
}

// lift takes one group's limits and buffers back; false where there is none left.
func (e *Engine) lift(ctx context.Context, g *groupTick, now time.Time) (acted bool) {
	defer func() {
		if recover() != nil {
			acted = false // the next leader finds the record
		}
	}()
	g.observe(e.options.Nodes, nil, now)
	g.state.Shutdown(g.group, &g.observation, now, &g.decision)
	outlive := slices.DeleteFunc(g.decision.Actions, func(a capacity.Action) bool {
		b, buffer := a.(capacity.Buffer)
		return !loosens(a) && (!buffer || b.Replicas > 0)
	})
	if len(outlive) == 0 {
		return false
	}
	select {
	case <-e.options.Nodes.Act(g.group, outlive):
	case <-ctx.Done():
	}
	return true
}
