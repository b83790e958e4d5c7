package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
)

// OtherReleaseError reports that another gpuscaler release leads and overrides a NodePool that is also in a capacity group of this release.
// Both releases write with the same field manager, so each would restore what the other one overrides.
type OtherReleaseError struct{ Pool, Group, Holder, Why string }

func (e *OtherReleaseError) Error() string {
	return fmt.Sprintf("another gpuscaler release (Lease %s, %s) overrides NodePool %s, which capacity group %s names here: "+
		"remove the NodePool from one of the two PlatformConfigs, or uninstall one of the releases", e.Holder, e.Why, e.Pool, e.Group)
}

// OtherRelease returns an *OtherReleaseError while another gpuscaler release leads and overrides a NodePool of this release's capacity
// groups. While it returns an error, this process must not lead. If the release that wrote a NodePool's record no longer leads, this
// release takes over the record, as a new leader takes over the records of the previous leader.
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
