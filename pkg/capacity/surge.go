package capacity

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

const (
	// fewReplicas is the greatest number of replicas of a workload that gets a surge. With more replicas, most of them stay while Karpenter
	// disrupts one node.
	fewReplicas = 2
	// surgeNodes limits the surges that run at the same time to one for each surgeNodes nodes of a group. This corresponds to Karpenter's
	// default disruption budget of 10 %. Without this limit, the group would double if all nodes drifted at once.
	surgeNodes = 10
	// surgeCost is the deletion cost of a replica that a surge replaces. A new leader recognizes the replica by this cost, because no other
	// rule uses the value.
	surgeCost = "-110"
)

// surgeBeforeEviction adds one replica to a workload with few replicas before Karpenter disrupts the node of one of them (a surge). When
// the added replica, the successor, is ready, the rule lowers the target again. The ReplicaSet then deletes the old replica, because the
// old replica has the lowest deletion cost.
//
// Karpenter 1.15 launches a replacement for the node and deletes the old node when the replacement is initialized. It does not wait until
// a pod on the replacement is ready (waitOrTerminate in pkg/controllers/disruption/queue.go). It also never disrupts a node with a pod
// that has karpenter.sh/do-not-disrupt or a PodDisruptionBudget that allows no eviction, unless the NodePool has a
// terminationGracePeriod. Without this rule, either the workload has no replica during a cold start, or the node is never replaced.
func (t *tick) surgeBeforeEviction() {
	if t.g.Advisory {
		t.s.Surges = [statemachine.MaxSurges]statemachine.Surge{}
		return
	}
	t.inheritSurges()
	for i := range t.s.Surges {
		t.advanceSurge(&t.s.Surges[i])
	}
	t.startSurges()
	for i := range t.s.Surges {
		t.adviseSurge(&t.s.Surges[i])
	}
}

// runningSurges returns the number of surges of the group that run.
func (s *State) runningSurges() (n int) {
	for i := range s.Surges {
		if s.Surges[i].Runs() {
			n++
		}
	}
	return n
}

// freeSurge returns an unused element of Surges. If all are used, it returns the resting surge (step SurgeResting) that ends first. It
// returns nil if every surge runs.
func (s *State) freeSurge() (free *statemachine.Surge) {
	for i := range s.Surges {
		if g := &s.Surges[i]; !g.Runs() && (free == nil || g.Until < free.Until) {
			free = g // an unused element is used first, because its Until is 0
		}
	}
	return free
}

// surgeOf returns the surge of the given workload or the surge that replaces the given replica, or nil. If both parameters are empty, it
// returns an unused element.
func (s *State) surgeOf(workload, pod string) *statemachine.Surge {
	for i := range s.Surges {
		if g := &s.Surges[i]; pod == "" && g.Workload == workload || pod != "" && g.Pod == pod {
			return g
		}
	}
	return nil
}

// inheritSurges continues the surges of the previous leader. It recognizes them by the deletion cost of the old replica. If the workload
// has a newer pod, this pod is the successor, and the time limit of the surge begins with the creation of this pod. Otherwise the
// previous leader has just begun or has just ended the surge, and the workload gets no surge for SurgeRest.
func (t *tick) inheritSurges() {
	if !t.s.Inherits || t.o.Lost {
		return
	}
	t.s.Inherits = false
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		var old, newest *Pod
		for j := range w.Pods {
			p := &w.Pods[j]
			if p.DeletionCost.Ours && p.DeletionCost.Value == surgeCost && old == nil {
				old = p
			}
			if newest == nil || p.Since.After(newest.Since) {
				newest = p
			}
		}
		s := t.s.surgeOf("", "")
		if old == nil || s == nil {
			continue
		}
		*s = statemachine.Surge{Step: statemachine.SurgeResting, Workload: w.Key, Pod: old.UID,
			Until: t.at + statemachine.SurgeRest.Milliseconds()}
		if n := t.node(old); n != nil {
			s.Node, s.Cause = n.Name, t.disruption(old)
		}
		if newest.Since.After(old.Since) && t.allowsSurge() {
			s.Step, s.Size, s.Since = statemachine.SurgeAsked, max(w.Current, 1), statemachine.Stamp(newest.Since)-1
			s.Until = s.Since + t.surgeLimit(w).Milliseconds()
		}
	}
}

// surgeLimit returns how long the additional replica may take to become ready. It is as long as the time limit of a move to spot, and
// includes the learned cold start of the workload or, if that is unknown, the lead time of the group.
func (a *analysis) surgeLimit(w *Workload) time.Duration {
	return successorTimeout + max(a.g.LeadTime, w.ColdStart, 0)
}

