package capacity

import (
	"strconv"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// buffer writes a CapacityBuffer for each workload with known demand that starts soon, in clusters that support CapacityBuffers. The
// CapacityBuffer keeps nodes for the replicas that the target does not include yet.
func (t *tick) buffer() {
	var total float64
	var from int64
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		needed := int32(0)
		for j := range t.o.Ahead {
			s := &t.o.Ahead[j]
			if s.Workload == w.Key && t.needsBuffer(s) && s.Replicas > max(w.Current, 0)+needed {
				needed = s.Replicas - max(w.Current, 0)
				from = statemachine.Stamp(s.From)
			}
		}
		total += float64(needed)
		t.setBuffer(w, needed)
	}
	if total > 0 {
		t.because(explain.Reason{Rule: explain.RuleBuffer, Pool: -1, A: total, Until: statemachine.Instant(from)})
	}
}

// needsBuffer reports whether a CapacityBuffer must keep nodes now for the known demand of the span s. If the cluster does not support
// CapacityBuffers, needsBuffer adds a finding.
func (t *tick) needsBuffer(s *Span) bool {
	if !t.g.Buffer || t.g.Advisory || t.leaving {
		return false
	}
	near := t.now.Add(t.lead()+liftLead).After(s.From) && t.now.Before(s.From.Add(emptyFreezeDuration)) && t.now.Before(s.Until)
	if near && !t.o.Buffers {
		t.find(explain.Finding{Kind: explain.FindUnsupported, Pool: -1, Name: s.Workload, Rule: explain.RuleBuffer})
	}
	return near && t.o.Buffers
}

func (t *tick) setBuffer(w *Workload, replicas int32) {
	in := statemachine.BufferInput{Current: w.Buffer, Needed: replicas}
	if in.Action() == statemachine.KeepBuffer {
		return
	}
	in.Sent = t.s.Sent.Recently("buffer "+w.Key, 0, strconv.Itoa(int(replicas)), t.at)
	if in.Action() != statemachine.KeepBuffer {
		t.d.Actions = append(t.d.Actions, Buffer{Workload: w.Key, Replicas: replicas})
	}
}

const (
	// freezeLead is the time before the start of known demand at which the consolidation freeze begins, in addition to the group's lead time.
	// Karpenter validates a consolidation command for 15 seconds before it executes the command, so freezeLead must be at least a minute.
	freezeLead = 2 * time.Minute
	// emptyFreezeDuration is the longest time after the start of known demand for which empty nodes are kept. Their protection ends earlier if
	// enough replicas for the demand are ready.
	emptyFreezeDuration = 15 * time.Minute
	// inUseFreezeDuration is the time after the start of known demand for which nodes with pods are kept. It is longer than
	// emptyFreezeDuration. After a time without changes, Karpenter may consolidate every node at once. When the protection of empty nodes
	// ends, nodes with pods must therefore still be protected.
	inUseFreezeDuration = time.Hour
)

// freezeConsolidation prevents the consolidation of nodes by Karpenter for two reasons:
//
//   - Known demand of a schedule or a forecast: all NodePools are frozen, so that Karpenter does not remove the nodes that the demand
//     needs. The freeze begins before the demand starts (by freezeLead and the lead time). Empty nodes are kept for at most
//     emptyFreezeDuration after the start, and nodes with pods for at most inUseFreezeDuration.
//   - A probe of spot or a return to spot: the nodes with pods of the on-demand NodePools are frozen, so that Karpenter does not replace
//     all of them by spot nodes at once. This freeze begins shortly before the fallback ends.
func (t *tick) freezeConsolidation() {
	if t.g.SelectsNodes() {
		return // Karpenter does not manage the nodes; checkFleet reports how a user keeps them
	}
	empty, inUse := t.knownDemandUntil()
	for i := range t.views() {
		if !t.o.Pools[i].Exists {
			continue
		}
		in := statemachine.FreezeInput{At: t.at, Empty: empty, InUse: inUse}
		if t.freezeForSpot && t.onDemand.has(i) {
			in.InUse = max(in.InUse, t.at+inUseFreezeDuration.Milliseconds())
		}
		t.freezePool(i, in, inUse > 0)
	}
}

