// Package rounds runs the periodic work of the sub-packages of cluster, such as checks, writes and Events.
package rounds

import (
	"context"
	"time"
)

// Every calls round once per period until ctx ends. The first call is one period after the start. If a call takes longer than a period, the
// next call starts when it ends, and the periods during the call are skipped.
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
