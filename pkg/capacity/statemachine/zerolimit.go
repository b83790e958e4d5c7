package statemachine

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
)

// ZeroLimitDelay is how long there must be no demand before the limit is set to 0. Without this delay, a queue that is often empty for
// some minutes would cause two writes to each NodePool each time.
const ZeroLimitDelay = 5 * time.Minute

// ZeroLimit is the state machine of the zero limit, which is a limit of 0 while there is no demand:
//
//	state  event         next
//	any    demandExists  ZeroLimitOff
//	any    noDemand      ZeroLimitPending
//	any    noDemandLong  ZeroLimitOn
//
// noDemandLong can also occur in ZeroLimitOff: a new leader finds the zero limit that the previous leader set, and keeps it.
type ZeroLimit struct {
	Since int64 `json:"since,omitempty"` // time since which there is no demand; 0: demand exists
}

// ZeroLimitState is a state of ZeroLimit.
type ZeroLimitState uint8

// Values of ZeroLimitState.
const (
	ZeroLimitOff     ZeroLimitState = iota // demand exists or is unknown
	ZeroLimitPending                       // there is no demand, but there was demand recently
	ZeroLimitOn                            // the limit is 0
	numZeroLimitStates
)

type zeroLimitEvent uint8

const (
	demandExists zeroLimitEvent = iota // demand exists, or it cannot be excluded that demand exists
	noDemand
	noDemandLong // there has been no demand for ZeroLimitDelay, or there is no demand and the limit is already 0
	numZeroLimitEvents
)

// zeroLimitTransitions contains the next state for each state and event.
var zeroLimitTransitions = [numZeroLimitStates][numZeroLimitEvents]ZeroLimitState{
	ZeroLimitOff:     {demandExists: ZeroLimitOff, noDemand: ZeroLimitPending, noDemandLong: ZeroLimitOn},
	ZeroLimitPending: {demandExists: ZeroLimitOff, noDemand: ZeroLimitPending, noDemandLong: ZeroLimitOn},
	ZeroLimitOn:      {demandExists: ZeroLimitOff, noDemand: ZeroLimitPending, noDemandLong: ZeroLimitOn},
}

// ZeroLimitInput contains everything that the state machine reads in a tick.
type ZeroLimitInput struct {
	At      int64
	Lift    explain.LiftReason
	InForce bool // whether the limit of a NodePool is 0 because this leader or a previous leader set it
}

// state returns the current state. It depends on the time, because ZeroLimitPending becomes ZeroLimitOn after ZeroLimitDelay.
func (z *ZeroLimit) state(in ZeroLimitInput) ZeroLimitState {
	switch {
	case z.Since == 0:
		return ZeroLimitOff
	case in.InForce || in.At >= z.Since+ZeroLimitDelay.Milliseconds():
		return ZeroLimitOn
	}
	return ZeroLimitPending
}

// event returns the event that the input causes.
func (z *ZeroLimit) event(in ZeroLimitInput) zeroLimitEvent {
	switch {
	case in.Lift != explain.NotLifted:
		return demandExists
	case in.InForce || z.Since != 0 && in.At >= z.Since+ZeroLimitDelay.Milliseconds():
		return noDemandLong
	}
	return noDemand
}

// Step applies the event of the input and returns the next state.
func (z *ZeroLimit) Step(in ZeroLimitInput) ZeroLimitState {
	next := zeroLimitTransitions[z.state(in)][z.event(in)]
	switch {
	case next == ZeroLimitOff:
		z.Since = 0
	case z.Since == 0:
		z.Since = in.At
	}
	return next
}
