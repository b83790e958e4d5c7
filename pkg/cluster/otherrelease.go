package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
)

// OtherReleaseError reports that another release leads and overrides a NodePool that a capacity group of this release names. Both
// releases write with the same field manager, so each would restore what the other one overrides.
type OtherReleaseError struct{ Pool, Group, Holder, Why string }

func (e *OtherReleaseError) Error() string {
	return fmt.Sprintf("another gpuscaler release (Lease %s, %s) overrides NodePool %s, which capacity group %s names here: "+
		"remove the NodePool from one of the two PlatformConfigs, or uninstall one of the releases", e.Holder, e.Why, e.Pool, e.Group)
}

// OtherRelease returns an *OtherReleaseError while another release leads and overrides a NodePool of the capacity groups. This process
// must not lead then. The record of a release that no longer leads is taken over, as a new leader takes over the record of the
// previous leader.
func (c *Cluster) OtherRelease(ctx context.Context) error {
	if c.nodes == nil || c.options.Release == "" {
		return nil
	}
	for _, g := range c.options.Groups.Groups() {
		for i := range g.Pools {
			pool := c.nodes.NodePool(g.Pools[i].Name)
			if pool == nil {
				continue
			}
			if why := c.overridden(ctx, pool); why != "" {
				err := &OtherReleaseError{Pool: pool.Name(), Group: g.Name, Holder: pool.Holder, Why: why}
				c.events.Send(pool.Reference(), corev1.EventTypeWarning, events.AnotherRelease, err.Error())
				return err
			}
		}
	}
	return nil
}
