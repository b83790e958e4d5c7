package capacity

import (
	"cmp"
	"time"
)

const (
	// freezeAhead is how long before known demand consolidation is frozen, in addition to the group's lead time. Karpenter validates a
	// consolidation command for 15 seconds before it executes the command, so freezeAhead must be at least a minute.
	freezeAhead = 2 * time.Minute
	// freezeEmpty is the longest time after the start of known demand for which empty nodes are kept. They are kept only until enough
	// replicas for the demand are ready.
	freezeEmpty = 15 * time.Minute
	// freezeInUse is how long after the start of known demand nodes with pods are kept. It is longer than freezeEmpty. After a time without
	// changes, Karpenter may consolidate every node at once. When the protection of empty nodes ends, nodes with pods must therefore still
	// be protected.
	freezeInUse = time.Hour
	// maxFreeze is the longest duration of a freeze entry. If gpuscaler crashes, Karpenter can consolidate again when the entry ends.
	maxFreeze = 2 * time.Hour
	// freezeRenewal: a freeze entry that ends within this time gets a later end, if a rule needs it for longer.
	freezeRenewal = 5 * time.Minute
	// freezeHandover is how long a freeze overlaps with the protection before it and after it. Weights and budgets may be fields of
	// different NodePools, which cannot be written in one request, and a write may fail. During a gap of a second, Karpenter can choose
	// every on-demand node for replacement.
	freezeHandover = time.Minute
)

// freeze is the state machine of the consolidation freeze of one NodePool. A freeze consists of two entries in the list of budgets, each
// with a fixed end. Until the time Empty, Karpenter removes no node for being empty. Until the time InUse, it removes no node for being
// underutilized. Drift and node repair continue. All times are full minutes.
//
//	state     event          next      action
//	thawed    freezeExtends  frozen    writes entries that start now
//	thawed    freezeOver     thawed    nothing
//	frozen    freezeExtends  frozen    writes entries with a later end
//	frozen    freezeNeeded   frozen    keeps the entries, also where demand needs less
//	frozen    freezeUnused   ending    keeps the entries for freezeHandover
//	ending    freezeUnused   ending    keeps the entries
//	ending    freezeNeeded   frozen    keeps the entries
//	ending    freezeExtends  frozen    writes entries with a later end
//	any       freezeOver     thawed    restores the owner's list
//
// The state ending makes the freeze continuous: it does not end if a rule stops needing it and another rule, or the same one, needs it
// again shortly afterwards.
type freeze struct {
	Start  int64 `json:"start,omitempty"`
	Empty  int64 `json:"empty,omitempty"`
	InUse  int64 `json:"inUse,omitempty"`
	Unused int64 `json:"unused,omitempty"` // time since which no rule needs the freeze; 0: a rule needs it
}

// persistent returns the part of a freeze that is stored in the record.
func (h freeze) persistent() freeze {
	h.Unused = 0
	return h
}

type freezeState uint8

const (
	thawed freezeState = iota
	frozen
	ending // no rule needs the freeze, and its entries are kept
	numFreezeStates
)

type freezeEvent uint8

const (
	freezeUnused  freezeEvent = iota // no rule needs a freeze
	freezeOver                       // no rule has needed the freeze for freezeHandover, or its entries have ended
	freezeNeeded                     // a rule needs a freeze, and entries that exist last long enough
	freezeExtends                    // a rule needs more than an entry that does not exist or ends within freezeRenewal
	numFreezeEvents
)

// freezeTransitions is the next state for each state and event.
var freezeTransitions = [numFreezeStates][numFreezeEvents]freezeState{
	thawed: {freezeUnused: thawed /* does not occur */, freezeOver: thawed, freezeNeeded: frozen, freezeExtends: frozen},
	frozen: {freezeUnused: ending, freezeOver: thawed, freezeNeeded: frozen, freezeExtends: frozen},
	ending: {freezeUnused: ending, freezeOver: thawed, freezeNeeded: frozen, freezeExtends: frozen},
}

// freezeInput is the input of the state machine: the current time, and the times until which empty nodes and nodes with pods must be kept.
// 0 means that they need not be kept.
type freezeInput struct{ at, empty, inUse int64 }

func (h *freeze) state() freezeState {
	switch {
	case *h == (freeze{}):
		return thawed
	case h.Unused != 0:
		return ending
	}
	return frozen
}

// event returns the event that the input causes in the current state.
func (h *freeze) event(in freezeInput) freezeEvent {
	soon := in.at + freezeRenewal.Milliseconds()
	switch {
	case in.empty == 0 && in.inUse == 0:
		if max(h.Empty, h.InUse) <= in.at || h.Unused != 0 && in.at-h.Unused >= freezeHandover.Milliseconds() {
			return freezeOver
		}
		return freezeUnused
	case in.empty > h.Empty && h.Empty < soon || in.inUse > h.InUse && h.InUse < soon:
		return freezeExtends
	}
	return freezeNeeded
}

