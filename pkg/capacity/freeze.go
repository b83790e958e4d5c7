package capacity

import "time"

const (
	// freezeAhead is how long before known demand consolidation stops, on top of the lead time: Karpenter validates a command for 15
	// seconds and then executes it, so a minute is the minimum.
	freezeAhead = 2 * time.Minute
	// freezeEmpty is how long after the start of known demand empty nodes are kept at most, until the demand has arrived.
	freezeEmpty = 15 * time.Minute
	// freezeInUse is how long after the start replicas are not moved. It ends later than freezeEmpty: after a quiet time every node is
	// consolidatable at once, and the end of the first step shows which nodes are in use.
	freezeInUse = time.Hour
	// maxFreeze bounds an entry: after a crash of gpuscaler, Karpenter consolidates again at its end.
	maxFreeze = 2 * time.Hour
	// freezeRenewal is how long before its end an entry is written again.
	freezeRenewal = 5 * time.Minute
)

// freeze is the state machine of the consolidation freeze of one NodePool: two budget entries that end by themselves. No node is removed
// for being empty until Empty, and none for being underutilized until InUse. Drift and repair continue. Stamps are full minutes.
//
//	state     event          next      action
//	thawed    freezeExtends  frozen    writes entries that start now
//	frozen    freezeExtends  frozen    writes entries with a later end
//	frozen    freezeNeeded   frozen    keeps the entries, also where demand needs less
//	frozen    freezeUnused   thawed    restores the owner's list
//	thawed    freezeUnused   thawed    nothing
type freeze struct {
	Start int64 `json:"start,omitempty"`
	Empty int64 `json:"empty,omitempty"`
	InUse int64 `json:"inUse,omitempty"`
}

type freezeState uint8

const (
	thawed freezeState = iota
	frozen
	numFreezeStates
)

type freezeEvent uint8

const (
	freezeUnused  freezeEvent = iota // no rule needs a freeze
	freezeNeeded                     // a rule needs a freeze, and entries that exist last long enough
	freezeExtends                    // a rule needs more than an entry that does not exist or ends within freezeRenewal
	numFreezeEvents
)

// freezeTransitions is the next state for each state and event.
var freezeTransitions = [numFreezeStates][numFreezeEvents]freezeState{
	thawed: {freezeUnused: thawed, freezeNeeded: frozen, freezeExtends: frozen},
	frozen: {freezeUnused: thawed, freezeNeeded: frozen, freezeExtends: frozen},
}

// freezeInput is everything that the state machine reads: now, and until when nodes are needed; 0: not at all.
type freezeInput struct{ at, empty, inUse int64 }

func (h *freeze) state() freezeState {
	if *h == (freeze{}) {
		return thawed
	}
	return frozen
}

// event returns what the input means in the current state.
func (h *freeze) event(in freezeInput) freezeEvent {
	soon := in.at + freezeRenewal.Milliseconds()
	switch {
	case in.empty == 0 && in.inUse == 0:
		return freezeUnused
	case in.empty > h.Empty && h.Empty < soon || in.inUse > h.InUse && h.InUse < soon:
		return freezeExtends
	}
	return freezeNeeded
}

// step returns the next state, and changes the entries where it must.
func (h *freeze) step(in freezeInput) freezeState {
	latest := in.at + maxFreeze.Milliseconds()
	in.empty, in.inUse = upToMinute(min(in.empty, latest)), upToMinute(min(in.inUse, latest))
	event := h.event(in)
	next := freezeTransitions[h.state()][event]
	switch {
	case next == thawed:
		*h = freeze{}
	case event == freezeExtends:
		minute := time.Minute.Milliseconds()
		*h = freeze{Start: in.at - (in.at%minute+minute)%minute, Empty: max(in.empty, h.Empty), InUse: max(in.inUse, h.InUse)}
	}
	return next
}

// freezeConsolidation stops consolidation while known demand arrives, and on the on-demand NodePool while replicas return.
func (t *tick) freezeConsolidation() {
	empty, inUse := t.knownDemandUntil()
	for i := range t.views() {
		if !t.o.Pools[i].Exists {
			continue
		}
		in := freezeInput{t.at, empty, inUse}
		returning := t.s.Spot.Phase == Probing || t.s.Spot.Phase == Returning
		if returning && t.paired() && i == t.onDemand && !t.g.Advisory {
			in.inUse = max(in.inUse, t.at+freezeInUse.Milliseconds())
		}
		t.freezePool(i, in, inUse > 0)
	}
}

// knownDemandUntil returns until when empty nodes and nodes in use are needed for known demand; 0: not at all.
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

// arrived reports whether as many units are ready as a span needs.
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

// peak reports whether known demand is arriving; nothing is tried meanwhile.
func (a *analysis) peak() bool {
	_, inUse := a.knownDemandUntil()
	return inUse > 0
}

// freezePool updates the entries of one NodePool and requests the list of budgets with them.
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
	if !knownDemand {
		r.B = 1
	}
	t.because(r)
}

// frozenBudgets returns the owner's budgets with the entries of the freeze.
func (t *tick) frozenBudgets(pool int) (list Value, ok bool) {
	p, list := &t.s.Pools[pool], t.original(pool, FieldBudgets)
	if p.frozen.of == p.Freeze && p.frozen.list == list && p.frozen.with != "" {
		return p.frozen.with, true
	}
	with, ok := p.Freeze.with(list)
	p.frozen.of, p.frozen.list, p.frozen.with = p.Freeze, list, with
	return with, ok
}

func upToMinute(at int64) int64 {
	minute := time.Minute.Milliseconds()
	if at <= 0 {
		return at
	}
	return (at + minute - 1) / minute * minute
}
