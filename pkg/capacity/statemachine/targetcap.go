package statemachine

import "time"

const (
	firstTargetCap = 2 * time.Minute
	// MaxTargetCap is the longest duration of a cap.
	MaxTargetCap = 30 * time.Minute
)

// TargetCap is the state machine that stops targets from requesting replicas for which no NodePool provides a node:
//
//	state       event         next        action
//	uncapped    shortage      capped      doubles the time of the cap, from firstTargetCap to MaxTargetCap
//	capped      nodesArrive   uncapped    keeps the level
//	capped      demandMet     uncapped    resets the level
//	capped      retryDue      uncapped    keeps the level: the full target is tried once
//	uncapped    demandMet     uncapped    resets the level
//	any other combination                 nothing
//
// A target cap is not stored on the NodePools: a new leader starts without a cap.
type TargetCap struct {
	On    bool  `json:"on"`
	Level uint8 `json:"level,omitempty"`
	Since int64 `json:"since,omitempty"` // start of the current cap, or end of the last cap if the targets are not capped
	Until int64 `json:"until,omitempty"`
}

type targetCapEvent uint8

const (
	targetCapUnchanged targetCapEvent = iota
	shortage                          // no NodePool provides a node, and pods have waited for ShortageMinimum
	nodesArrive                       // a NodePool provides nodes again
	// no pod waits for a node; in the state uncapped, the last cap must also have ended more than MaxTargetCap ago
	demandMet
	retryDue // the duration of the cap is over
	numTargetCapEvents
)

// TargetCapInput contains everything that the state machine reads in a tick.
type TargetCapInput struct {
	At      int64
	Group   string
	Closed  bool          // no NodePool provides a node
	Waiting bool          // whether pods wait for which no node is being launched
	Short   time.Duration // how long these pods have waited
}

// Event returns the event that the input causes in the current state.
func (c *TargetCap) Event(in TargetCapInput) targetCapEvent {
	switch {
	case !in.Waiting && (c.On || c.Level > 0 && in.At-c.Since > MaxTargetCap.Milliseconds()):
		return demandMet
	case !in.Waiting:
		return targetCapUnchanged
	case !in.Closed && c.On:
		return nodesArrive
	case !in.Closed:
		return targetCapUnchanged
	case c.On && in.At >= c.Until:
		return retryDue
	case !c.On && in.Short >= ShortageMinimum:
		return shortage
	}
	return targetCapUnchanged
}

// Apply changes the state as the table of TargetCap defines. An event that the table does not list for the current state has no effect.
func (c *TargetCap) Apply(event targetCapEvent, in TargetCapInput) {
	switch {
	case event == demandMet:
		*c = TargetCap{Since: in.At}
	case event == nodesArrive && c.On:
		*c = TargetCap{Level: c.Level, Since: in.At}
	case event == retryDue && c.On:
		c.On, c.Since = false, in.At
	case event == shortage && !c.On:
		c.On, c.Since, c.Level = true, in.At, min(c.Level+1, MaxLevel)
		c.Until = in.At + jittered(min(firstTargetCap<<(c.Level-1), MaxTargetCap), in.Group, c.Level).Milliseconds()
	}
}
