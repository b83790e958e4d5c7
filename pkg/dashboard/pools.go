package dashboard

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// groupPanels implements Panels with the NodePools of the capacity groups. Its cost is the measured cost. If no cost is measured, it is the
// sum of the known prices of the capacity groups' nodes.
type groupPanels struct {
	decisions *engine.DecisionStore
	cost      func() (Cost, bool) // returns the measured cost; may be nil
}

// NodePools returns the NodePools of all capacity groups.
func (p groupPanels) NodePools() (all []NodePool) {
	for _, name := range p.decisions.Groups() {
		if r, ok := p.decisions.Group(name); ok {
			all = append(all, poolsOf(&r)...)
		}
	}
	return all
}

// Cost returns the measured cost. If there is none, it returns the sum of the known prices of the nodes of the capacity groups.
func (p groupPanels) Cost() (Cost, bool) {
	if p.cost != nil {
		if c, ok := p.cost(); ok {
			return c, true
		}
	}
	c := Cost{Currency: "USD"}
	for _, name := range p.decisions.Groups() {
		if r, ok := p.decisions.Group(name); ok {
			c.add(&r)
		}
	}
	slices.SortStableFunc(c.Causes, func(a, b Cause) int { return cmp.Compare(b.PerHour, a.PerHour) })
	return c, c.PerHour > 0
}

// add adds the cost of the nodes of a group to c. A node without a known price adds its GPUs to c.Unpriced, because an unknown price is not
// 0.
func (c *Cost) add(r *engine.GroupRecord) {
	for i := range r.Pools {
		idle := Cause{Name: "not used by any pod: " + r.Pools[i].Name}
		for _, use := range r.Pools[i].Use {
			if use.Hourly <= 0 {
				c.Unpriced += float64(use.GPUs)
				continue
			}
			c.PerHour, c.Idle = c.PerHour+use.Hourly, c.Idle+use.Unused
			idle.GPUs, idle.PerHour = idle.GPUs+float64(use.Idle()), idle.PerHour+use.Unused
		}
		if idle.PerHour > 0 {
			c.Causes = append(c.Causes, idle)
		}
	}
}

// poolsOf returns the NodePools of a group, in the group's order of preference.
func poolsOf(r *engine.GroupRecord) []NodePool {
	if r.At.IsZero() {
		return []NodePool{{Name: "?", Group: r.Group.Name, Unknown: true, Problem: cmp.Or(r.Err, "not decided yet")}}
	}
	all := make([]NodePool, 0, len(r.Pools))
	for i := range r.Pools {
		p := poolOf(&r.Pools[i])
		p.CapacityType = cmp.Or(p.CapacityType, declaredType(r.Group, p.Name))
		p.Group, p.Phase = r.Group.Name, r.Phase.String()
		if r.Group.SelectsNodes() {
			p.describeFleet(r)
		}
		// The cause of a capped target is more specific than the problem that the code above sets.
		p.Problem = cmp.Or(r.CapCause.PoolText(p.Name), p.Problem, limitOf(r, int8(i)))
		if r.Err != "" {
			p.Problem = "as of the last decision: " + r.Err
		}
		for j := range r.Overrides {
			if n := &r.Overrides[j]; n.Pool == p.Name {
				p.Overrides = append(p.Overrides, overrideOf(n))
			}
		}
		all = append(all, p)
	}
	return all
}

// describeFleet changes the row of a group that selects Nodes instead of NodePools. It removes the phase, and it sets Problem if the Nodes
// cannot be read or pods are pending.
func (p *NodePool) describeFleet(r *engine.GroupRecord) {
	p.Phase = ""
	switch {
	case p.Unknown:
		p.Problem = "the Nodes cannot be read"
	case r.Demand.Pending > 0:
		p.Problem = "pods wait for " + strconv.FormatInt(r.Demand.Pending, 10) + " " + r.Group.Resource
	}
}

// limitOf returns the reason why replicas remain on on-demand nodes, if the reason is a limit of the given spot NodePool. Otherwise it
// returns "".
func limitOf(r *engine.GroupRecord, pool int8) string {
	for _, reason := range r.Reasons {
		if reason.Rule == explain.RuleReturn && reason.Cause == explain.CauseLimit && reason.Pool == pool {
			return reason.Text(r.Group.Names())
		}
	}
	return ""
}

// declaredType returns the capacity type that the PlatformConfig declares for a NodePool. The page shows this type if the NodePool has no
// nodes with a capacity type.
func declaredType(g *capacity.Group, name string) string {
	for _, p := range g.Pools {
		if p.Name == name {
			return p.Type.String()
		}
	}
	return ""
}

func poolOf(u *engine.PoolUse) NodePool {
	p := NodePool{Name: u.Name}
	var types []string
	for kind, use := range u.Use {
		if use.Nodes+use.Coming == 0 {
			continue
		}
		types = append(types, capacity.CapacityType(kind).String())
		p.Nodes, p.Starting = p.Nodes+use.Nodes, p.Starting+use.Coming
		p.Busy, p.Idle = p.Busy+int(use.Used), p.Idle+int(use.Idle())
	}
	p.CapacityType = strings.Join(types, ", ")
	switch {
	case !u.Exists:
		p.Unknown, p.Problem = true, "the NodePool does not exist"
	case !u.Ready:
		p.Problem = "not Ready"
	}
	return p
}

func overrideOf(n *override.Current) Override {
	out := Override{Field: n.Name(), From: n.Original.String(), To: n.Value.String(), Reason: n.Rule.String(), Until: n.Until}
	if n.Releasing {
		out.Reason = "being restored"
	}
	return out
}
