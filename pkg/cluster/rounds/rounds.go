// Package rounds runs the periodic work of the sub-packages of cluster: the checks, the writes and the Events that are due.
package rounds

import (
	"context"
	"time"
)

// Every calls round once per period until ctx ends. The first call is one period after the start. If a round takes longer than a period,
// the next round starts when it ends, and the periods in between are skipped.
func Every(ctx context.Context, period time.Duration, round func(now time.Time)) {
	ticker := time.NewTicker(period) // may use the clock: paces rounds
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			round(now)
		}
	}
}