// step applies the event of the input to the freeze and returns its next state.
func (h *freeze) step(in freezeInput) freezeState {
	latest := in.at + maxFreeze.Milliseconds()
	in.empty, in.inUse = upToMinute(min(in.empty, latest)), upToMinute(min(in.inUse, latest))
	event := h.event(in)
	next := freezeTransitions[h.state()][event]
	switch {
	case next == thawed:
		*h = freeze{}
	case event == freezeUnused:
		h.Unused = cmp.Or(h.Unused, in.at)
	case event == freezeNeeded:
		h.Unused = 0
	case event == freezeExtends:
		minute := time.Minute.Milliseconds()
		*h = freeze{Start: in.at - (in.at%minute+minute)%minute, Empty: max(in.empty, h.Empty), InUse: max(in.inUse, h.InUse)}
	}
	return next
}

// freezeConsolidation freezes consolidation of all NodePools while known demand arrives. While spot is probed and while replicas return to
// spot, it freezes consolidation of the on-demand NodePools.
func (t *tick) freezeConsolidation() {
	empty, inUse := t.knownDemandUntil()
	for i := range t.views() {
		if !t.o.Pools[i].Exists {
			continue
		}
		in := freezeInput{t.at, empty, inUse}
		if t.freezeForSpot && t.onDemand.has(i) {
			in.inUse = max(in.inUse, t.at+freezeInUse.Milliseconds())
		}
		t.freezePool(i, in, inUse > 0)
	}
}

// knownDemandUntil returns the stamps until which known demand needs empty nodes and nodes with pods to be kept. 0 means that it does not
// need them.
func (a *analysis) knownDemandUntil() (empty, inUse int64) {
	if !a.g.ConsolidationFreeze {
		return 0, 0
	}
	for i := range a.o.Ahead {
		s := &a.o.Ahead[i]
		from, until := stamp(s.From), stamp(s.Until)
		if s.GPUs <= 0 || a.at < from-(a.g.LeadTime+freezeAhead).Milliseconds() || a.at >= until {
			continue
		}
		if end := min(from+freezeEmpty.Milliseconds(), until); a.at < end && !(a.at >= from && a.arrived(s)) {
			empty = max(empty, end)
		}
		if end := min(from+freezeInUse.Milliseconds(), until); a.at < end {
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
		ready += int64(a.ready(w)) * units(w.GPUs)
	}
	return ready >= s.GPUs
}

// peak reports whether known demand starts soon or started recently. In this time gpuscaler neither probes spot nor moves replicas. The
// time ends freezeHandover before the freeze for known demand does, so that a probe can extend the freeze before it ends.
func (a *analysis) peak() bool {
	_, inUse := a.knownDemandUntil()
	return inUse > a.at+freezeHandover.Milliseconds()
}

// freezePool updates the freeze of one NodePool. If the freeze is needed, it requests a list of budgets that contains its entries.
func (t *tick) freezePool(pool int, in freezeInput, knownDemand bool) {
	h := &t.s.Pools[pool].Freeze
	if h.step(in) == thawed {
		return
	}
	list, ok := t.frozenBudgets(pool)
	if !ok {
		t.find(Finding{Kind: FindUnreadable, Pool: int8(pool), Field: FieldBudgets, Rule: RuleConsolidationFreeze})
		return
	}
	t.request(pool, FieldBudgets, list, RuleConsolidationFreeze)
	r := Reason{Rule: RuleConsolidationFreeze, Pool: int8(pool), Until: instant(max(h.Empty, h.InUse))}
	if h.Empty > t.at {
		r.A = float64(h.Empty / 1000)
	}
	switch {
	case h.Unused != 0:
		r.A, r.B, r.Until = 0, 2, instant(h.Unused+freezeHandover.Milliseconds())
	case !knownDemand:
		r.B = 1
	}
	t.because(r)
}

// frozenBudgets returns the owner's budgets with the entries of the freeze. ok is false if the owner's list cannot be parsed or is full.
func (t *tick) frozenBudgets(pool int) (list Value, ok bool) {
	p, list := &t.s.Pools[pool], t.original(pool, FieldBudgets)
	if p.frozen.of == p.Freeze.persistent() && p.frozen.list == list && p.frozen.with != "" {
		return p.frozen.with, true
	}
	with, ok := p.Freeze.with(list)
	p.frozen.of, p.frozen.list, p.frozen.with = p.Freeze.persistent(), list, with
	return with, ok
}

func upToMinute(at int64) int64 {
	minute := time.Minute.Milliseconds()
	if at <= 0 {
		return at
	}
	return (at + minute - 1) / minute * minute
}
