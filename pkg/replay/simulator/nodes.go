package simulator

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

// nodes is the fleet: pools, their nodes, and who makes and removes them.
type nodes struct {
	pools    []*pool
	byWeight []*pool // as the provisioner tries them
	all      []*node // by id; those that are gone are used again
	spare    []*node
	born     int64 // replicas and nodes, in the order in which they were made

	providing bool     // a round of the provisioner is due
	command   *command // what is to be removed after the validation time
}

// pool is a NodePool as the world runs it; without NodePools there is one, whose nodes come and go with a replica each.
type pool struct {
	w      *Simulator
	index  int32
	config NodePool
	nodes  []*node // oldest first, those that end included
	gpus   int64   // of nodes, those that end excluded

	launching, empty, loose, ending int64            // GPUs: of nodes that start; free on nodes without and with replicas; of nodes that end
	parts                           [numCauses]int64 // GPU-microseconds
	paid                            int64            // GPU-microseconds of nodes
	since                           time.Duration

	started, lost int64
	refusedUntil  time.Duration // insufficient capacity, remembered
	refusals      int64
	boots         boots
	luck          *trace.Draws // which nodes the spot market takes
	market        *market      // nil: any number of nodes can be had
	nudged        *nudged      // where it belongs to a capacity group
}

// boots draws how long the phases of a node's start take.
type boots struct{ launch, gpuReady, pull *trace.Draws }

func (w *Simulator) newBoots(of string) boots {
	return boots{launch: w.draws("node launch " + of), gpuReady: w.draws("GPU ready " + of), pull: w.draws("image pull " + of)}
}

// nodeState is how far a node has come.
type nodeState uint8

const (
	launched nodeState = iota
	registered
	usable
	leaving
	removed
)

type node struct {
	id      int32
	gen     uint32
	state   nodeState
	pool    *pool
	boots   *boots
	born    int64
	made    time.Duration // when it was asked for
	gpus    int32
	used    int32
	pods    []*replica
	pulled  []time.Duration // by load: when its image is there, or was; 0: not asked for
	changed time.Duration   // when a replica came or went last
	doomed  bool            // the spot market has given notice
	chosen  bool            // it is to be removed once its replacement has come
	heirOf  *node           // the node that it replaces, as long as it starts
	heirGen uint32
}

// touch books the pool's time since the last change of its numbers.
func (p *pool) touch() {
	dt := (p.w.now - p.since).Microseconds()
	if dt == 0 {
		return
	}
	p.since = p.w.now
	p.parts[Launching] += p.launching * dt
	p.parts[Empty] += p.empty * dt
	p.parts[Fragmentation] += p.loose * dt
	p.parts[Terminating] += p.ending * dt
	for _, n := range p.nodes {
		p.paid += int64(n.gpus) * dt
	}
}

// count says where the node's free GPUs stand in the pool's numbers; by is 1 to add and -1 to take away.
func (n *node) count(by int64) {
	p, free := n.pool, int64(n.gpus-n.used)
	switch {
	case n.state < usable:
		p.launching += by * int64(n.gpus)
	case n.state == leaving:
		p.ending += by * free
	case n.used == 0:
		p.empty += by * free
	default:
		p.loose += by * free
	}
}

// change does something to a node, and keeps the pool's numbers right.
func (n *node) change(do func()) {
	n.pool.touch()
	n.count(-1)
	do()
	n.count(1)
}

// newNode starts a node.
func (p *pool) newNode(gpus int32, b *boots) *node {
	w := p.w
	p.touch()
	var n *node
	if k := len(w.nodes.spare); k > 0 {
		n, w.nodes.spare = w.nodes.spare[k-1], w.nodes.spare[:k-1]
	} else {
		n = &node{id: int32(len(w.nodes.all))}
		w.nodes.all = append(w.nodes.all, n)
	}
	w.nodes.born++
	*n = node{id: n.id, gen: n.gen + 1, pool: p, boots: b, born: w.nodes.born, made: w.now, gpus: gpus, pods: n.pods[:0], pulled: n.pulled[:0], changed: w.now}
	for len(n.pulled) < max(len(w.loads), len(w.config.Workloads)) {
		n.pulled = append(n.pulled, 0)
	}
	p.nodes = append(p.nodes, n)
	p.gpus += int64(gpus)
	p.started++
	n.count(1)
	return n
}

func (n *node) after(d time.Duration, k kind) {
	w := n.pool.w
	w.queue.add(event{at: w.now + d, kind: k, a: n.id, gen: n.gen})
}

// boot goes on with a node's start.
func (n *node) boot() {
	p := n.pool
	if n.state == launched {
		n.state = registered
		n.after(p.config.gpuReady(p.w).draw(n.boots.gpuReady), boot)
		return
	}
	n.change(func() { n.state = usable })
	n.changed = p.w.now
	for _, r := range n.pods {
		r.start()
	}
	if !p.private() {
		p.w.nodeUsable(n)
	}
}

// take gives the replica a place on the node.
func (n *node) take(r *replica) {
	n.change(func() { n.used += r.load.gpus })
	n.pods, n.changed = append(n.pods, r), n.pool.w.now
	r.node, r.state = n, booked
	if n.state == usable {
		r.start()
	}
}

// vacate takes a replica that is gone off the node.
func (n *node) vacate(r *replica) {
	w := n.pool.w
	n.change(func() { n.used -= r.load.gpus })
	n.pods = slices.Delete(n.pods, slices.Index(n.pods, r), slices.Index(n.pods, r)+1)
	n.changed = w.now
	switch {
	case n.state == leaving && len(n.pods) == 0:
		n.after(w.assumptions.NodeTermination, retire)
	case n.pool.private():
		n.remove()
	}
	w.provision()
}

// pull is how long a load's image still takes on the node; replicas that come meanwhile wait for the same pull.
func (n *node) pull(l *load) time.Duration {
	p := n.pool
	if n.pulled[l.index] == 0 {
		n.pulled[l.index] = p.w.now + p.w.assumptions.ImagePull.draw(n.boots.pull)
	}
	return max(0, n.pulled[l.index]-p.w.now)
}

// remove ends the node at once; it has no replicas any more.
func (n *node) remove() {
	p := n.pool
	p.touch()
	n.count(-1)
	if n.state != leaving {
		p.gpus -= int64(n.gpus)
	}
	n.state, n.gen = removed, n.gen+1
	p.nodes = slices.Delete(p.nodes, slices.Index(p.nodes, n), slices.Index(p.nodes, n)+1)
	p.w.nodes.spare = append(p.w.nodes.spare, n)
}
