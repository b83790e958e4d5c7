package statemachine

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
)

// Evidence counts recent refused launches and lost nodes of one or several spot NodePools. It shows whether the provider has spot capacity.
type Evidence struct {
	Refused, Attempts int  // launches that were refused for lack of capacity, and all launches, within RefusalWindow
	Lost, Nodes       int  // nodes that the provider took, and all nodes, within LossWindow
	Replaced          bool // whether on-demand launched a node within RefusalWindow, which then runs the pods for which spot had no capacity
	Open              bool // whether one of several NodePools may launch nodes and has not failed, so that spot may have capacity
}

const (
	// RefusalWindow is the time for which refused launches are counted.
	RefusalWindow = 5 * time.Minute
	// LossWindow is the time for which lost nodes are counted.
	LossWindow = 15 * time.Minute
	// ShortageMinimum is how long pods must have waited before refused launches count as a failure. After one refusal, Karpenter excludes
	// only the refused offering (instance type and zone) and tries the next offering.
	ShortageMinimum = time.Minute
	minRefusals     = 3
	// minLosses is the minimum number of lost nodes. At least half of the nodes must also be lost: the loss of 3 of 60 nodes is normal.
	minLosses = 2
	// MaxEvidence is the maximum number of NodeClaims that are counted. Karpenter can create a hundred NodeClaims per minute, and three
	// refusals are sufficient evidence.
	MaxEvidence = 32
)

// Failure returns the cause if the evidence is sufficient to stop using spot, and otherwise CauseNone. The parameter short is how long
// pods have waited without a node that will run them.
func (e Evidence) Failure(short time.Duration) explain.Cause {
	switch {
	case e.Open:
		return explain.CauseNone
	case (short >= ShortageMinimum || e.Replaced) && e.Refused >= minRefusals && 2*e.Refused >= e.Attempts:
		return explain.CauseRefused
	case e.ManyLost():
		return explain.CauseLost
	}
	return explain.CauseNone
}

// ManyLost reports whether the provider took at least half of the nodes, and at least minLosses.
func (e *Evidence) ManyLost() bool { return e.Lost >= minLosses && 2*e.Lost >= e.Nodes }
