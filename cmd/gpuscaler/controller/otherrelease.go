package controller

import (
	"context"
	"fmt"
	"time"
)

// otherReleaseInterval is the time between two checks for another release of gpuscaler.
const otherReleaseInterval = 5 * time.Second

// watchOtherReleases returns an error when another release of gpuscaler overrides NodePools of this release's capacity groups. It returns
// nil when ctx ends.
func (c *controller) watchOtherReleases(ctx context.Context) error {
	ticker := time.NewTicker(otherReleaseInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := c.cluster.OtherRelease(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("no longer leading: %w", err)
		}
	}
}

// waitForOtherReleases waits until no other release of gpuscaler overrides NodePools of this release's capacity groups. While it waits, it
// logs the reason once a minute.
func (c *controller) waitForOtherReleases(ctx context.Context) {
	for logged := (time.Time{}); ; {
		err := c.cluster.OtherRelease(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		if now := time.Now(); now.Sub(logged) >= time.Minute {
			logged = now
			c.log.Error("this replica does not lead, because another release overrides its NodePools", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(otherReleaseInterval):
		}
	}
}
