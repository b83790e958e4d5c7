package karpenter

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/events"
)

// command is a decision of Karpenter to remove nodes: empty nodes, or one node whose pods fit on other nodes or on one cheaper new
// node. The simulator does not consolidate several nodes into one.
type command struct {
	nodes  []*Node
	reason string
	to     *Pool // pool of the replacement node; nil: no replacement is needed
}

// replacementTimeout is how long Karpenter waits for a replacement node.
const replacementTimeout = 10 * time.Minute

// disrupt runs one pass of Karpenter's disruption loop. It searches for empty nodes. If there are none, it searches for an underutilized
// node. A removal is validated before it is executed.
func (c *Cluster) disrupt() {
	c.timeOut()
	planned := c.emptyNodes()
	if planned == nil {
		planned = c.underutilized()
	}
	if planned == nil {
		c.queue.Add(events.Event{At: c.queue.Now + c.assumptions.DisruptionLoop, Kind: disrupt})
		return
	}
	c.command = planned
	c.queue.Add(events.Event{At: c.queue.Now + c.assumptions.Validation, Kind: validate})
}

// carryOut removes the nodes of the planned removal (a command) if it is still valid. It is called after the validation time.
func (c *Cluster) carryOut() {
	planned := c.command
	c.command = nil
	c.queue.Add(events.Event{At: c.queue.Now + c.assumptions.DisruptionLoop, Kind: disrupt})
	if planned.reason == reasonEmpty {
		for _, n := range planned.nodes {
			if n.removable() && len(n.pods) == 0 && n.pool.allowed(reasonEmpty) > 0 {
				n.drain()
			}
		}
		return
	}
	n := planned.nodes[0]
	if !n.removable() || n.pool.allowed(reasonUnderutilized) == 0 {
		return
	}
	to, ok := c.move(n)
	if !ok || to != planned.to {
		return
	}
	if to == nil {
		n.drain()
		return
	}
	replacement := to.launch()
	if replacement == nil {
		to.refusedUntil = c.queue.Now + c.assumptions.IceCache
		return
	}
	n.chosen, replacement.replaces, replacement.replacesGen = true, n, n.gen
}

// emptyNodes returns a command that removes nodes without pods, within the disruption budget of each NodePool. It returns nil if there
// is no node to remove.
func (c *Cluster) emptyNodes() *command {
	var found []*Node
	for _, p := range c.pools {
		left := p.allowed(reasonEmpty)
		for _, n := range p.nodes {
			if left > 0 && len(n.pods) == 0 && n.removable() {
				found = append(found, n)
				left--
			}
		}
	}
	if found == nil {
		return nil
	}
	return &command{nodes: found, reason: reasonEmpty}
}

// underutilized returns a command that removes one node whose pods fit elsewhere, preferably a node with few pods. It returns nil if there
// is no such node, and while pods wait for a node.
func (c *Cluster) underutilized() *command {
	if len(c.waiting) > 0 {
		return nil
	}
	var candidates []*Node
	for _, p := range c.pools {
		if p.config.OnlyWhenEmpty || p.allowed(reasonUnderutilized) == 0 {
			continue
		}
		for _, n := range p.nodes {
			if len(n.pods) > 0 && n.removable() && !slices.ContainsFunc(n.pods, (*Pod).protected) {
				candidates = append(candidates, n)
			}
		}
	}
	slices.SortStableFunc(candidates, func(a, b *Node) int {
		return cmp.Or(cmp.Compare(len(a.pods), len(b.pods)), cmp.Compare(a.serial, b.serial))
	})
	for _, n := range candidates {
		if to, ok := c.move(n); ok {
			return &command{nodes: []*Node{n}, reason: reasonUnderutilized, to: to}
		}
	}
	return nil
}

// removable reports whether consolidation may remove the node.
func (n *Node) removable() bool {
	after := n.pool.config.ConsolidateAfter
	return n.schedulable() && after != Never && n.pool.cluster.queue.Now-n.changed >= after
}

// move simulates Karpenter's consolidation of one node. It returns (nil, true) if all pods of the node fit on other existing nodes. If
// some pods do not fit there, it returns (pool, true) if these pods fit on one new node of that pool and the new node is cheaper.
// Otherwise ok is false. A spot node is not replaced by another spot node.
func (c *Cluster) move(n *Node) (to *Pool, ok bool) {
	room := map[*Node]int32{}
	var left []*Pod
	for _, pod := range n.pods {
		if pod.phase == terminating {
			continue
		}
		other := c.roomFor(pod.template, func(o *Node) bool {
			return o != n && o.schedulable() && o.gpus-o.used-room[o] >= pod.template.GPUs
		})
		if other == nil {
			left = append(left, pod)
			continue
		}
		room[other] += pod.template.GPUs
	}
	if len(left) == 0 {
		return nil, true
	}
	to = c.choose(left[0].template)
	var need int32
	for _, pod := range left {
		if to == nil || !to.config.Takes(pod.template) {
			return nil, false
		}
		need += pod.template.GPUs
	}
	from := &n.pool.config
	if need > to.config.GPUs || to.config.Hourly >= from.Hourly || from.CapacityType == Spot && to.config.CapacityType == Spot {
		return nil, false
	}
	return to, true
}

// allowed returns how many more nodes of the pool may be removed now for the given reason, within the disruption budgets.
func (p *Pool) allowed(reason string) int32 {
	var total, going int32
	for _, n := range p.nodes {
		if n.state >= Usable {
			total++
			if n.state == Leaving || n.chosen {
				going++
			}
		}
	}
	budgets := p.config.Budgets
	if len(budgets) == 0 {
		budgets = []Budget{{Percent: 10}}
	}
	least := total
	for _, b := range budgets {
		if b.Reason != "" && b.Reason != reason || b.Until > 0 && (p.cluster.queue.Now < b.From || p.cluster.queue.Now >= b.Until) {
			continue
		}
		n := b.Nodes
		if b.Percent > 0 {
			n = (total*b.Percent + 99) / 100
		}
		least = min(least, n)
	}
	return max(0, least-going)
}

// drain evicts the pods of a node. The node is removed after the last pod has ended.
func (n *Node) drain() {
	c := n.pool.cluster
	n.change(func() { n.state = Leaving })
	n.pool.gpus -= int64(n.gpus)
	n.chosen = false
	if len(n.pods) == 0 {
		n.after(c.assumptions.NodeTermination, retire)
		return
	}
	n.evict()
}

// evict terminates the pods of the node. Their workloads create new pods.
func (n *Node) evict() {
	for _, pod := range slices.Clone(n.pods) {
		if pod.phase == terminating {
			continue
		}
		pod.replica.Evict()
	}
}

// nodeUsable is called when the GPUs of a node become usable. If the node is a replacement, it drains the old node. It then schedules the
// waiting pods.
func (c *Cluster) nodeUsable(n *Node) {
	if old := n.replaces; old != nil {
		n.replaces = nil
		if old.gen == n.replacesGen && old.chosen {
			old.drain()
		}
	}
	c.Provision()
}

// timeOut cancels a replacement if the new node was not ready in time, or if the old node was removed for another reason. The new node is
// then used like any other node.
func (c *Cluster) timeOut() {
	for _, p := range c.pools {
		for _, n := range p.nodes {
			old := n.replaces
			if old == nil || old.gen == n.replacesGen && c.queue.Now-n.changed < replacementTimeout {
				continue
			}
			if old.gen == n.replacesGen {
				old.chosen = false
			}
			n.replaces = nil
		}
	}
}
