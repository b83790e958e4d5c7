package explain

import "time"

// Reason describes the effect of one rule in a tick. The method Text renders it.
type Reason struct {
	Rule  Rule
	Pool  int8   // index in Group.Pools; -1: the group
	Name  string // name of a workload, a window, or a field
	Node  string `json:",omitempty"` // name of a node
	Cause Cause
	A, B  float64   // numbers whose meaning the comment of the rule describes
	Until time.Time // zero: no end is known
}
