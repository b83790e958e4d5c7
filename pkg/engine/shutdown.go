package engine

import (
	"context"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
)

// Shutdown removes the changes that must not remain without a running controller: every limit that gpuscaler set on a NodePool, and every
// CapacityBuffer. The caller must call it after the last Tick, while the Lease is still held. Each value from rounds starts one round. A
// write that no observation confirms is repeated in a later round. Shutdown returns when an observation shows that everything is removed,
// when rounds is closed, or when ctx ends. Without Nodes it returns at once.
func (e *Engine) Shutdown(ctx context.Context, rounds <-chan time.Time) {
	if e.nodes == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case now, open := <-rounds:
			if !open || !e.removeLimits(ctx, now) {
				return
			}
		}
	}
}

// removeLimits runs one round for every group and reports whether another round is needed.
func (e *Engine) removeLimits(ctx context.Context, now time.Time) (left bool) {
	for _, g := range e.nodes.groups {
		if e.removeLimitsOf(ctx, g, now) {
			left = true
		}
	}
	return left
}

// removeLimitsOf restores the limits and deletes the buffers of one group. It returns true if it wrote something, or if an earlier write is
// not observed yet. If the group panics, it returns false, and the next leader restores the limits from the records on the NodePools.
func (e *Engine) removeLimitsOf(ctx context.Context, g *groupTick, now time.Time) (left bool) {
	defer func() {
		if recover() != nil {
			left = false
		}
	}()
	g.observe(e.options.Nodes, nil, now)
	g.state.Shutdown(g.group, &g.observation, now, &g.decision)
	outlive := slices.DeleteFunc(g.decision.Actions, func(a capacity.Action) bool {
		b, buffer := a.(capacity.Buffer)
		return !loosens(a) && (!buffer || b.Replicas > 0)
	})
	if len(outlive) == 0 {
		return g.state.LimitsPending()
	}
	select {
	case <-e.options.Nodes.Act(g.group, outlive):
	case <-ctx.Done():
	}
	return true
}
