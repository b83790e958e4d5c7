package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
)

// Shutdown removes the changes that must not remain without a running controller: every limit that gpuscaler set on a NodePool, and every
// CapacityBuffer. The caller must call it after the last Tick, while the Lease is still held. Each value from the channel rounds starts one
// round, which observes the objects and writes the changes that are still missing. A change that no observation confirms is written again
// in a later round. Shutdown returns when an observation shows that all limits and buffers are removed, when rounds is closed, or when ctx
// ends. Without capacity groups it returns immediately.
//
// It returns an error with a *PanicError for each group that panicked. The next leader restores the limits of such a group from the records
// on the NodePools.
func (e *Engine) Shutdown(ctx context.Context, rounds <-chan time.Time) (failed []error) {
	if e.nodes == nil {
		return nil
	}
	groups := slices.Clone(e.nodes.groups)
	for {
		select {
		case <-ctx.Done():
			return failed
		case now, open := <-rounds:
			if !open {
				return failed
			}
			again := false
			groups = slices.DeleteFunc(groups, func(g *groupTick) bool {
				left, err := e.removeLimitsOf(ctx, g, now)
				if again = again || left; err != nil {
					failed = append(failed, err)
				}
				return err != nil
			})
			if !again {
				return failed
			}
		}
	}
}

// removeLimitsOf restores the limits and deletes the buffers of one group. left is true if this call wrote a change, or if an earlier
// change is not observed yet. A panic is returned as an error.
func (e *Engine) removeLimitsOf(ctx context.Context, g *groupTick, now time.Time) (left bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			left, err = false, fmt.Errorf("shutdown of capacity group %s: %w", g.group.Name, panicError(r))
		}
	}()
	g.observe(e.options.Nodes, nil, now)
	g.state.Shutdown(g.group, &g.observation, now, &g.decision)
	removals := slices.DeleteFunc(g.decision.Actions, func(a capacity.Action) bool {
		b, buffer := a.(capacity.Buffer)
		return !loosens(a) && (!buffer || b.Replicas > 0)
	})
	if len(removals) == 0 {
		return g.state.LimitsPending(), nil
	}
	select {
	case <-e.options.Nodes.Act(g.group, removals):
	case <-ctx.Done():
	}
	return true, nil
}
