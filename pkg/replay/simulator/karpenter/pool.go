package karpenter

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

// Pool is the state of a NodePool. In a simulation without NodePools there is one pool, in which every pod has its own node.
type Pool struct {
	cluster *Cluster
	index   int32
	config  NodePool
	nodes   []*Node // nodes of the pool, oldest first, including terminating ones
	gpus    int64   // GPUs of the nodes, without terminating ones

	launching int64         // GPUs of starting nodes
	empty     int64         // free GPUs on nodes without pods
	loose     int64         // free GPUs on nodes with pods
	ending    int64         // GPUs of terminating nodes
	touched   time.Duration // time up to which the bill of the pool is computed
	bill      Bill
	before    Bill // the bill when the report part began

	refusedUntil time.Duration // launches are refused until this time, because the last launch failed for lack of capacity
	boots        boots
	spotDraws    *reproducible.Draws // random numbers that choose the lost spot nodes
	market       *market             // nil: unlimited nodes
	overridable  *overridable        // the overridable fields; nil if the pool is in no capacity group
}

// Bill contains totals of a pool since the start of the simulation, or since BeginReport.
type Bill struct {
	Parts                   [ledger.Causes]int64 // GPU time without a pod on the GPU, by cause, in microseconds
	Paid                    int64                // GPU time of all nodes, in microseconds
	Started, Lost, Refusals int64                // launched nodes, lost spot nodes, and launches that failed for lack of capacity
}

// Config returns the NodePool as it is now, with the overrides of its capacity group.
func (p *Pool) Config() *NodePool { return &p.config }

// Nodes returns the billed nodes of the pool, oldest first. The caller must not change the slice.
func (p *Pool) Nodes() []*Node { return p.nodes }

// Usable returns the number of usable nodes.
func (p *Pool) Usable() (n int) {
	for _, node := range p.nodes {
		if node.state == Usable {
			n++
		}
	}
	return n
}

// BeginReport starts the report part. Reported does not include GPU time and events before this call.
func (p *Pool) BeginReport() {
	p.touch()
	p.before = p.bill
}

// Reported returns the totals since BeginReport, or since the start if it was not called.
func (p *Pool) Reported() Bill {
	p.touch()
	b, o := p.bill, &p.before
	b.Paid -= o.Paid
	b.Started -= o.Started
	b.Lost -= o.Lost
	b.Refusals -= o.Refusals
	for c := range b.Parts {
		b.Parts[c] -= o.Parts[c]
	}
	return b
}

// Cost returns the cost of a bill of this pool in $.
func (p *Pool) Cost(b *Bill) float64 {
	return float64(float64(b.Paid) / float64(time.Hour.Microseconds()) * (p.config.Hourly / float64(p.config.GPUs)))
}

// touch adds the GPU time since its last call to the totals of the pool. It must be called before each change of the pool's GPU counters.
func (p *Pool) touch() {
	now := p.cluster.queue.Now
	dt := (now - p.touched).Microseconds()
	if dt == 0 {
		return
	}
	p.touched = now
	p.bill.Parts[ledger.Launching] += p.launching * dt
	p.bill.Parts[ledger.Empty] += p.empty * dt
	p.bill.Parts[ledger.Fragmentation] += p.loose * dt
	p.bill.Parts[ledger.Terminating] += p.ending * dt
	for _, n := range p.nodes {
		p.bill.Paid += int64(n.gpus) * dt
	}
}

// launchTime and gpuReady are the durations of the first phases of a node's start.
func (p *Pool) launchTime() *reproducible.Spread {
	if s := p.config.NodeLaunch; s != nil {
		return s
	}
	return &p.cluster.assumptions.NodeLaunch
}

func (p *Pool) gpuReady() *reproducible.Spread {
	if s := p.config.GPUReady; s != nil {
		return s
	}
	return &p.cluster.assumptions.GPUReady
}

// If there are no NodePools, GPUs are billed per second. Every pod has its own node with exactly its number of GPUs, and the node is
// removed with the pod. At most Fleet.GPUs GPUs are in use; pods get them in the order in which they were created.

// private reports whether every node of the pool belongs to one pod and is removed with it.
func (p *Pool) private() bool { return p.config.InstanceType == privateNode }

const privateNode = "(one node per replica)"

// assignPrivate gives each waiting pod its own node, in a simulation without NodePools.
func (c *Cluster) assignPrivate() {
	p, limit := c.pools[0], int64(c.fleet.GPUs)
	for _, pod := range c.waiting {
		if !pod.withoutNode() {
			continue
		}
		if limit > 0 && p.gpus+int64(pod.template.GPUs) > limit {
			return
		}
		n := p.newNode(pod.template.GPUs, &pod.template.boots)
		n.take(pod)
		n.after(p.launchTime().Draw(n.boots.launch), boot)
	}
}
