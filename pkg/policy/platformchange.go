package policy

import (
	"reflect"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
)

// IsEmpty reports whether p has the same effect as a missing PlatformConfig, which is none.
func (p *Platform) IsEmpty() bool {
	bare := *p
	bare.Name, bare.Cluster, bare.Origin = "", "", ""
	return reflect.DeepEqual(&bare, &Platform{})
}

// ReuseEqual returns the previous PlatformConfig (the parameter before) if it is equal to p, and p otherwise. If it returns the previous
// PlatformConfig, compiled policies with pointers into that value remain valid and need not be compiled again.
func (p *Platform) ReuseEqual(before *Platform) *Platform {
	if reflect.DeepEqual(p, before) {
		return before
	}
	return p
}

// EqualExceptMode reports whether every policy compiles to the same result with both PlatformConfigs, except for its mode. In this case
// policies are not compiled again. A change to mode: hold therefore takes effect immediately even with 10,000 policies. A change of a field
// that does not affect the compilation, such as the password of a data source, keeps all compiled policies.
func EqualExceptMode(a, b *Platform) bool {
	x, y := a.compiledInto(), b.compiledInto()
	names := func(p *Platform) (out []string) {
		for _, g := range p.Groups {
			out = append(out, g.Name, time.Duration(g.LeadTime).String())
		}
		return out
	}
	return reflect.DeepEqual(&x, &y) && slices.Equal(names(a), names(b))
}

// compiledInto returns a copy of p that contains only the fields that affect how a policy is compiled. p.Mode and the capacity groups also
// affect it, but the copy does not contain them: EqualExceptMode ignores the mode, and compares the names and lead times of groups
// separately.
func (p *Platform) compiledInto() Platform {
	out := *p
	out.Name, out.Cluster, out.Origin, out.Mode, out.Prices = "", "", "", 0, spec.Prices{}
	out.Groups, out.NodeGroups = nil, nil
	out.Teams, out.DataSources = slices.Clone(p.Teams), slices.Clone(p.DataSources)
	for i := range out.Teams {
		out.Teams[i].ConfigMaps, out.Teams[i].PolicyStatus = false, false
	}
	for i := range out.DataSources {
		d := &out.DataSources[i]
		// The other fields define how the data source is read, which does not affect the compiled policy.
		*d = DataSource{Name: d.Name, Type: d.Type, Default: d.Default, Namespaces: d.Namespaces, Interval: d.Interval, Profile: d.Profile,
			Matchers: d.Matchers, NamespaceLabel: d.NamespaceLabel}
	}
	return out
}

// Clamp returns a copy of a policy's last valid version that complies with the current PlatformConfig: its bounds, mode, team, data
// sources, queries and capacity groups. It is used if the last valid version can no longer be compiled with the current PlatformConfig.
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
			s.Denied = "the PlatformConfig no longer lets namespace " + ns + " read the ClusterQueue " + s.ClusterQueue
		}
		if d := p.DataSource(s.DataSource); s.DataSource != "" && (d == nil || !d.Allows(ns)) {
			s.Denied = "the PlatformConfig no longer lets namespace " + ns + " use the data source " + s.DataSource
		}
		if s.QueryName != "" && p.Query(s.QueryName) == nil {
			s.Denied = "the PlatformConfig no longer has the query " + s.QueryName
		}
	}
	return &out
}
