package karpenter

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/events"
)

// boots draws the durations of the phases of a node's start.
type boots struct{ launch, gpuReady, pull *reproducible.Draws }

func (c *Cluster) newBoots(of string) boots {
	return boots{launch: c.draws("node launch " + of), gpuReady: c.draws("GPU ready " + of), pull: c.draws("image pull " + of)}
}

// State is the lifecycle state of a node.
type State uint8

// Values of State, in the order in which a node passes through them.
const (
	Launched   State = iota // requested from the provider
	Registered              // registered, but its GPUs cannot be allocated yet
	Usable                  // its GPUs can be allocated
	Leaving                 // Karpenter drains it
	removed
)

// Node is a simulated node of a NodePool.
type Node struct {
	id          int32
	gen         uint32
	state       State
	pool        *Pool
	boots       *boots
	serial      int64
	made        time.Duration // time of the launch
	joined      time.Duration // time of the registration; 0: it was registered at the start
	usable      time.Duration // time from which its GPUs could be allocated; 0: since the start
	gpus        int32
	used        int32
	pods        []*Pod
	pulled      []time.Duration // time at which each image is on the node; 0: not pulled; -1: since the start
	changed     time.Duration   // time at which a pod was last added to the node or removed from it
	hasNotice   bool            // an interruption notice was received
	chosen      bool            // consolidation will remove the node when its replacement is usable
	replaces    *Node           // the node that this node will replace; nil after this node is usable
	replacesGen uint32
}

// Name returns the name of the node, which is also its UID. No other node of the simulation has this name.
func (n *Node) Name() string { return fmt.Sprintf("%s-%d-%d", n.pool.config.Name, n.id, n.gen) }

// State returns the state of the node.
func (n *Node) State() State { return n.state }

// GPUs returns the number of GPUs of the node.
func (n *Node) GPUs() int32 { return n.gpus }

// Started returns the times at which the node registered and at which its GPUs became allocatable. Both are 0 for a node that existed at
// the start.
func (n *Node) Started() (registered, allocatable time.Duration) { return n.joined, n.usable }

// Pods returns the pods of the node. The caller must not change the slice.
func (n *Node) Pods() []*Pod { return n.pods }

// count adds the GPUs of the node to the pool's counter for the state of the node. It adds all GPUs of a starting node, and the GPUs
// without a pod of any other node. by is 1 to add and -1 to subtract.
func (n *Node) count(by int64) {
	p, free := n.pool, int64(n.gpus-n.used)
	switch {
	case n.state < Usable:
		p.launching += by * int64(n.gpus)
	case n.state == Leaving:
		p.ending += by * free
	case n.used == 0:
		p.empty += by * free
	default:
		p.loose += by * free
	}
}

// change calls do, which changes the node, and updates the GPU counters of the pool for this change.
func (n *Node) change(do func()) {
	n.pool.touch()
	n.count(-1)
	do()
	n.count(1)
}

// newNode creates a node that is requested from the provider (state Launched).
func (p *Pool) newNode(gpus int32, b *boots) *Node {
	c := p.cluster
	p.touch()
	var n *Node
	if k := len(c.spare); k > 0 {
		n, c.spare = c.spare[k-1], c.spare[:k-1]
	} else {
		n = &Node{id: int32(len(c.all))}
		c.all = append(c.all, n)
	}
	c.serial++
	now := c.queue.Now
	*n = Node{id: n.id, gen: n.gen + 1, pool: p, boots: b, serial: c.serial, made: now, changed: now, gpus: gpus,
		pods: n.pods[:0], pulled: n.pulled[:0]}
	for len(n.pulled) < c.images {
		n.pulled = append(n.pulled, 0)
	}
	p.nodes = append(p.nodes, n)
	p.gpus += int64(gpus)
	p.bill.Started++
	n.count(1)
	return n
}

func (n *Node) after(d time.Duration, k events.Kind) {
	q := n.pool.cluster.queue
	q.Add(events.Event{At: q.Now + d, Kind: k, A: n.id, Gen: n.gen})
}

// boot advances the start of a node by one phase.
func (n *Node) boot() {
	p := n.pool
	if n.state == Launched {
		n.state, n.joined = Registered, p.cluster.queue.Now
		n.after(p.gpuReady().Draw(n.boots.gpuReady), boot)
		return
	}
	n.change(func() { n.state = Usable })
	n.changed, n.usable = p.cluster.queue.Now, p.cluster.queue.Now
	for _, pod := range n.pods {
		n.start(pod)
	}
	if !p.private() {
		p.cluster.nodeUsable(n)
	}
}

// take assigns the pod to the node.
func (n *Node) take(pod *Pod) {
	n.change(func() { n.used += pod.template.GPUs })
	n.pods, n.changed = append(n.pods, pod), n.pool.cluster.queue.Now
	pod.node, pod.phase = n, nominated
	if n.state == Usable {
		n.start(pod)
	}
}

// start binds the pod to the node, which is usable, and starts its replica.
func (n *Node) start(pod *Pod) {
	n.pool.cluster.settle(pod)
	pod.phase = bound
	pod.replica.Start(n.pull(pod.template))
}

// vacate removes an ended pod from the node.
func (n *Node) vacate(pod *Pod) {
	c := n.pool.cluster
	n.change(func() { n.used -= pod.template.GPUs })
	n.pods = slices.Delete(n.pods, slices.Index(n.pods, pod), slices.Index(n.pods, pod)+1)
	n.changed = c.queue.Now
	switch {
	case n.state == Leaving && len(n.pods) == 0:
		n.after(c.assumptions.NodeTermination, retire)
	case n.pool.private():
		n.remove()
	}
	c.Provision()
}

// release removes a waiting pod from a starting node.
func (n *Node) release(pod *Pod) {
	n.change(func() { n.used -= pod.template.GPUs })
	n.pods = slices.Delete(n.pods, slices.Index(n.pods, pod), slices.Index(n.pods, pod)+1)
	pod.node, pod.phase = nil, unassigned
}

// pull returns the remaining time of the image pull for a pod. Later pods with the same image wait for the same pull.
func (n *Node) pull(t *Template) time.Duration {
	c := n.pool.cluster
	if n.pulled[t.Image] == 0 {
		n.pulled[t.Image] = c.queue.Now + c.assumptions.ImagePull.Draw(n.boots.pull)
	}
	return max(0, n.pulled[t.Image]-c.queue.Now)
}

// remove deletes the node, which has no pods.
func (n *Node) remove() {
	p := n.pool
	p.touch()
	n.count(-1)
	if n.state != Leaving {
		p.gpus -= int64(n.gpus)
	}
	n.state, n.gen = removed, n.gen+1
	p.nodes = slices.Delete(p.nodes, slices.Index(p.nodes, n), slices.Index(p.nodes, n)+1)
	p.cluster.spare = append(p.cluster.spare, n)
}
