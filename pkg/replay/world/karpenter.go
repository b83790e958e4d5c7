package world

import (
	"cmp"
	"errors"
	"time"
)

// NodePool is a Karpenter NodePool with one instance type.
type NodePool struct {
	Name         string
	CapacityType string // "on-demand", "spot", "reserved"
	InstanceType string
	GPUs         int32   // per node
	Hourly       float64 // $ per node
}

func (p *NodePool) launch(w *World) *Spread   { return &w.assumptions.NodeLaunch }
func (p *NodePool) gpuReady(w *World) *Spread { return &w.assumptions.GPUReady }

func (c *Config) checkPools() []error {
	if len(c.NodePools) > 0 {
		return []error{errors.New("no NodePools yet")}
	}
	return nil
}

func (w *World) openNodes() {
	config := NodePool{Name: "fleet", CapacityType: "on-demand", InstanceType: privateNode, GPUs: 1, Hourly: w.config.Fleet.HourlyPerGPU}
	w.nodes.pools = []*pool{w.newPool(config)}
}

func (w *World) newPool(c NodePool) *pool {
	return &pool{w: w, index: int32(len(w.nodes.pools)), config: c, boots: w.newBoots(c.Name)}
}

func (w *World) beginNodes() {}

// raise lets an initial replica stand, ready.
func (w *World) raise(l *load) {
	r := w.newReplica(l)
	w.waiting = w.waiting[:len(w.waiting)-1]
	n := w.nodes.pools[0].newNode(l.gpus, &l.boots)
	n.change(func() { n.state = usable })
	n.pulled[l.index] = 1
	n.change(func() { n.used += l.gpus })
	n.pods = append(n.pods, r)
	r.node = n
	l.pending--
	r.open()
}

func (w *World) provision() {
	if w.nodes.pools[0].private() {
		w.fleet()
	}
}

func (w *World) nodeUsable(*node) {}

func (s *nodes) happen(w *World, e *event) {
	n := s.all[e.a]
	if n.gen != e.gen {
		return
	}
	if e.kind == boot {
		n.boot()
	}
}

// cost is what a pool's nodes cost so far, in $.
func (p *pool) cost() float64 {
	p.touch()
	perGPU := p.config.Hourly / float64(cmp.Or(p.config.GPUs, 1))
	return float64(p.paid) / float64(time.Hour.Microseconds()) * perGPU
}