// advanceSurge performs one tick of a surge. While the demand of the workload is unknown, the surge does not change, because missing data
// never lowers a target.
func (t *tick) advanceSurge(s *statemachine.Surge) {
	i := t.workload(s.Workload)
	if s.Step == statemachine.NoSurge || t.o.Lost || i >= 0 && !t.o.Workloads[i].Known && !t.o.Workloads[i].Paused {
		return
	}
	in := statemachine.SurgeInput{At: t.at}
	if i >= 0 {
		w := &t.o.Workloads[i]
		in.Needed, in.Replaced = !w.Paused && w.needs() > 0, t.isSucceeded(w, s)
		in.Blocked = t.s.TargetCap.On || w.Quota || w.Infeasible && w.placed() <= w.needs() && !t.fitsExistingNodes(w, 0) ||
			t.s.Move.Step != statemachine.NoMove && t.s.Move.Workload == w.Key
		for j := range w.Pods {
			if p := &w.Pods[j]; p.UID == s.Pod {
				in.Exists, in.Marked = true, p.DeletionCost.Value == surgeCost
				in.Threatened = t.disruption(p) != explain.CauseNone
			}
		}
	}
	s.Advance(&in)
}

// readyElsewhere returns the number of ready replicas on nodes that neither the provider nor Karpenter is about to remove.
func (a *analysis) readyElsewhere(w *Workload) (n int32) {
	for j := range w.Pods {
		if a.servesOn(&w.Pods[j]) {
			n++
		}
	}
	return n
}

// servesOn reports whether a pod is ready on a node that neither the provider nor Karpenter is about to remove.
func (a *analysis) servesOn(p *Pod) bool {
	return p.Ready && a.node(p) != nil && !a.endangered(p) && a.disruption(p) == explain.CauseNone
}

// isSucceeded reports whether the replica that the surge replaces can be deleted, because enough replicas are ready on other nodes. If more
// than one replica of the workload must be replaced, the first successor is enough, because surges replace them one after the other.
func (a *analysis) isSucceeded(w *Workload, s *statemachine.Surge) bool {
	ready := a.readyElsewhere(w)
	return ready >= w.needs() || ready > s.Others && slices.ContainsFunc(w.Pods, func(p Pod) bool {
		return statemachine.Stamp(p.Since) > s.Since && a.servesOn(&p)
	})
}

// disruption returns why Karpenter is about to disrupt the node of a pod voluntarily, or CauseNone. The rule addAtRisk handles nodes that
// the provider takes.
func (a *analysis) disruption(p *Pod) explain.Cause {
	n := a.node(p)
	switch {
	case n == nil, n.Notice, n.Deleting && !n.Voluntary:
		return explain.CauseNone
	case n.Drifted && (n.Voluntary || n.Disrupted || a.replacesDrifted(p.Pool, n)):
		return explain.CauseDrifted
	case n.Voluntary, n.Disrupted:
		return explain.CauseDisrupted
	}
	return explain.CauseNone
}

// replacesDrifted reports whether Karpenter may choose a drifted node now: the node has no annotation karpenter.sh/do-not-disrupt, and no
// budget of its NodePool is 0 at this time.
func (a *analysis) replacesDrifted(pool int, n *Node) bool {
	v := &a.o.Pools[pool]
	return !n.DoNotDisrupt && !statemachine.BlocksDisruption(v.Budgets.Value, statemachine.ReasonDrifted) && !v.isQuiet(a.now)
}

// startSurges starts surges. It begins with the workload after the workload whose surge began last, so that each workload gets a surge
// even if the surges of other workloads fail repeatedly.
func (t *tick) startSurges() {
	first := t.workload(t.s.LastSurge) + 1
	for i := range t.o.Workloads {
		t.startSurge((first + i) % len(t.o.Workloads))
	}
}

// startSurge starts a surge for the workload with index i if one of its replicas is about to be evicted and a successor can get a node.
func (t *tick) startSurge(i int) {
	w := &t.o.Workloads[i]
	needs := w.needs()
	if needs < 1 || needs > fewReplicas || int32(len(w.Pods)) != needs || w.size() != 1 || t.d.Advice[i] != NoAdvice {
		return
	}
	old := t.surgeVictim(w)
	if old == nil || t.readyElsewhere(w) >= needs || !t.maySurge(w) {
		return
	}
	s := t.s.freeSurge()
	if s == nil {
		return
	}
	t.s.LastSurge = w.Key
	*s = statemachine.Surge{Step: statemachine.SurgeAsked, Workload: w.Key, Pod: old.UID, Node: t.node(old).Name, Cause: t.disruption(old),
		Size: needs + 1, Others: t.readyElsewhere(w), Until: t.at + t.surgeLimit(w).Milliseconds()}
	for j := range w.Pods {
		s.Since = max(s.Since, statemachine.Stamp(w.Pods[j].Since))
	}
}

