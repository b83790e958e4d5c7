package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/events"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/leader"
)

// OtherReleaseError reports that another gpuscaler release leads and overrides a NodePool that is also in a capacity group of this release.
// Both releases write with the same field manager, so each of them would revert the overrides of the other release.
type OtherReleaseError struct{ Pool, Group, Holder, Why string }

func (e *OtherReleaseError) Error() string {
	return fmt.Sprintf("another gpuscaler release (Lease %s, %s) overrides NodePool %s, which capacity group %s names here: "+
		"remove the NodePool from one of the two PlatformConfigs, or uninstall one of the releases", e.Holder, e.Why, e.Pool, e.Group)
}

// OtherRelease returns an *OtherReleaseError while another gpuscaler release leads and overrides a NodePool of this release's capacity
// groups. While it returns an error, this process must not lead. If the release that wrote the override record of a NodePool (the
// annotation with the original values) no longer leads, this release takes over the record, as a new leader takes over the records of the
// previous leader.
func (c *Cluster) OtherRelease(ctx context.Context) error {
	if c.nodes == nil || c.options.Release == "" {
		return nil
	}
	err := FindOtherRelease(ctx, c.releases, c.options.Groups.Groups(), c.nodes.NodePool)
	if err == nil {
		return nil
	}
	if pool := c.nodes.NodePool(err.Pool); pool != nil {
		c.events.Send(pool.Reference(), corev1.EventTypeWarning, events.AnotherRelease, err.Error())
	}
	return err
}

// FindOtherRelease returns an *OtherReleaseError for the first NodePool of the groups that another leading release overrides. It returns
// nil if no such release exists. nodePool returns the NodePool with the given name, or nil if the NodePool does not exist.
func FindOtherRelease(ctx context.Context, releases *leader.Releases, groups []*capacity.Group,
	nodePool func(name string) *karpenter.NodePool) *OtherReleaseError {
	for _, g := range groups {
		for i := range g.Pools {
			pool := nodePool(g.Pools[i].Name)
			if pool == nil {
				continue
			}
			if why := OverriddenByOther(ctx, releases, pool); why != "" {
				return &OtherReleaseError{Pool: pool.Name(), Group: g.Name, Holder: pool.Holder, Why: why}
			}
		}
	}
	return nil
}

// OverriddenByOther returns why another release, which overrides the NodePool, is assumed to lead. It returns "" if no other release has
// written its override record to the NodePool, or if that release does not lead.
func OverriddenByOther(ctx context.Context, releases *leader.Releases, p *karpenter.NodePool) string {
	if p.Record() == "" {
		return ""
	}
	return releases.Leads(ctx, p.Holder)
}
