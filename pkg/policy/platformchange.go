package policy

import (
	"reflect"
	"slices"
	"time"
)

// empty reports whether p leaves everything as it is without a PlatformConfig.
func (p *Platform) IsEmpty() bool {
	bare := *p
	bare.Name, bare.Cluster, bare.Origin = "", "", ""
	return reflect.DeepEqual(&bare, &Platform{})
}

// or returns the platform before, where p says nothing else than it.
func (p *Platform) ReuseEqual(before *Platform) *Platform {
	if reflect.DeepEqual(p, before) {
		return before
	}
	return p
}

// sameButMode tells that two platforms differ in their mode alone: then nothing needs to be compiled anew, and a hold acts at once
// over 10,000 policies.
func EqualExceptMode(a, b *Platform) bool {
	x, y := *a, *b
	x.Mode, x.Origin, y.Mode, y.Origin = 0, "", 0, ""
	x.NodeGroups, y.NodeGroups = nil, nil
	x.Groups, y.Groups = nil, nil // a group's mode follows; policies read no more of a group than its name and its lead time
	names := func(p *Platform) (out []string) {
		for _, g := range p.Groups {
			out = append(out, g.Name, time.Duration(g.LeadTime).String())
		}
		return out
	}
	return reflect.DeepEqual(&x, &y) && slices.Equal(names(a), names(b))
}

// confine narrows a policy that the platform would refuse today to what the platform allows today: the bounds, the mode, the
// sources and the group always win, also over a last good version.
func (p *Platform) Clamp(c *Compiled) *Compiled {
	out, policy := *c, *c.Workload.Policy
	ns := c.Workload.Key.Namespace
	policy.MinReplicas, policy.MaxReplicas = p.BoundsFor(ns).Narrow(policy.MinReplicas, policy.MaxReplicas)
	policy.Team, out.Team = nil, ""
	if t := p.Team(ns); t != nil {
		policy.Team, out.Team = t.Scaling, t.Name
	}
	out.Workload.Policy = &policy
	out.Workload.Mode = StricterMode(c.OwnMode, p.Mode)
	if !p.Unreadable && !p.MayUse(ns, c.Workload.Group) {
		out.Workload.Group = ""
	}
	out.Sources = slices.Clone(c.Sources)
	for i := range out.Sources {
		s := &out.Sources[i]
		if !p.Unreadable && !p.MayRead(ns, s.ClusterQueue) {
			s.Denied = "the platform no longer lets namespace " + ns + " read the ClusterQueue " + s.ClusterQueue
		}
		if d := p.DataSource(s.DataSource); s.DataSource != "" && (d == nil || !d.Allows(ns)) {
			s.Denied = "the platform no longer gives namespace " + ns + " the data source " + s.DataSource
		}
		if s.QueryName != "" && p.Query(s.QueryName) == nil {
			s.Denied = "the platform no longer has the query " + s.QueryName
		}
	}
	return &out
}
