package simulator

import (
	"cmp"
	"slices"
)

// settle takes a replica that found its place off the list of those that wait.
func (w *Simulator) settle(r *replica) {
	if i := slices.Index(w.waiting, r); i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	}
}

// provision is called when a replica is new, or a GPU has become free.
func (w *Simulator) provision() {
	if len(w.waiting) == 0 {
		return
	}
	if w.private() {
		w.fleet()
		return
	}
	w.bind()
	if !w.nodes.providing && slices.ContainsFunc(w.waiting, (*replica).homeless) {
		w.nodes.providing = true
		w.queue.add(event{at: w.now + w.assumptions.BatchWindow, kind: provide})
	}
}

func (r *replica) homeless() bool { return r.state == homeless }

// bind is kube-scheduler: replicas that wait take free GPUs, oldest first; also those that Karpenter has a node in the making
// for, whose node then comes empty.
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

// schedulable tells nodes that take replicas now.
func (n *node) schedulable() bool { return n.state == usable && !n.chosen && !n.doomed }

// coming tells nodes that will.
func (n *node) coming() bool { return n.state < usable && !n.doomed && n.heirOf == nil }

// roomFor is the node that a scheduler would choose for a replica of the load among those that are suitable, or nil.
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

// prefers tells whether a scheduler puts the next replica on a rather than on b: by the share of its GPUs that is taken, and of
// equal ones on the older node.
func (w *Simulator) prefers(a, b *node) bool {
	x, y := int64(a.used)*int64(b.gpus), int64(b.used)*int64(a.gpus)
	if w.assumptions.Pack {
		x, y = y, x
	}
	return cmp.Or(cmp.Compare(x, y), cmp.Compare(a.born, b.born)) < 0
}

// provide is a round of Karpenter's provisioner over the replicas without a node: nodes in the making first, then new ones. Every
// launch of a round is asked for before the first one is refused.
func (w *Simulator) provide() {
	w.nodes.providing = false
	w.bind()
	var refused []*pool
	// Big replicas first, or small ones would fill the nodes that these need.
	round := slices.DeleteFunc(slices.Clone(w.waiting), func(r *replica) bool { return !r.homeless() })
	slices.SortStableFunc(round, func(a, b *replica) int { return cmp.Compare(b.load.gpus, a.load.gpus) })
	for _, r := range round {
		n := w.roomFor(r.load, (*node).coming)
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
	if slices.ContainsFunc(w.waiting, (*replica).homeless) {
		w.nodes.providing = true
		w.queue.add(event{at: w.now + w.assumptions.ProvisionRetry, kind: provide})
	}
}

// choose is the pool of the greatest weight that takes a replica of the load; nil where none does.
func (w *Simulator) choose(l *load) *pool {
	for _, p := range w.nodes.byWeight {
		if p.config.takes(l.config) && p.config.GPUs >= l.gpus && p.mayGrow() && p.refusedUntil <= w.now {
			return p
		}
	}
	return nil
}

// mayGrow tells whether the pool's limit has room for a whole node.
func (p *pool) mayGrow() bool {
	return p.config.Limit == nil || p.gpus+int64(p.config.GPUs) <= *p.config.Limit
}

// launch asks the provider for a node; nil where it has no capacity.
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

// release takes a replica that waits off a node in the making.
func (n *node) release(r *replica) {
	n.change(func() { n.used -= r.load.gpus })
	n.pods = slices.Delete(n.pods, slices.Index(n.pods, r), slices.Index(n.pods, r)+1)
	r.node, r.state = nil, homeless
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
