package capacity

import "time"

// Decide is the brain: what is written (g), what is seen (o), what is remembered (s) and the time make actions, advice and reasons,
// and what to remember for the next tick. It is pure, never blocks and never fails. It does not keep o.
func Decide(g *Group, o Observation, s State, now time.Time) (Decision, State) {
	var d Decision
	s.Decide(g, &o, now, &d)
	return d, s
}

// Decide is the function Decide in place, for a loop over many groups: the state moves on where it lies, and the slices of d are
// used again. A quiet tick allocates nothing.
func (s *State) Decide(g *Group, o *Observation, now time.Time, d *Decision) {
	var t tick
	t.begin(g, o, s, now, d)
	t.run()
}

// Release puts everything back: the group's policy went, or somebody asked for it. It is called in each tick until it returns no
// action any more.
func (s *State) Release(g *Group, o *Observation, now time.Time, d *Decision) {
	t := tick{releasing: true}
	t.begin(g, o, s, now, d)
	t.run()
}

// Shutdown takes back what must not outlive us: every limit. Weights and records stay for the next leader, holds end by
// themselves.
func (s *State) Shutdown(g *Group, o *Observation, now time.Time, d *Decision) {
	t := tick{leaving: true}
	t.begin(g, o, s, now, d)
	t.run()
}

// tick is one pass over the rules. Rules read what is seen, move their own part of the state and want values for fields; only
// write makes patches of them.
type tick struct {
	g   *Group
	o   *Observation
	s   *State
	d   *Decision
	now time.Time
	at  int64

	releasing, leaving bool
	facts              [MaxPools]facts
	spot, onDemand     int           // indexes of the pools of a pair; -1 where the group has none
	known              bool          // demand is complete
	pods               int           // that run or pend
	short              time.Duration // how long pods have waited that no node on its way will take
	left               int64         // units on demand that a surge can move to spot
	leastMove          int64         // units of the smallest pod among them
	leastWait          int64         // units of the smallest pod that has no node
	wants              [MaxPools][numFields]want
}

// facts is what a pool's nodes come to.
type facts struct {
	runs   int64     // units of nodes that exist and are not on their way out
	node   int64     // units of its greatest node
	least  int64     // units of its smallest node; 0: it has none
	nodes  int       // nodes that exist and are not on their way out
	newest time.Time // when its newest launched node was created
	room   int64     // units that its owner's limits and the schedules' still let come; maxUnits: any number
	full   string    // the resource whose limit allows the least; "": no limit does
}

func (t *tick) begin(g *Group, o *Observation, s *State, now time.Time, d *Decision) {
	s.begin(g, now)
	d.reset(len(o.Workloads))
	t.g, t.o, t.s, t.d, t.now, t.at = g, o, s, d, now, s.at
}

// reset empties a decision and keeps its slices.
func (d *Decision) reset(workloads int) {
	d.Actions, d.Plan, d.Findings, d.Reasons = d.Actions[:0], d.Plan[:0], d.Findings[:0], d.Reasons[:0]
	d.Advice = d.Advice[:0]
	for range workloads {
		d.Advice = append(d.Advice, NoAdvice)
	}
	d.Demand = Demand{}
}

// run applies the rules in their order; the package documentation gives the reason for each place.
func (t *tick) run() {
	t.adopt()
	t.settle()
	t.look()
	t.count()
	if !t.releasing {
		t.schedule()
		t.turn()
		t.base()
		t.fallback()
		t.probe()
		t.comeBack()
		t.patience()
		t.fence()
		t.hold()
		t.atRisk()
		t.constrain()
		t.buffer()
		t.check()
	} else {
		t.letGo()
	}
	t.marks()
	if t.leaving {
		t.liftLimits()
	}
	t.write()
	if t.g.Advisory || t.releasing {
		// The reasons say what would be advised.
		for i := range t.d.Advice {
			t.d.Advice[i] = NoAdvice
		}
	}
	t.d.Phase = t.s.spot.phase
}

// views is how many pools there are to look at.
func (t *tick) views() int { return min(len(t.g.Pools), len(t.o.Pools), MaxPools) }

// look counts what stands in the pools.
func (t *tick) look() {
	t.spot, t.onDemand = -1, -1
	for i := range t.views() {
		v, f := &t.o.Pools[i], &t.facts[i]
		f.node = units(v.NodeGPUs)
		for j := range v.Nodes {
			f.add(&v.Nodes[j])
		}
		f.runs = max(f.runs, units(v.Usage))
	}
	t.pair()
	t.survey()
}

// pair finds the two pools of which each takes the other's replicas. A pool of reserved capacity is the on-demand side where the group has
// no other.
func (t *tick) pair() {
	spot := t.g.only(Spot)
	demand := int(t.g.other(int8(spot)))
	if spot < 0 || demand < 0 || demand == spot || max(spot, demand) >= t.views() {
		return
	}
	if a, b := &t.o.Pools[spot], &t.o.Pools[demand]; a.Exists && b.Exists && !a.Mixed && !b.Mixed {
		t.spot, t.onDemand = spot, demand
	}
}

// paired tells whether the group has a pool each.
func (t *tick) paired() bool { return t.spot >= 0 }

func (f *facts) add(n *Node) {
	f.node = max(f.node, units(n.GPUs))
	if n.Deleting {
		return
	}
	f.nodes++
	f.runs += units(n.GPUs)
	if size := units(n.GPUs); size > 0 && (f.least == 0 || size < f.least) {
		f.least = size
	}
	if n.Stage != Requested && n.Created.After(f.newest) {
		f.newest = n.Created
	}
}

// eachPod visits every pod: those of the workloads, and the others with a nil workload.
func (t *tick) eachPod(visit func(w *Workload, p *Pod)) {
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		for j := range w.Pods {
			visit(w, &w.Pods[j])
		}
	}
	for i := range t.o.UnmanagedPods {
		visit(nil, &t.o.UnmanagedPods[i])
	}
}

// node is the node that a pod runs on, or nil.
func (t *tick) node(p *Pod) *Node {
	if p.Pool < 0 || p.Pool >= t.views() || p.Node < 0 || p.Node >= len(t.o.Pools[p.Pool].Nodes) {
		return nil
	}
	return &t.o.Pools[p.Pool].Nodes[p.Node]
}

// because leaves a reason.
func (t *tick) because(r Reason) { t.d.Reasons = append(t.d.Reasons, r) }

// find leaves a finding.
func (t *tick) find(f Finding) { t.d.Findings = append(t.d.Findings, f) }
