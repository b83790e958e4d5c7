package simulator

// A world without NodePools: GPUs by the second. Every replica brings a node of its own size that ends with it; at most
// Fleet.GPUs of them, first come first served.

// private tells a pool whose nodes come and go with a replica each.
func (p *pool) private() bool { return p.config.InstanceType == privateNode }

const privateNode = "(one node per replica)"

// fleet gives nodes to the replicas that wait.
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
