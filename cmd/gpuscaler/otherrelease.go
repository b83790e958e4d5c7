package main

import (
	"context"
	"fmt"
	"time"
)

// rivalEvery is how often another release is looked for.
const rivalEvery = 5 * time.Second

// alone returns an error as soon as another release overrides NodePools of our groups; nil when ctx ends.
func (c *controller) alone(ctx context.Context) error {
	look := time.NewTicker(rivalEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		if err := c.cluster.Rival(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("no longer leading: %w", err)
		}
	}
}

// waitAlone waits until no other release overrides NodePools of our groups; it reports the reason once a minute.
func (c *controller) waitAlone(ctx context.Context) {
	for told := (time.Time{}); ; {
		err := c.cluster.Rival(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if now := time.Now(); now.Sub(told) >= time.Minute {
			told = now
			c.log.Error("not leading", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rivalEvery):
		}
	}
}
