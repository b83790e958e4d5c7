package capacity

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// provision simulates one loop of Karpenter's provisioner. It launches a node for each pending pod that fits on no existing or booting
// node. The node belongs to the NodePool with the highest weight that accepts the pod. As Karpenter does by default, provision ignores
// pods that claim devices.
func (c *cluster) provision() {
	free := map[*simNode]int64{}
	for _, pool := range c.pools {
		for _, n := range pool.nodes {
			if !n.notice && !n.disrupted && n.replaces == nil {
				free[n] = pool.gpus - c.used(n)
			}
		}
	}
pods:
	for _, p := range c.pods() {
		if p.node != nil || p.unsure || p.claimed {
			continue
		}
		for _, pool := range c.pools {
			for _, n := range pool.nodes {
				if free[n] >= p.gpus && !(p.pinned && pool.Type == Spot) {
					free[n] -= p.gpus
					continue pods
				}
			}
		}
		if n := c.launch(p, nil); n != nil {
			free[n] = n.pool.gpus - p.gpus
		}
	}
}

func (c *cluster) byWeight() []*simPool {
	pools := slices.Clone(c.pools)
	slices.SortFunc(pools, func(a, b *simPool) int {
		return cmp.Or(cmp.Compare(b.number("weight"), a.number("weight")), cmp.Compare(b.Name, a.Name))
	})
	return pools
}

func (p *simPool) number(field string) int64 { n, _ := p.fields[field].Value.Number(); return n }

// fits reports whether the NodePool meets every limit with one more node, as Karpenter 1.15 checks it. The parameter instead is the node
// that the new node replaces, or nil.
func (p *simPool) fits(instead *simNode) bool {
	nodes := int64(len(p.nodes))
	if instead != nil && instead.pool == p {
		nodes--
	}
	for name, f := range p.fields {
		resource, is := strings.CutPrefix(name, "limits[")
		if limit, ok := f.Value.Quantity(); is && ok && float64((nodes+1)*p.size(strings.TrimSuffix(resource, "]"))) > limit {
			return false
		}
	}
	return true
}

// kind returns the capacity type of the nodes that the NodePool launches after its capacity reservation is full.
func (p *simPool) kind() CapacityType {
	if p.Type == Reserved && p.mixed {
		return OnDemand
	}
	return p.Type
}

// size returns how much of a resource one node of the NodePool has.
func (p *simPool) size(resource string) int64 {
	return map[string]int64{"nvidia.com/gpu": p.gpus, "cpu": 8, "memory": 64 << 30, "nodes": 1}[resource]
}

// launch creates a node for a pod in the NodePool with the highest weight that accepts the pod, and returns nil if no node is created.
// After every fourth refusal, the NodePool is skipped for three minutes, as in Karpenter's cache of unavailable offerings.
func (c *cluster) launch(p *simPod, instead *simNode) *simNode {
	for _, pool := range c.byWeight() {
		if pool.gone || !pool.ready || pool.gpus < p.gpus || !pool.fits(instead) || c.now.Before(pool.until) || p.pinned && pool.Type == Spot {
			continue
		}
		if pool.slots > 0 && len(pool.nodes) >= pool.slots {
			continue
		}
		if instead != nil && (pool == instead.pool || pool.hourly >= instead.pool.hourly) {
			return nil
		}
		if pool.denied {
			pool.failures = append(pool.failures, evidence.Failure{UID: c.id("claim"), At: c.now, Capacity: true})
			if len(pool.failures)%4 == 0 { // after every fourth refusal, Karpenter does not try for three minutes
				pool.until = c.now.Add(3 * time.Minute)
			}
			if instead != nil {
				return nil
			}
			return nil
		}
		n := &simNode{name: c.id(pool.Name), created: c.now, changed: c.now, pool: pool, replaces: instead}
		taken := 0
		for _, other := range pool.nodes {
			taken += flag01(other.reserved)
		}
		n.reserved = taken < pool.reserved
		pool.nodes = append(pool.nodes, n)
		return n
	}
	return nil
}

// consolidate simulates Karpenter's consolidation within the disruption budgets. It removes empty nodes and replaces nodes by cheaper ones.
func (c *cluster) consolidate() {
	for _, pool := range c.pools {
		after := pool.fields["disruption.consolidateAfter"].Value
		wait, err := time.ParseDuration(strings.Trim(string(after), `"`))
		if err != nil {
			continue // consolidateAfter is Never
		}
		for _, n := range slices.Clone(pool.nodes) {
			if n.replaces != nil && n.usable {
				c.evict(n.replaces)
				n.replaces = nil
				continue
			}
			if !n.usable || c.now.Sub(n.changed) < wait || n.replaces != nil || n.blockingPods > 0 {
				continue
			}
			if c.used(n) == 0 {
				if c.allowed(pool, statemachine.ReasonEmpty) {
					pool.remove(n)
				}
				continue
			}
			if !c.allowed(pool, statemachine.ReasonUnderutilized) || n.heir != nil ||
				pool.fields["disruption.consolidationPolicy"].Value == `"WhenEmpty"` {
				continue
			}
			for _, p := range c.pods() {
				if p.node == n && p.shield.Value == "" && !p.claimed {
					n.heir = c.launch(p, n)
					break
				}
			}
		}
	}
}

func (p *simPool) remove(n *simNode) {
	p.nodes = slices.DeleteFunc(p.nodes, func(o *simNode) bool { return o == n })
	for _, o := range p.nodes {
		if o.heir == n {
			o.heir = nil
		}
	}
}

// evict removes a node with its pods. The controllers of the pods create new pods.
func (c *cluster) evict(n *simNode) {
	c.disturbed++
	for _, l := range c.loads {
		l.pods = slices.DeleteFunc(l.pods, func(p *simPod) bool { return p.node == n })
	}
	for _, p := range c.other {
		if p.node == n {
			p.node, p.ready = nil, false
		}
	}
	n.pool.remove(n)
}

// lose simulates a spot interruption: it removes a node and records the loss.
func (c *cluster) lose(n *simNode) {
	n.pool.losses = append(n.pool.losses, evidence.Loss{UID: n.name, At: c.now})
	c.evict(n)
}

// allowed reports whether the NodePool's budgets allow a disruption for the given reason at this time, as Karpenter evaluates them.
func (c *cluster) allowed(pool *simPool, reason string) bool {
	var budgets []struct {
		Nodes, Schedule, Duration string
		Reasons                   []string
	}
	list := pool.fields["disruption.budgets"].Value
	if list == "" || list == `[{"nodes":"100%"}]` {
		return true
	}
	if err := json.Unmarshal([]byte(list), &budgets); err != nil {
		c.t.Errorf("budgets %q: %v", list, err)
	}
	for _, b := range budgets {
		if b.Nodes != "0" || b.Reasons != nil && !slices.Contains(b.Reasons, reason) {
			continue
		}
		if b.Schedule == "" {
			return false
		}
		var minute, hour, day, month int
		length, err := time.ParseDuration(b.Duration)
		if _, e := fmt.Sscanf(b.Schedule, "%d %d %d %d *", &minute, &hour, &day, &month); e != nil || err != nil {
			c.t.Errorf("budget %+v: %v, %v", b, e, err)
		}
		start := time.Date(c.now.Year(), time.Month(month), day, hour, minute, 0, 0, time.UTC)
		if !c.now.Before(start) && c.now.Before(start.Add(length)) {
			return false
		}
	}
	return true
}
