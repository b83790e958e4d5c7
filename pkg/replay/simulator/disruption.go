package simulator

import (
	"cmp"
	"slices"
	"time"
)

// command is a decision of Karpenter to remove nodes: empty nodes, or one node whose replicas fit on other nodes or on one cheaper new
// node. The simulator does not consolidate several nodes into one.
type command struct {
	nodes  []*node
	reason string
	to     *pool // pool of the replacement node; nil: no replacement is needed
}

// replacementTimeout is how long Karpenter waits for a replacement node.
const replacementTimeout = 10 * time.Minute

// disrupt runs one pass of Karpenter's disruption loop. It searches for empty nodes first, and only if there are none for an underutilized
// node. A removal is validated before it is executed.
func (w *Simulator) disrupt() {
	w.timeOut()
	c := w.emptyNodes()
	if c == nil {
		c = w.underutilized()
	}
	if c == nil {
		w.queue.add(event{at: w.now + w.assumptions.DisruptionLoop, kind: disrupt})
		return
	}
	w.nodes.command = c
	w.queue.add(event{at: w.now + w.assumptions.Validation, kind: validate})
}

// carryOut is called after the validation time. It removes the nodes of the decided command if the removal is still valid.
func (w *Simulator) carryOut() {
	c := w.nodes.command
	w.nodes.command = nil
	w.queue.add(event{at: w.now + w.assumptions.DisruptionLoop, kind: disrupt})
	if c.reason == reasonEmpty {
		for _, n := range c.nodes {
			if n.removable() && len(n.pods) == 0 && n.pool.allowed(reasonEmpty) > 0 {
				n.drain()
			}
		}
		return
	}
	n := c.nodes[0]
	if !n.removable() || n.pool.allowed(reasonUnderutilized) == 0 {
		return
	}
	to, ok := w.move(n)
	if !ok || to != c.to {
		return
	}
	if to == nil {
		n.drain()
		return
	}
	replacement := to.launch()
	if replacement == nil {
		to.refusedUntil = w.now + w.assumptions.IceCache
		return
	}
	n.chosen, replacement.replaces, replacement.replacesGen = true, n, n.gen
}

// emptyNodes returns a command that removes nodes without replicas, within the disruption budget of each NodePool. It returns nil if there
// is no node to remove.
func (w *Simulator) emptyNodes() *command {
	var found []*node
	for _, p := range w.nodes.pools {
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

// underutilized returns a command that removes one node whose replicas fit elsewhere, preferably one with few replicas. It returns nil if
// there is no such node, and while replicas wait for a node.
func (w *Simulator) underutilized() *command {
	if len(w.waiting) > 0 {
		return nil
	}
	var candidates []*node
	for _, p := range w.nodes.pools {
		if p.config.OnlyWhenEmpty || p.allowed(reasonUnderutilized) == 0 {
			continue
		}
		for _, n := range p.nodes {
			if len(n.pods) > 0 && n.removable() && !slices.ContainsFunc(n.pods, (*replica).protected) {
				candidates = append(candidates, n)
			}
		}
	}
	slices.SortStableFunc(candidates, func(a, b *node) int {
		return cmp.Or(cmp.Compare(len(a.pods), len(b.pods)), cmp.Compare(a.serial, b.serial))
	})
	for _, n := range candidates {
		if to, ok := w.move(n); ok {
			return &command{nodes: []*node{n}, reason: reasonUnderutilized, to: to}
		}
	}
	return nil
}

// protected reports whether the replica must not be disrupted.
func (r *replica) protected() bool { return r.load.config.DoNotDisrupt || r.shield != "" }

// removable reports whether consolidation may remove the node.
func (n *node) removable() bool {
	after := n.pool.config.ConsolidateAfter
	return n.schedulable() && after != Never && n.pool.w.now-n.changed >= after
}

// move simulates Karpenter's consolidation of one node. It returns (nil, true) if all replicas of the node fit on other existing nodes. If
// some replicas do not fit there, it returns (pool, true) if these replicas fit on one new node of that pool and the new node is cheaper.
// Otherwise ok is false. A spot node is not replaced by another spot node.
func (w *Simulator) move(n *node) (to *pool, ok bool) {
	room := map[*node]int32{}
	var left []*replica
	for _, r := range n.pods {
		if r.state == draining {
			continue
		}
		other := w.roomFor(r.load, func(o *node) bool {
			return o != n && o.schedulable() && o.gpus-o.used-room[o] >= r.load.gpus
		})
		if other == nil {
			left = append(left, r)
			continue
		}
		room[other] += r.load.gpus
	}
	if len(left) == 0 {
		return nil, true
	}
	to = w.choose(left[0].load)
	var need int32
	for _, r := range left {
		if to == nil || !to.config.takes(r.load.config) {
			return nil, false
		}
		need += r.load.gpus
	}
	from := &n.pool.config
	if need > to.config.GPUs || to.config.Hourly >= from.Hourly || from.CapacityType == Spot && to.config.CapacityType == Spot {
		return nil, false
	}
	return to, true
}

// allowed returns how many more nodes of the pool may be removed now for the given reason, within the disruption budgets.
func (p *pool) allowed(reason string) int32 {
	var total, going int32
	for _, n := range p.nodes {
		if n.state >= usable {
			total++
			if n.state == leaving || n.chosen {
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
		if b.Reason != "" && b.Reason != reason || b.Until > 0 && (p.w.now < b.From || p.w.now >= b.Until) {
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

// drain evicts the replicas of a node. The node is removed after the last replica has ended.
func (n *node) drain() {
	w := n.pool.w
	n.change(func() { n.state = leaving })
	n.pool.gpus -= int64(n.gpus)
	n.chosen = false
	if len(n.pods) == 0 {
		n.after(w.assumptions.NodeTermination, retire)
		return
	}
	n.evict()
}

// evict terminates the replicas of the node; their workloads create new ones.
func (n *node) evict() {
	for _, r := range slices.Clone(n.pods) {
		if r.state == draining {
			continue
		}
		r.load.lost++
		r.terminate()
		r.load.reconcile()
	}
}

// nodeUsable is called when the GPUs of a node become usable. If the node is a replacement, it drains the old node. It then schedules the
// waiting replicas.
func (w *Simulator) nodeUsable(n *node) {
	if old := n.replaces; old != nil {
		n.replaces = nil
		if old.gen == n.replacesGen && old.chosen {
			old.drain()
		}
	}
	w.provision()
}

// timeOut cancels a replacement if the new node was not ready in time, or if the old node was removed for another reason. The new node is
// then used like any other node.
func (w *Simulator) timeOut() {
	for _, p := range w.nodes.pools {
		for _, n := range p.nodes {
			old := n.replaces
			if old == nil || old.gen == n.replacesGen && w.now-n.changed < replacementTimeout {
				continue
			}
			if old.gen == n.replacesGen {
				old.chosen = false
			}
			n.replaces = nil
		}
	}
}
