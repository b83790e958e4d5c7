package simulator

import (
	"cmp"
	"slices"
)

// settle removes a replica from the list of waiting replicas.
func (w *Simulator) settle(r *replica) {
	if i := slices.Index(w.waiting, r); i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
}

// provision schedules the waiting replicas: on nodes with free GPUs immediately, and on new nodes after Karpenter's batch window. It is
// called when a replica is created, and when GPUs become free.
func (w *Simulator) provision() {
	if len(w.waiting) == 0 {
		return
	}
	if w.private() {
		w.fleet()
		return
	}
	w.bind()
	if !w.nodes.providing && slices.ContainsFunc(w.waiting, (*replica).withoutNode) {
		w.nodes.providing = true
		w.queue.add(event{at: w.now + w.assumptions.BatchWindow, kind: provide})
	}
}

func (r *replica) withoutNode() bool { return r.state == withoutNode }

// bind simulates kube-scheduler: it assigns waiting replicas, oldest first, to usable nodes with free GPUs. It may also assign a replica
// that Karpenter nominated to a starting node. That node can then be empty when it becomes usable.
func (w *Simulator) bind() {
	for i := 0; i < len(w.waiting); {
		r := w.waiting[i]
		n := w.roomFor(r.load, (*node).schedulable)
		if n == nil {
			i++
			continue
		}
		if r.node != nil {
			r.node.release(r)
		}
		n.take(r)
	}
}

// schedulable reports whether the node accepts replicas now.
func (n *node) schedulable() bool { return n.state == usable && !n.chosen && !n.hasNotice }

// willAccept reports whether the node is starting and will accept replicas.
func (n *node) willAccept() bool { return n.state < usable && !n.hasNotice && n.replaces == nil }

// roomFor returns the suitable node that a scheduler chooses for a replica of the load, or nil.
func (w *Simulator) roomFor(l *load, suitable func(*node) bool) (best *node) {
	for _, p := range w.nodes.pools {
		if !p.config.takes(l.config) {
			continue
		}
		for _, n := range p.nodes {
			if free := n.gpus - n.used; free < l.gpus || !suitable(n) {
				continue
			}
			if best == nil || w.prefers(n, best) {
				best = n
			}
		}
	}
	return best
}

// prefers reports whether a scheduler prefers node a to node b. The scheduler prefers the node with the smaller used share of its GPUs, or
// the larger used share if Assumptions.Pack is set. If both shares are equal, it prefers the older node.
func (w *Simulator) prefers(a, b *node) bool {
	x, y := int64(a.used)*int64(b.gpus), int64(b.used)*int64(a.gpus)
	if w.assumptions.Pack {
		x, y = y, x
	}
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(a.serial, b.serial)) < 0
}

// provide simulates one pass of Karpenter's provisioner over the replicas without a node. It uses starting nodes first and then requests
// new nodes. It requests all nodes of a pass before it knows the first failure, so several launches in the same NodePool can fail.
func (w *Simulator) provide() {
	w.nodes.providing = false
	w.bind()
	var refused []*pool
	// Large replicas are placed first, because small ones would fill the nodes that the large ones need.
	round := slices.DeleteFunc(slices.Clone(w.waiting), func(r *replica) bool { return !r.withoutNode() })
	slices.SortStableFunc(round, func(a, b *replica) int { return cmp.Compare(b.load.gpus, a.load.gpus) })
	for _, r := range round {
		n := w.roomFor(r.load, (*node).willAccept)
		if n == nil {
			p := w.choose(r.load)
			if p == nil {
				continue
			}
			if n = p.launch(); n == nil {
				refused = append(refused, p)
				continue
			}
		}
		n.take(r)
	}
	for _, p := range refused {
		p.refusedUntil = w.now + w.assumptions.IceCache
	}
	if slices.ContainsFunc(w.waiting, (*replica).withoutNode) {
		w.nodes.providing = true
		w.queue.add(event{at: w.now + w.assumptions.ProvisionRetry, kind: provide})
	}
}

// choose returns the pool with the highest weight that accepts a replica of the load, or nil.
func (w *Simulator) choose(l *load) *pool {
	for _, p := range w.nodes.byWeight {
		if p.config.takes(l.config) && p.config.GPUs >= l.gpus && p.mayGrow() && p.refusedUntil <= w.now {
			return p
		}
	}
	return nil
}

// mayGrow reports whether the limit of the pool allows another node.
func (p *pool) mayGrow() bool {
	return p.config.Limit == nil || p.gpus+int64(p.config.GPUs) <= *p.config.Limit
}

// launch requests a node from the provider. It returns nil on insufficient capacity.
func (p *pool) launch() *node {
	if !p.available() {
		p.refusals++
		p.refused()
		return nil
	}
	n := p.newNode(p.config.GPUs, &p.boots)
	n.after(p.config.launch(p.w).draw(p.boots.launch), boot)
	return n
}

// release removes a waiting replica from a starting node.
func (n *node) release(r *replica) {
	n.change(func() { n.used -= r.load.gpus })
	n.pods = slices.Delete(n.pods, slices.Index(n.pods, r), slices.Index(n.pods, r)+1)
	r.node, r.state = nil, withoutNode
}

func (s *nodes) happen(w *Simulator, e *event) {
	switch e.kind {
	case provide:
		w.provide()
		return
	case disrupt:
		w.disrupt()
		return
	case validate:
		w.carryOut()
		return
	case spotTurn:
		s.pools[e.a].turn()
		return
	}
	n := s.all[e.a]
	if n.gen != e.gen {
		return
	}
	switch e.kind {
	case boot:
		n.boot()
	case lose:
		n.kill()
	case retire:
		n.remove()
	}
}
