package simulator

// Without NodePools, GPUs are billed per second. Every replica has its own node with exactly its number of GPUs, and the node is removed
// with the replica. At most Fleet.GPUs GPUs are in use; replicas get them in the order in which they were created.

// private reports whether every node of the pool belongs to one replica and is removed with it.
func (p *pool) private() bool { return p.config.InstanceType == privateNode }

const privateNode = "(one node per replica)"

// fleet assigns nodes to waiting replicas.
func (w *Simulator) fleet() {
	p, limit := w.nodes.pools[0], int64(w.config.Fleet.GPUs)
	for _, r := range w.waiting {
		if !r.homeless() {
			continue
		}
		if limit > 0 && p.gpus+int64(r.load.gpus) > limit {
			return
		}
		n := p.newNode(r.load.gpus, &r.load.boots)
		n.take(r)
		n.after(p.config.launch(w).draw(n.boots.launch), boot)
	}
}