// knownDemandUntil returns the times until which nodes must be kept for known demand, in Unix milliseconds: the result empty for empty
// nodes, and inUse for nodes with pods. A result of 0 means that such nodes need not be kept.
func (a *analysis) knownDemandUntil() (empty, inUse int64) {
	if !a.g.ConsolidationFreeze {
		return 0, 0
	}
	for i := range a.o.Ahead {
		s := &a.o.Ahead[i]
		from, until := statemachine.Stamp(s.From), statemachine.Stamp(s.Until)
		if s.GPUs <= 0 || a.at < from-(a.lead()+freezeLead).Milliseconds() || a.at >= until {
			continue
		}
		if end := min(from+emptyFreezeDuration.Milliseconds(), until); a.at < end && !(a.at >= from && a.arrived(s)) {
			empty = max(empty, end)
		}
		if end := min(from+inUseFreezeDuration.Milliseconds(), until); a.at < end {
			inUse = max(inUse, end)
		}
	}
	return empty, inUse
}

// arrived reports whether the ready replicas have as many GPUs as a span of known demand needs.
func (a *analysis) arrived(s *Span) bool {
	var ready int64
	for i := range a.o.Workloads {
		w := &a.o.Workloads[i]
		if s.Workload != "" && s.Workload != w.Key {
			continue
		}
		ready += int64(a.ready(w)) * nodepool.Units(w.GPUs)
	}
	return ready >= s.GPUs
}

// peak reports whether known demand starts soon or started recently. During this time gpuscaler neither probes spot nor moves replicas.
// The time ends FreezeHandover before the end of the freeze for known demand, so that a probe that begins at that moment can extend the
// freeze without a gap.
func (a *analysis) peak() bool {
	_, inUse := a.knownDemandUntil()
	return inUse > a.at+statemachine.FreezeHandover.Milliseconds()
}

// freezePool updates the freeze of one NodePool. While the freeze is needed, it requests a list of disruption budgets that contains the
// entries of the freeze.
func (t *tick) freezePool(pool int, in statemachine.FreezeInput, knownDemand bool) {
	h := &t.s.Pools[pool].Freeze
	if h.Step(in) == statemachine.Thawed {
		return
	}
	list, ok := t.s.Pools[pool].WithFreeze(t.fields.Original(pool, nodepool.FieldBudgets))
	if !ok {
		t.find(explain.Finding{Kind: explain.FindUnreadable, Pool: int8(pool), Field: nodepool.FieldBudgets,
			Rule: explain.RuleConsolidationFreeze})
		return
	}
	t.fields.Request(pool, nodepool.FieldBudgets, list, explain.RuleConsolidationFreeze)
	r := explain.Reason{Rule: explain.RuleConsolidationFreeze, Pool: int8(pool), Until: statemachine.Instant(max(h.Empty, h.InUse))}
	if h.Empty > t.at {
		r.A = float64(h.Empty / 1000)
	}
	switch {
	case h.Unused != 0:
		r.A, r.B, r.Until = 0, 2, statemachine.Instant(h.Unused+statemachine.FreezeHandover.Milliseconds())
	case !knownDemand:
		r.B = 1
	}
	t.because(r)
}

const (
	// unknownPendingTime is how long a pod must be pending before it counts as demand, if it is unknown whether the pod can be scheduled to
	// the group's NodePools.
	unknownPendingTime = time.Minute
	// liftLead is how long before the start of known demand the zero limit is removed, in addition to the group's lead time. Karpenter
	// takes up to 15 seconds to observe the change.
	liftLead = time.Minute
)

// knownDemandWithin reports whether known demand exists now or starts within d.
func (a *analysis) knownDemandWithin(d time.Duration) bool {
	for i := range a.o.Ahead {
		if s := &a.o.Ahead[i]; s.GPUs > 0 && a.now.Add(d).After(s.From) && a.now.Before(s.Until) {
			return true
		}
	}
	return false
}
