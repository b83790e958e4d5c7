package statemachine

import (
	"cmp"
	"time"
)

const (
	// maxFreeze is the longest duration of a freeze entry. If gpuscaler crashes, Karpenter can consolidate again when the entry ends.
	maxFreeze = 2 * time.Hour
	// FreezeRenewal is the remaining time below which a freeze entry gets a later end, if a rule needs the freeze for longer.
	FreezeRenewal = 5 * time.Minute
	// FreezeHandover is how long two protections of on-demand nodes (a consolidation freeze, or the weights of a fallback) overlap when one
	// replaces the other. The overlap is necessary because weights and budgets can be on different NodePools, which cannot be written in
	// one request, and because a write can fail. During a gap of a second, Karpenter can choose every on-demand node for replacement.
	FreezeHandover = time.Minute
)

// Freeze is the state machine of the consolidation freeze of one NodePool. A freeze consists of two entries in the list of budgets, each
// with a fixed end. Until the time Empty, Karpenter removes no node for being empty. Until the time InUse, it removes no node for being
// underutilized. Drift and node repair continue. All times are full minutes.
//
//	state     event          next      action
//	Thawed    freezeExtends  Frozen    writes entries that start now
//	Thawed    freezeOver     Thawed    nothing
//	Frozen    freezeExtends  Frozen    writes entries with a later end
//	Frozen    freezeNeeded   Frozen    keeps the entries, even if a shorter freeze is needed
//	Frozen    freezeUnused   Ending    keeps the entries for FreezeHandover
//	Ending    freezeUnused   Ending    keeps the entries
//	Ending    freezeNeeded   Frozen    keeps the entries
//	Ending    freezeExtends  Frozen    writes entries with a later end
//	any       freezeOver     Thawed    restores the owner's list
//
// The state Ending prevents interruptions of a freeze: if no rule needs the freeze any more, but a rule needs it again within
// FreezeHandover, the freeze continues.
type Freeze struct {
	Start  int64 `json:"start,omitempty"`
	Empty  int64 `json:"empty,omitempty"`
	InUse  int64 `json:"inUse,omitempty"`
	Unused int64 `json:"unused,omitempty"` // time since which no rule needs the freeze; 0: a rule needs the freeze
}

// Persistent returns the part of a freeze that the record annotation of the NodePool contains.
func (h Freeze) Persistent() Freeze {
	h.Unused = 0
	return h
}

// FreezeState is a state of Freeze.
type FreezeState uint8

// Values of FreezeState.
const (
	Thawed FreezeState = iota
	Frozen
	Ending // no rule needs the freeze, but its entries are kept
	numFreezeStates
)

type freezeEvent uint8

const (
	freezeUnused freezeEvent = iota // no rule needs a freeze
	freezeOver                      // no rule has needed the freeze for FreezeHandover, or its entries have ended
	freezeNeeded                    // a rule needs a freeze, and the existing entries last long enough
	// a rule needs the freeze for longer than an entry lasts, and this entry ends within FreezeRenewal or does not exist
	freezeExtends
	numFreezeEvents
)

// freezeTransitions contains the next state for each state and event.
var freezeTransitions = [numFreezeStates][numFreezeEvents]FreezeState{
	Thawed: {freezeUnused: Thawed /* does not occur */, freezeOver: Thawed, freezeNeeded: Frozen, freezeExtends: Frozen},
	Frozen: {freezeUnused: Ending, freezeOver: Thawed, freezeNeeded: Frozen, freezeExtends: Frozen},
	Ending: {freezeUnused: Ending, freezeOver: Thawed, freezeNeeded: Frozen, freezeExtends: Frozen},
}

// FreezeInput is the input of the state machine: the current time, and the times until which empty nodes and nodes with pods must be
// kept, all in Unix milliseconds. 0 means that such nodes need not be kept.
type FreezeInput struct{ At, Empty, InUse int64 }

// State returns the state of the machine.
func (h *Freeze) State() FreezeState {
	switch {
	case *h == (Freeze{}):
		return Thawed
	case h.Unused != 0:
		return Ending
	}
	return Frozen
}

// event returns the event that the input causes in the current state.
func (h *Freeze) event(in FreezeInput) freezeEvent {
	soon := in.At + FreezeRenewal.Milliseconds()
	switch {
	case in.Empty == 0 && in.InUse == 0:
		if max(h.Empty, h.InUse) <= in.At || h.Unused != 0 && in.At-h.Unused >= FreezeHandover.Milliseconds() {
			return freezeOver
		}
		return freezeUnused
	case in.Empty > h.Empty && h.Empty < soon || in.InUse > h.InUse && h.InUse < soon:
		return freezeExtends
	}
	return freezeNeeded
}

// Step applies the event of the input to the freeze and returns its next state.
func (h *Freeze) Step(in FreezeInput) FreezeState {
	latest := in.At + maxFreeze.Milliseconds()
	in.Empty, in.InUse = UpToMinute(min(in.Empty, latest)), UpToMinute(min(in.InUse, latest))
	event := h.event(in)
	next := freezeTransitions[h.State()][event]
	switch {
	case next == Thawed:
		*h = Freeze{}
	case event == freezeUnused:
		h.Unused = cmp.Or(h.Unused, in.At)
	case event == freezeNeeded:
		h.Unused = 0
	case event == freezeExtends:
		minute := time.Minute.Milliseconds()
		*h = Freeze{Start: in.At - (in.At%minute+minute)%minute, Empty: max(in.Empty, h.Empty), InUse: max(in.InUse, h.InUse)}
	}
	return next
}

// UpToMinute rounds a time in Unix milliseconds up to a whole minute.
func UpToMinute(at int64) int64 {
	minute := time.Minute.Milliseconds()
	if at <= 0 {
		return at
	}
	return (at + minute - 1) / minute * minute
}
