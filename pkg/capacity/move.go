package capacity

import (
	"slices"
	"time"
)

// moveStep is how far one replica's move has come.
type moveStep uint8

const (
	noMove    moveStep = iota
	surging            // the target is one higher; the successor is not ready on spot yet
	marking            // the successor is ready: the pod on demand is marked to go first
	shrinking          // the target is what it was; the marked pod goes
)

// move is a batch of replicas of one workload on their way from on-demand to spot. It is not part of a record: a leader that starts
// anew finds a target that falls back by as many, and marks that it clears.
type move struct {
	step     moveStep
	refused  bool  // spot had no room for all of it
	since    int64 // of the move; of the step where it shrinks
	workload string
	count    int32            // of the victims
	victims  [maxBatch]string // UIDs
	node     string           // that is being emptied; it stays until the next one is chosen
}

// pace is how the return goes on after what it found. It is not part of a record either: a new leader begins with one replica.
type pace struct {
	width uint8 // replicas of the next batch, at most: twice as many after each that arrived whole
	level uint8 // batches in a row that spot had no room for
	until int64 // the next batch waits
}

const (
	// maxBatch bounds what moves at once, and surgeShare is the part of a workload that does: what a Deployment's own rollout adds.
	maxBatch   = 16
	surgeShare = 4
	// maxFull is the longest wait for room: to ask a full market costs one on-demand node for minutes.
	maxFull = 30 * time.Minute
	// arrives is how long a successor may take, on top of the group's lead time, before the move is given up.
	arrives = 20 * time.Minute
	// shrinks is how long the marked pods may take to go after the target fell.
	shrinks = 10 * time.Minute
	// grows is how long a target that should fall may want as many as there are before none of them is waited for.
	grows = time.Minute
	// lowestCost is what no other pod's cost lies below.
	lowestCost = "-2147483647"
)

// survey finds out what a surge could move: whole on-demand nodes above the base whose pods are all movable. A node shared with a
// Job would never come free, and a return that waited for it would hold consolidation for good.
func (t *tick) survey() {
	if !t.paired() {
		return
	}
	nodes := t.o.Pools[t.onDemand].Nodes
	t.d.movable = append(t.d.movable[:0], make([]int64, len(nodes))...)
	t.eachPod(func(w *Workload, p *Pod) {
		if p.Pool == t.onDemand && p.Node >= 0 && p.Node < len(nodes) && movable(w, p) {
			t.d.movable[p.Node] += units(p.GPUs)
			if size := units(p.GPUs); t.leastMove == 0 || size < t.leastMove {
				t.leastMove = size
			}
		}
	})
	spare := t.aboveBase()
	for i := range nodes {
		if t.empties(i, spare) {
			t.left += units(nodes[i].Used)
		}
	}
	t.left = min(t.left, spare)
}

// empties reports whether moving what a node carries would free it without going below the base. A node of a capacity reservation stays:
// it is paid for in any case.
func (t *tick) empties(i int, spare int64) bool {
	n := &t.o.Pools[t.onDemand].Nodes[i]
	return !n.Deleting && n.Type != Reserved && n.Stage == Usable && n.Used > 0 && t.d.movable[i] == units(n.Used) && units(n.GPUs) <= spare
}

// movable tells pods that a surge can move: their controller makes the successor first and reads which one goes.
func movable(w *Workload, p *Pod) bool {
	return w != nil && p.Owner == OwnerReplicaSet && !w.Paused && !p.Pinned
}

// comeBack moves replicas from on-demand to spot in batches: the target rises by as many; when the successors are Ready on spot, the
// pods on demand are marked to go first and the target falls again; the empty nodes go. Ready replicas never drop below demand.
func (t *tick) comeBack() {
	m, s := &t.s.move, &t.s.spot
	if !t.paired() || s.phase != Probing && s.phase != Returning || t.g.Advisory || t.leaving {
		*m = move{}
		t.staysOnDemand()
		return
	}
	if m.step != noMove {
		t.advance()
	}
	if m.step == noMove {
		t.pick()
	}
	if s.phase == Returning {
		t.because(Reason{Rule: RuleReturn, Pool: int8(t.onDemand), A: float64(t.left), B: float64(t.g.ReturnNodesPerHour), Until: t.ahead(t.nextMove())})
	}
	i := t.workload(m.workload)
	if m.step == noMove || i < 0 {
		return
	}
	if m.step != shrinking {
		t.d.Advice[i].Surge = m.count
	}
	w := &t.o.Workloads[i]
	t.because(Reason{Rule: RuleMove, Pool: int8(t.spot), Name: w.Key, A: float64(t.ready(w)), B: float64(w.needs())})
}

// needs is what scaling wants of a workload, without what we added.
func (w *Workload) needs() int32 { return max(w.Uncapped-max(w.Extra, 0), 0) }

// ready counts replicas of which every pod is ready on a node that is not about to go.
func (t *tick) ready(w *Workload) (n int32) {
	w.eachReplica(func(pods []Pod) {
		for i := range pods {
			if p := &pods[i]; !p.Ready || t.endangered(p) {
				return
			}
		}
		if w.whole(pods) {
			n++
		}
	})
	return n
}