// surgeVictim returns a ready replica whose node Karpenter is about to disrupt, or nil. The owner of the replica must be a ReplicaSet:
// gpuscaler sets a pod deletion cost so that the old replica is deleted and not its successor, and only the ReplicaSet controller uses
// this cost. A replica whose deletion cost another manager has set is skipped.
func (a *analysis) surgeVictim(w *Workload) *Pod {
	for j := range w.Pods {
		p := &w.Pods[j]
		if p.Ready && p.Owner == OwnerReplicaSet && (p.DeletionCost.Value == "" || p.DeletionCost.Ours) && a.disruption(p) != explain.CauseNone {
			return p
		}
	}
	return nil
}

// maySurge reports whether the workload may have one more replica and this replica would get a node: demand is known, no limit, cap or
// full NodePool applies, no pod waits for a node, and no other rule adds or moves replicas. If the autoscaler reports that it can add no
// node for a replica, existing nodes must have enough free units.
func (t *tick) maySurge(w *Workload) bool {
	if !w.Known || w.Paused || w.Quota || w.Claims || w.Claimed || w.Bounded && w.Room < 1 || t.o.Lost || t.leaving {
		return false
	}
	if t.s.TargetCap.On || t.s.ShortSince != 0 || t.s.Move.Step != statemachine.NoMove || t.s.surgeOf(w.Key, "") != nil {
		return false
	}
	return t.allowsSurge() && t.placesSuccessor(w.podGPUs()) && (!w.Infeasible || t.fitsExistingNodes(w, w.podGPUs()))
}

// allowsSurge reports whether fewer surges run than one for each surgeNodes of the group's nodes, and fewer than MaxRunningSurges. One
// surge is always allowed.
func (t *tick) allowsSurge() bool {
	nodes := 0
	for i := range t.views() {
		nodes += t.pools[i].nodes
	}
	return t.s.runningSurges() < min(max(1, nodes/surgeNodes), statemachine.MaxRunningSurges)
}

// placesSuccessor reports whether a pod of the given size would get a node that Karpenter is not about to disrupt. It is false if a drifted
// node has space for the pod, because kube-scheduler could use that node.
func (t *tick) placesSuccessor(size int64) (places bool) {
	for i := range t.views() {
		v := &t.o.Pools[i]
		if !v.Exists {
			continue
		}
		for j := range v.Nodes {
			n := &v.Nodes[j]
			if !n.hasSpace(size, t.now) {
				continue
			}
			if n.Drifted && !n.DoNotDisrupt {
				return false
			}
			places = true
		}
		places = places || t.closedBy(i) == explain.CauseNone && t.pools[i].room >= size
	}
	return places
}

// adviseSurge adds the additional replica of a surge to the advice, and the reason for it.
func (t *tick) adviseSurge(s *statemachine.Surge) {
	i := t.workload(s.Workload)
	if s.Step == statemachine.NoSurge || i < 0 {
		return
	}
	w := &t.o.Workloads[i]
	if extra := s.Extra(w.needs()); extra > 0 && t.d.Advice[i].Surge == 0 {
		t.d.Advice[i].Surge = extra
	}
	if s.Step == statemachine.SurgeResting && !s.Expired {
		return
	}
	t.because(explain.Reason{Rule: explain.RuleSurge, Pool: -1, Name: s.Workload, Node: s.Node, Cause: s.Cause,
		A: float64(s.Step - statemachine.SurgeAsked), Until: statemachine.Instant(s.Until)})
}

// isReplaced reports whether a surge replaces the pod. A resting surge counts too: its pod keeps the deletion cost by which a new leader
// recognizes that the workload had a surge.
func (t *tick) isReplaced(p *Pod) bool {
	return p.UID != "" && t.disruption(p) != explain.CauseNone && t.s.surgeOf("", p.UID) != nil
}

// surgeEnd returns the end of the time limit of the surge that replaces the pod, in Unix milliseconds; 0: no surge replaces the pod.
// Until this time, the startup shield of the group protects the pod, so that Karpenter does not evict it before its successor is ready.
func (t *tick) surgeEnd(p *Pod) int64 {
	if !t.isReplaced(p) {
		return 0
	}
	s := t.s.surgeOf("", p.UID)
	if s.Step == statemachine.SurgeResting || s.Until < statemachine.Stamp(p.Since) {
		return 0
	}
	return s.Until
}
