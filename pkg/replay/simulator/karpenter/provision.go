package karpenter

import (
	"cmp"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/events"
)

// Provision schedules the waiting pods: on nodes with free GPUs immediately, and on new nodes after Karpenter's batch window. The caller
// must call Provision after it creates pods. The package itself calls Provision when GPUs become free.
func (c *Cluster) Provision() {
	if len(c.waiting) == 0 {
		return
	}
	if c.private() {
		c.assignPrivate()
		return
	}
	c.bind()
	if !c.providing && slices.ContainsFunc(c.waiting, (*Pod).withoutNode) {
		c.providing = true
		c.queue.Add(events.Event{At: c.queue.Now + c.assumptions.BatchWindow, Kind: provide})
	}
}

// bind simulates kube-scheduler: it assigns waiting pods, oldest first, to usable nodes with free GPUs. It may also assign a pod for which
// Karpenter already launches a node. That node can then be empty when it becomes usable.
func (c *Cluster) bind() {
	for i := 0; i < len(c.waiting); {
		pod := c.waiting[i]
		n := c.roomFor(pod.template, (*Node).schedulable)
		if n == nil {
			i++
			continue
		}
		if pod.node != nil {
			pod.node.release(pod)
		}
		n.take(pod)
	}
}

// schedulable reports whether the node accepts pods now.
func (n *Node) schedulable() bool { return n.state == Usable && !n.chosen && !n.hasNotice }

// willAccept reports whether the node is starting and will accept pods when it is usable.
func (n *Node) willAccept() bool { return n.state < Usable && !n.hasNotice && n.replaces == nil }

// roomFor returns the node that a scheduler chooses for a pod of the template, among the nodes for which suitable returns true. It returns
// nil if no such node has enough free GPUs.
func (c *Cluster) roomFor(t *Template, suitable func(*Node) bool) (best *Node) {
	for _, p := range c.pools {
		if !p.config.Takes(t) {
			continue
		}
		for _, n := range p.nodes {
			if free := n.gpus - n.used; free < t.GPUs || !suitable(n) {
				continue
			}
			if best == nil || c.prefers(n, best) {
				best = n
			}
		}
	}
	return best
}

// prefers reports whether a scheduler prefers node a to node b. The scheduler prefers the node with the smaller used share of its GPUs, or
// the larger used share if Assumptions.Pack is set. If both shares are equal, it prefers the older node.
func (c *Cluster) prefers(a, b *Node) bool {
	x, y := int64(a.used)*int64(b.gpus), int64(b.used)*int64(a.gpus)
	if c.assumptions.Pack {
		x, y = y, x
	}
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(a.serial, b.serial)) < 0
}

// provide simulates one pass of Karpenter's provisioner over the pods without a node. It uses starting nodes first and then requests new
// nodes. It requests all nodes of a pass before it knows the first failure, so several launches in the same NodePool can fail.
func (c *Cluster) provide() {
	c.providing = false
	c.bind()
	var refused []*Pool
	// Large pods are placed first, because small pods would fill the nodes that the large pods need.
	round := slices.DeleteFunc(slices.Clone(c.waiting), func(pod *Pod) bool { return !pod.withoutNode() })
	slices.SortStableFunc(round, func(a, b *Pod) int { return cmp.Compare(b.template.GPUs, a.template.GPUs) })
	for _, pod := range round {
		n := c.roomFor(pod.template, (*Node).willAccept)
		if n == nil {
			p := c.choose(pod.template)
			if p == nil {
				continue
			}
			if n = p.launch(); n == nil {
				refused = append(refused, p)
				continue
			}
		}
		n.take(pod)
	}
	for _, p := range refused {
		p.refusedUntil = c.queue.Now + c.assumptions.IceCache
	}
	if slices.ContainsFunc(c.waiting, (*Pod).withoutNode) {
		c.providing = true
		c.queue.Add(events.Event{At: c.queue.Now + c.assumptions.ProvisionRetry, Kind: provide})
	}
}

// choose returns the pool with the highest weight that accepts a pod of the template, or nil.
func (c *Cluster) choose(t *Template) *Pool {
	for _, p := range c.byWeight {
		if p.config.Takes(t) && p.config.GPUs >= t.GPUs && p.mayGrow() && p.refusedUntil <= c.queue.Now {
			return p
		}
	}
	return nil
}

// mayGrow reports whether the limit of the pool allows another node.
func (p *Pool) mayGrow() bool {
	return p.config.Limit == nil || p.gpus+int64(p.config.GPUs) <= *p.config.Limit
}

// launch requests a node from the provider. It returns nil on insufficient capacity.
func (p *Pool) launch() *Node {
	if !p.available() {
		p.bill.Refusals++
		p.refused()
		return nil
	}
	n := p.newNode(p.config.GPUs, &p.boots)
	n.after(p.launchTime().Draw(p.boots.launch), boot)
	return n
}

// initialNode returns a usable node with enough free GPUs for a pod at the start of the run, or nil.
func (c *Cluster) initialNode(t *Template) *Node {
	if c.private() {
		n := c.pools[0].newNode(t.GPUs, &t.boots)
		n.change(func() { n.state = Usable })
		return n
	}
	if n := c.roomFor(t, func(n *Node) bool { return n.state == Usable }); n != nil {
		return n
	}
	for _, p := range c.pools {
		if p.config.Takes(t) && p.config.GPUs >= t.GPUs && p.mayGrow() && p.available() {
			n := p.newNode(p.config.GPUs, &p.boots)
			n.change(func() { n.state = Usable })
			return n
		}
	}
	return nil
}
