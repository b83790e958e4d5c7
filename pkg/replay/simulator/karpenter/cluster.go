package karpenter

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/events"
)

// Kinds of the events that Handle processes.
const (
	boot         = events.Karpenter + iota // a phase of a node's start ends
	marketUpdate                           // the spot market of a pool changes
	lose                                   // a spot node is lost
	provide                                // the provisioner processes pending pods
	disrupt                                // the disruption loop searches for nodes that can be removed
	validate                               // a planned removal of nodes is checked again, and carried out if it is still valid
	retire                                 // the termination of a node ends
)

// Assumptions are the constants of a Cluster: the fields of simulator.Assumptions that concern nodes.
type Assumptions struct {
	NodeLaunch, GPUReady, ImagePull reproducible.Spread
	BatchWindow, ProvisionRetry     time.Duration
	IceCache                        time.Duration
	DisruptionLoop, Validation      time.Duration
	NodeTermination, SpotNotice     time.Duration
	Pack                            bool
}

// Config describes a Cluster.
type Config struct {
	NodePools   []NodePool // empty: every pod has its own node, which is removed with the pod (GPUs billed per second)
	Fleet       Fleet      // used if NodePools is empty
	Images      int        // number of images that nodes pull
	Start       time.Time  // the time at virtual time 0
	Assumptions Assumptions
	Draws       func(purpose string) *reproducible.Draws // returns the stream of random numbers for a purpose
}

// Fleet is the capacity of a simulation without NodePools.
type Fleet struct {
	GPUs         int32   // maximum number of GPUs; 0: unlimited
	HourlyPerGPU float64 // price of a GPU per hour in $
}

// Cluster contains the NodePools with their nodes, and simulates kube-scheduler and Karpenter.
type Cluster struct {
	queue       *events.Queue
	start       time.Time
	assumptions Assumptions
	fleet       Fleet
	images      int
	draws       func(purpose string) *reproducible.Draws

	pools    []*Pool
	byWeight []*Pool // NodePools in the order in which the provisioner tries them
	all      []*Node // nodes by id; the ids of removed nodes are used again
	spare    []*Node
	serial   int64 // counter of created nodes

	waiting   []*Pod   // pods that are not bound, oldest first
	providing bool     // whether a pass of the provisioner is scheduled
	command   *command // the planned removal of nodes, until it is validated; nil: none
}

// New creates the NodePools of a simulation. Cluster adds its events to the queue. The caller, who owns the queue, passes these events to
// Handle. New does not check the config: call CheckPools first.
func New(c Config, queue *events.Queue) *Cluster {
	out := &Cluster{queue: queue, start: c.Start, assumptions: c.Assumptions, fleet: c.Fleet, images: c.Images, draws: c.Draws}
	configs := slices.Clone(c.NodePools)
	if len(configs) == 0 {
		configs = []NodePool{{Name: "fleet", CapacityType: OnDemand, InstanceType: privateNode, GPUs: 1, Hourly: c.Fleet.HourlyPerGPU}}
	}
	// Karpenter's order: by weight, and for equal weights by name in reverse alphabetical order.
	slices.SortFunc(configs, func(a, b NodePool) int {
		return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(b.Name, a.Name))
	})
	for _, pool := range configs {
		out.pools = append(out.pools, &Pool{cluster: out, index: int32(len(out.pools)), config: pool,
			boots: out.newBoots(pool.Name), spotDraws: c.Draws("spot " + pool.Name)})
	}
	out.byWeight = slices.Clone(out.pools)
	return out
}

// Begin adds the first events of the spot markets and of the disruption loop.
func (c *Cluster) Begin() {
	for _, p := range c.pools {
		p.openMarket()
	}
	if !c.private() {
		c.queue.Add(events.Event{At: c.assumptions.DisruptionLoop, Kind: disrupt})
	}
}

// Handle processes an event of this package.
func (c *Cluster) Handle(e *events.Event) {
	switch e.Kind {
	case provide:
		c.provide()
		return
	case disrupt:
		c.disrupt()
		return
	case validate:
		c.carryOut()
		return
	case marketUpdate:
		c.pools[e.A].updateMarket()
		return
	}
	n := c.all[e.A]
	if n.gen != e.Gen {
		return
	}
	switch e.Kind {
	case boot:
		n.boot()
	case lose:
		n.kill()
	case retire:
		n.remove()
	}
}

// Pools returns the NodePools in the order of their configured weights. Overrides of weights do not change this order. The caller must not
// change the slice.
func (c *Cluster) Pools() []*Pool { return c.pools }

// Pool returns a NodePool by name, or nil.
func (c *Cluster) Pool(name string) *Pool {
	for _, p := range c.pools {
		if p.config.Name == name {
			return p
		}
	}
	return nil
}

func (c *Cluster) now() time.Time { return c.start.Add(c.queue.Now) }

// private reports whether each pod has its own node, because there are no NodePools.
func (c *Cluster) private() bool { return c.pools[0].private() }
