package capacity

import (
	"fmt"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

func (c *cluster) compare(again *Decision) {
	if a, b := fmt.Sprint(again.Actions, again.Advice, again.Reasons, again.Findings), fmt.Sprint(c.d.Actions, c.d.Advice, c.d.Reasons,
		c.d.Findings); a != b {
		c.t.Errorf("two decisions for the same input:\n%s\n%s", a, b)
	}
}

// invariants fails the test if the last decision violates a rule that applies to every tick. The test calls it after each simulated tick.
func (c *cluster) invariants(o *Observation) {
	written := map[string]bool{}
	for _, a := range c.d.Actions {
		p, ok := a.(NodePoolPatch)
		if !ok {
			continue
		}
		for _, change := range p.Changes {
			name := p.Pool + " " + change.Name()
			if written[name] {
				c.t.Errorf("%s: %s is written twice in a tick", c.clock(), name)
			}
			written[name] = true
			c.sound(o, p.Pool, change)
		}
	}
	for i := range c.loads {
		if a := c.d.Advice[i]; a.Surge < 0 || a.Surge > statemachine.MaxBatch || a.AtRisk < 0 || a.AtRisk > int32(len(o.Workloads[i].Pods)) {
			c.t.Errorf("%s: advice %+v", c.clock(), a)
		}
	}
	c.watch()
	c.watchFreeze(o)
	c.watchProtection(o)
	c.watchFallback(o)
}

// watchFallback fails the test if a fallback begins without sufficient evidence. A fallback because of refused launches or lost nodes is
// allowed only if each spot NodePool that may launch nodes had a refused launch or a lost node.
func (c *cluster) watchFallback(o *Observation) {
	s := &c.s.Spot
	before := len(c.phases) > 0 && c.phases[len(c.phases)-1] == statemachine.Fallback
	if before || s.Phase != statemachine.Fallback || s.Since != statemachine.Stamp(c.now) || s.Cause != explain.CauseRefused &&
		s.Cause != explain.CauseLost {
		return
	}
	for i, p := range c.pools {
		v := &o.Pools[i]
		if p.Type == Spot && v.Exists && v.Ready && len(v.Failures)+len(v.Losses) == 0 && c.observedRoom(i, v) {
			c.t.Errorf("%s: a fallback although %s has not failed\n%s", c.clock(), p.Name, c.why())
		}
	}
}

// observedRoom reports whether the limits of a NodePool allow another node. It includes the limits of a schedule that opens in this tick,
// which the NodePool does not have yet.
func (c *cluster) observedRoom(pool int, v *PoolView) bool {
	return !slices.ContainsFunc(v.Limits, func(l nodepool.LimitView) bool {
		limit, ok := l.Value.Quantity()
		for _, s := range c.g.Schedules {
			at := slices.IndexFunc(s.Limits, func(o Limit) bool { return o.Resource == l.Resource })
			if open, _ := s.Window.At(c.now); open && at >= 0 && (len(s.Pools) == 0 || slices.Contains(s.Pools, pool)) {
				limit, ok = float64(s.Limits[at].Value), true
			}
		}
		return ok && limit < l.Used+max(l.Node, 2)
	})
}

// poolsOf returns the indexes of the NodePools of a capacity type (see simPool.kind). For OnDemand, it returns the reserved NodePools if
// the group has no on-demand NodePool, because reserved NodePools are then used instead of spot.
func (c *cluster) poolsOf(kind CapacityType) (all []int) {
	for i, p := range c.pools {
		if p.kind() == kind {
			all = append(all, i)
		}
	}
	if kind == OnDemand && len(all) == 0 {
		return c.poolsOf(Reserved)
	}
	return all
}

// watchFreeze fails the test if a freeze of a NodePool ends and another begins less than FreezeHandover after a rule last needed the
// first freeze. The first freeze should have continued. An old freeze whose entries had reached their end is ignored.
func (c *cluster) watchFreeze(o *Observation) {
	for i := range c.pools {
		h, last := &c.s.Pools[i].Freeze, &c.frozen[i]
		switch {
		case !o.Pools[i].Exists || c.releasing || c.started == statemachine.Stamp(c.now):
			*last = freezeMemory{}
		case h.State() == statemachine.Frozen:
			if !last.on && last.needed != 0 && statemachine.Stamp(c.now)-last.needed < statemachine.FreezeHandover.Milliseconds() &&
				last.end > statemachine.Stamp(c.now) {
				c.t.Errorf("%s: the freeze of %s was interrupted for less than %v\n%s", c.clock(), c.pools[i].Name,
					statemachine.FreezeHandover, c.why())
			}
			*last = freezeMemory{true, statemachine.Stamp(c.now), max(h.Empty, h.InUse)}
		default:
			last.on = h.State() != statemachine.Thawed
		}
	}
}

// watchProtection fails the test if replicas on on-demand nodes are not protected as the phase requires: in a fallback by weights that
// put on-demand first, and while spot is probed or replicas return by a consolidation freeze.
func (c *cluster) watchProtection(o *Observation) {
	if c.releasing || c.g.Advisory || len(c.pools) < 2 {
		return
	}
	weights := c.reason(explain.RuleFallback) != nil
	switch c.d.Phase {
	case statemachine.Fallback:
		if !weights {
			c.t.Errorf("%s: a fallback without the weights of a fallback\n%s", c.clock(), c.why())
		}
	case statemachine.Probing, statemachine.Returning:
		for _, i := range c.poolsOf(OnDemand) {
			if weights || c.s.Pools[i].Freeze.State() != statemachine.Frozen && o.Pools[i].Exists {
				c.t.Errorf("%s: %v without a freeze of %s\n%s", c.clock(), c.d.Phase, c.pools[i].Name, c.why())
			}
		}
	}
}

// freezeMemory is the state of the freeze of one NodePool that watchFreeze stores between ticks.
type freezeMemory struct {
	on     bool
	needed int64 // last time at which a rule needed the freeze
	end    int64 // end of the freeze entries that existed at that time
}

// watch checks the batch of replicas that moves to spot. It fails the test if the batch grows, or if the workload has fewer ready
// replicas than demand needs although it had enough when the batch began. The check starts again when a node is lost or demand changes.
func (c *cluster) watch() {
	m := &c.s.Move
	for _, l := range c.loads {
		if l.key != m.Workload {
			continue
		}
		if m.Step != statemachine.NoMove && c.batch.Workload == m.Workload && c.batch.Step != statemachine.NoMove &&
			(m.Step > c.batch.Step || m.Since == c.batch.Since) && m.Count > c.batch.Count {
			c.t.Errorf("%s: a batch of %d became one of %d\n%s", c.clock(), c.batch.Count, m.Count, c.why())
		}
		now := moved{m.Workload, m.Node, m.Since, c.disturbed, l.want}
		if c.moving != now {
			c.moving, c.wholeBefore = now, l.ready() >= l.want
		}
		if m.Step != statemachine.NoMove && c.wholeBefore && l.ready() < l.want {
			c.t.Errorf("%s: workload %s has %d of %d replicas ready during a return\n%s", c.clock(), l.key, l.ready(), l.want, c.why())
		}
	}
	c.batch = *m
}

type moved struct {
	workload, node string
	since          int64
	disturbed      int
	want           int32
}

// sound fails the test if a change of a NodePool lacks the owner's consent, or sets a limit that could keep required pods without nodes.
func (c *cluster) sound(o *Observation, pool string, change override.Change) {
	i := slices.IndexFunc(c.g.Pools, func(p Pool) bool { return p.Name == pool })
	v := &o.Pools[i]
	if v.Consent&change.Field.Consent() == 0 || !change.Restore && v.Consent&nodepool.ConsentRestore != 0 {
		c.t.Errorf("%s: %s of NodePool %s was written without consent", c.clock(), change.Name(), pool)
	}
	n, ok := change.To.Number()
	switch {
	case change.Restore || change.Field < nodepool.FieldLimit:
	case change.Rule == explain.RuleZeroLimit:
		if c.d.Demand.Total() > 0 || c.d.Demand.Unknown {
			c.t.Errorf("%s: a zero limit with a demand of %+v", c.clock(), c.d.Demand)
		}
	case change.Rule == explain.RuleSchedule:
	case (change.Rule == explain.RuleFallback || change.Rule == explain.RuleProbe) && !slices.ContainsFunc(c.poolsOf(OnDemand),
		func(i int) bool {
			return o.Pools[i].Ready || !o.Pools[i].Exists
		}) && c.s.ShortSince != 0 && statemachine.Stamp(c.now)-c.s.ShortSince >= statemachine.ShortageMinimum.Milliseconds():
		c.t.Errorf("%s: spot is limited although on-demand provides no node for waiting pods\n%s", c.clock(), c.why())
	case !ok || n < int64(len(v.Nodes))*c.pools[i].gpus:
		c.t.Errorf("%s: a limit of %s although %d nodes run\n%s", c.clock(), change.To, len(v.Nodes), c.why())
	}
}
