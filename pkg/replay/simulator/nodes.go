package simulator

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

// nodes contains the pools with their nodes, and the state of the provisioner.
type nodes struct {
	pools    []*pool
	byWeight []*pool // in the order in which the provisioner tries them
	all      []*node // nodes by id; the ids of removed nodes are used again
	spare    []*node
	serial   int64 // counter of created replicas and nodes

	providing bool     // a pass of the provisioner is scheduled
	command   *command // removal of nodes that waits for its validation
}

// pool is the state of a NodePool. Without NodePools there is one pool, whose nodes each belong to one replica.
type pool struct {
	w      *Simulator
	index  int32
	config NodePool
	nodes  []*node // nodes of the pool, oldest first, including terminating ones
	gpus   int64   // GPUs of the nodes, without terminating ones

	launching int64         // GPUs of starting nodes
	empty     int64         // free GPUs on nodes without replicas
	loose     int64         // free GPUs on nodes with replicas
	ending    int64         // GPUs of terminating nodes
	touched   time.Duration // time up to which the bill is computed
	bill
	before bill // the bill at the start of the report part

	refusedUntil time.Duration // until then, launches are refused because of the last failure for lack of capacity
	boots        boots
	spotDraws    *reproducible.Draws // random numbers that choose the lost spot nodes
	market       *market             // nil: unlimited nodes
	overridable  *overridable        // set if the pool belongs to a capacity group
}

// boots draws the durations of the phases of a node's start.
type boots struct{ launch, gpuReady, pull *reproducible.Draws }

func (w *Simulator) newBoots(of string) boots {
	return boots{launch: w.draws("node launch " + of), gpuReady: w.draws("GPU ready " + of), pull: w.draws("image pull " + of)}
}

// nodeState is the lifecycle state of a node.
type nodeState uint8

const (
	launched nodeState = iota
	registered
	usable
	leaving
	removed
)

type node struct {
	id          int32
	gen         uint32
	state       nodeState
	pool        *pool
	boots       *boots
	serial      int64
	made        time.Duration // time of the launch
	gpus        int32
	used        int32
	pods        []*replica
	pulled      []time.Duration // time at which the image of each load is on the node; 0: not pulled
	changed     time.Duration   // time at which a replica was last added or removed
	hasNotice   bool            // an interruption notice was received
	chosen      bool            // the node will be removed when its replacement is ready
	replaces    *node           // the node that this node replaces, until this one is usable
	replacesGen uint32
}

// touch adds the GPU time since its last call to the totals of the pool. It must be called before each change of the pool's GPU counters.
func (p *pool) touch() {
	dt := (p.w.now - p.touched).Microseconds()
	if dt == 0 {
		return
	}
	p.touched = p.w.now
	p.parts[ledger.Launching] += p.launching * dt
	p.parts[ledger.Empty] += p.empty * dt
	p.parts[ledger.Fragmentation] += p.loose * dt
	p.parts[ledger.Terminating] += p.ending * dt
	for _, n := range p.nodes {
		p.paid += int64(n.gpus) * dt
	}
}

// count adds the GPUs of the node to the pool's counter for the state of the node. For a starting node these are all its GPUs, and for any
// other node the GPUs without a replica. by is 1 to add and -1 to subtract.
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

// change calls the function do, which changes the node, and updates the GPU counters of the pool.
func (n *node) change(do func()) {
	n.pool.touch()
	n.count(-1)
	do()
	n.count(1)
}

// newNode creates a node.
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
	w.nodes.serial++
	*n = node{id: n.id, gen: n.gen + 1, pool: p, boots: b, serial: w.nodes.serial, made: w.now, changed: w.now, gpus: gpus,
		pods: n.pods[:0], pulled: n.pulled[:0]}
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

// boot advances the start of a node by one phase.
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

// take assigns the replica to the node.
func (n *node) take(r *replica) {
	n.change(func() { n.used += r.load.gpus })
	n.pods, n.changed = append(n.pods, r), n.pool.w.now
	r.node, r.state = n, booked
	if n.state == usable {
		r.start()
	}
}

// vacate removes an ended replica from the node.
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

// pull returns the remaining time of the image pull for a load. Later replicas of the load wait for the same pull.
func (n *node) pull(l *load) time.Duration {
	p := n.pool
	if n.pulled[l.index] == 0 {
		n.pulled[l.index] = p.w.now + p.w.assumptions.ImagePull.draw(n.boots.pull)
	}
	return max(0, n.pulled[l.index]-p.w.now)
}

// remove deletes the node, which has no replicas.
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