func (t *tick) workload(key string) int {
	return slices.IndexFunc(t.o.Workloads, func(w Workload) bool { return w.Key == key })
}

// nextMove is when the next node may be chosen. A group that finds itself on demand without having failed waits first: Karpenter
// may just have had one bad launch.
func (t *tick) nextMove() int64 {
	s := &t.s.spot
	next := s.moved + t.interval()
	if s.moved == 0 {
		next = 0
	}
	if s.phase == Returning && s.cause == CauseNone {
		next = max(next, s.since+firstHold.Milliseconds())
	}
	return max(next, t.s.pace.until)
}

// interval is the pace between two nodes, in milliseconds.
func (t *tick) interval() int64 { return time.Hour.Milliseconds() / max(t.g.ReturnNodesPerHour, 1) }

// ahead is a stamp as a Reason shows it: what is over has no time.
func (t *tick) ahead(at int64) time.Time {
	if at <= t.at {
		return time.Time{}
	}
	return instant(at)
}

// pick chooses the next batch: what is left on the node that is being emptied, then the least used nodes, as many as the pace has
// let through since the last ones.
func (t *tick) pick() {
	m := &t.s.move
	if !t.known || t.peaks() || t.s.shortSince != 0 || !t.returns() || t.emptied() || t.at < t.s.pace.until {
		return
	}
	through := int64(0)
	if next := t.nextMove(); t.at >= next {
		through = 1 + (t.at-next)/t.interval()
	}
	nodes, spare := t.o.Pools[t.onDemand].Nodes, t.aboveBase()
	batch := move{step: surging, since: t.at}
	for i := t.emptiest(-1, spare); i >= 0; i = t.emptiest(i, spare) {
		n := &nodes[i]
		if n.Name != m.node && through == 0 {
			break
		}
		if !t.fill(&batch, i) {
			continue
		}
		if n.Name != m.node {
			through--
			t.s.spot.moved = t.at
			t.s.touch()
		}
		batch.node, spare = n.Name, spare-units(n.GPUs)
	}
	if batch.count > 0 {
		*m = batch
	}
}

// emptiest is the node that goes next after another one, -1 for the first: the one that is being emptied, then by use and name.
func (t *tick) emptiest(after int, spare int64) int {
	nodes, best := t.o.Pools[t.onDemand].Nodes, -1
	for i := range nodes {
		if t.empties(i, spare) && (after < 0 || t.sooner(after, i)) && (best < 0 || t.sooner(i, best)) {
			best = i
		}
	}
	return best
}

func (t *tick) sooner(i, j int) bool {
	a, b := &t.o.Pools[t.onDemand].Nodes[i], &t.o.Pools[t.onDemand].Nodes[j]
	if x, y := a.Name == t.s.move.node, b.Name == t.s.move.node; x != y {
		return x
	}
	return a.Used < b.Used || a.Used == b.Used && a.Name < b.Name
}

// fill adds pods of a node to a batch, as many as it may still hold, and tells whether there were any.
func (t *tick) fill(batch *move, node int) bool {
	before := batch.count
	for {
		w, p := t.victim(batch, node)
		if p == nil || batch.count >= t.width(w) {
			return batch.count > before
		}
		batch.workload, batch.victims[batch.count] = w.Key, p.UID
		batch.count++
	}
}

// width returns how many replicas of a workload move at once: one at first, twice as many after each batch that moved completely, and at
// most as many as the spot NodePool and the bounds of the workload allow.
func (t *tick) width(w *Workload) int32 {
	n := int32(1)
	if t.s.spot.phase == Returning {
		n = max(1, min(int32(t.s.pace.width), w.needs()/surgeShare, maxBatch))
	}
	if w.Bounded {
		n = min(n, max(w.Room, 0))
	}
	return int32(min(int64(n), t.spare()/max(units(w.GPUs), 1)))
}

// emptied tells whether an empty on-demand node is still there: the next successor would land on it, and not on spot.
func (t *tick) emptied() bool {
	for i := range t.o.Pools[t.onDemand].Nodes {
		if n := &t.o.Pools[t.onDemand].Nodes[i]; n.Used == 0 && n.GPUs > 0 && n.Stage == Usable && n.takes(t.now) {
			return true
		}
	}
	return false
}

// victim is the pod of a node that goes next: of a workload that is whole and at rest, and of the batch's where that has one.
func (t *tick) victim(batch *move, node int) (of *Workload, victim *Pod) {
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		if !w.Known || w.Paused || t.ready(w) < w.needs() || w.needs() == 0 || batch.count > 0 && w.Key != batch.workload {
			continue
		}
		for j := range w.Pods {
			p := &w.Pods[j]
			if p.Pool == t.onDemand && p.Node == node && movable(w, p) && !batch.has(p.UID) && (victim == nil || p.Name < victim.Name) {
				of, victim = w, p
			}
		}
	}
	return of, victim
}

// has tells whether a pod is one of those that go.
func (m *move) has(uid string) bool {
	return slices.Contains(m.victims[:min(max(m.count, 0), maxBatch)], uid)
}

// endangered tells pods on a node that is about to be lost, or goes already.
func (t *tick) endangered(p *Pod) bool {
	n := t.node(p)
	return n != nil && (n.Notice || n.Deleting)
}
