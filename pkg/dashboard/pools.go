package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// boardPanels are the NodePools of the capacity groups on the engine's board, and what another room says of money.
type boardPanels struct {
	board *engine.DecisionStore
	cost  func() (Cost, bool) // nil: nobody says more than the board
}

func (p boardPanels) NodePools() (all []NodePool) {
	for _, name := range p.board.Groups() {
		if r, ok := p.board.Group(name); ok {
			all = append(all, poolsOf(&r)...)
		}
	}
	return all
}

// Cost is what another room says of money, else what the priced nodes of the groups cost.
func (p boardPanels) Cost() (Cost, bool) {
	if p.cost != nil {
		if c, ok := p.cost(); ok {
			return c, true
		}
	}
	c := Cost{Currency: "USD"}
	for _, name := range p.board.Groups() {
		if r, ok := p.board.Group(name); ok {
			c.add(&r)
		}
	}
	slices.SortStableFunc(c.Causes, func(a, b Cause) int { return cmp.Compare(b.PerHour, a.PerHour) })
	return c, c.PerHour > 0
}

// add adds a group's nodes. A capacity type of a pool is priced as a whole or not at all: an unknown price is no price of 0.
func (c *Cost) add(r *engine.GroupRecord) {
	for i := range r.Pools {
		idle := Cause{Name: "held by no pod: " + r.Pools[i].Name}
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

// poolsOf are a group's pools in the order in which it prefers them.
func poolsOf(r *engine.GroupRecord) []NodePool {
	if r.At.IsZero() {
		return []NodePool{{Name: "?", Group: r.Group.Name, Unknown: true, Trouble: orNotYet(r.Err)}}
	}
	all := make([]NodePool, 0, len(r.Pools))
	for i := range r.Pools {
		p := poolOf(&r.Pools[i])
		p.Group, p.Phase = r.Group.Name, r.Phase.String()
		if r.Err != "" {
			p.Trouble = "as of the last decision: " + r.Err
		}
		for j := range r.Nudges {
			if n := &r.Nudges[j]; n.Pool == p.Name {
				p.Nudges = append(p.Nudges, nudgeOf(n))
			}
		}
		all = append(all, p)
	}
	return all
}

func orNotYet(err string) string {
	if err == "" {
		return "not decided yet"
	}
	return err
}

func poolOf(u *engine.PoolUse) NodePool {
	p := NodePool{Name: u.Name}
	var types []string
	for kind, use := range u.Use {
		if use.Nodes+use.Coming == 0 {
			continue
		}
		types = append(types, capacity.CapacityType(kind).String())
		p.Nodes, p.Coming = p.Nodes+use.Nodes, p.Coming+use.Coming
		p.Busy, p.Idle = p.Busy+int(use.Used), p.Idle+int(use.Idle())
	}
	p.CapacityType = strings.Join(types, ", ")
	switch {
	case !u.Exists:
		p.Unknown, p.Trouble = true, "there is no such NodePool"
	case !u.Ready:
		p.Trouble = "not Ready"
	}
	return p
}

func nudgeOf(n *capacity.Nudge) Nudge {
	out := Nudge{Field: n.Name(), From: n.Original.String(), To: n.Value.String(), Reason: n.Rule.String(), Until: n.Until}
	if n.Releasing {
		out.Reason = "goes back"
	}
	return out
}
