package coverage

import "github.com/gpuscaler/gpuscaler/e2e/simulate/schedule"

// States of the controller. Several states can be current at the same time.
const (
	NoLeader      = "none"
	Leads         = "leads"
	ShutsDown     = "shuts down"
	LeaderPaused  = "leader paused"
	LeaderCut     = "cut off"
	WritePending  = "write pending"
	SecondRelease = "2nd release"

	InForce       = "in force"
	Edited        = "edited, unread"
	Invalid       = "invalid"
	Hold          = "mode hold"
	GroupRemoved  = "group removed"
	GroupsRemoved = "no group"

	NoOverride   = "no override"
	Overridden   = "overridden"
	Restoring    = "being restored"
	NewerRecord  = "newer record"
	OtherRecord  = "of 2nd release"
	NoConsent    = "no consent"
	OwnersEdited = "edited by owner"

	AtZero  = "at zero"
	Paused  = "workload paused"
	Missing = "signal missing"
	Capped  = "target capped"
)

// Dimension is a list of states that describe one aspect of the controller. Each dimension has its own table.
type Dimension struct {
	Name   string
	States []string
}

// Dimensions contains all states. The phases have the names that statemachine.Phase prints, and the rules have the names that package
// explain prints.
var Dimensions = []Dimension{
	{"leader", []string{NoLeader, Leads, ShutsDown, LeaderPaused, LeaderCut, WritePending, SecondRelease}},
	{"policy files", []string{InForce, Edited, Invalid, Hold, GroupRemoved, GroupsRemoved}},
	{"phase of a group", []string{"prefer spot", "fallback", "probing", "returning"}},
	{"rule of a group", []string{"schedule", "spot wait timeout", "move", "zero limit", "no zero limit", "consolidation freeze"}},
	{"rule of a group, continued", []string{"startup shield", "scale-in packing", "nodes at risk", "CapacityConstrained", "on-demand base",
		"buffer"}},
	{"overrides of a NodePool", []string{NoOverride, Overridden, Restoring, NewerRecord, OtherRecord, NoConsent, OwnersEdited}},
	{"workload", []string{AtZero, Paused, Missing, Capped}},
}

// unreachable contains the states that cannot occur in the simulation, with the reason.
var unreachable = map[string]string{
	"on-demand base": "the groups of the simulation have no onDemandBase",
	"buffer":         "the model of the API server has no CapacityBuffers",
}

type pair struct {
	state string
	kind  schedule.Kind
}

// impossible contains the pairs of a state and a fault in which the fault has no effect, with the reason.
var impossible = map[pair]string{
	{GroupsRemoved, schedule.GroupRemoved}: "both groups are removed already",
	{InForce, schedule.GroupAdded}:         "both groups exist already",
}

// reason returns why a fault cannot occur in a state, or "" if it can occur.
func reason(state string, kind schedule.Kind) string {
	if why, known := unreachable[state]; known {
		return why
	}
	return impossible[pair{state, kind}]
}
