package explain

import "time"

// Reason is the effect of one rule. Its Text is rendered on demand.
type Reason struct {
	Rule  Rule
	Pool  int8   // index in Group.Pools; -1: the group
	Name  string // name of a workload, a window, or a field
	Node  string `json:",omitempty"` // name of a node
	Cause Cause
	A, B  float64   // numbers whose meaning depends on the rule and is described in its comment
	Until time.Time // zero: no end is known
}
