package capacity

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// Override describes one field of a NodePool that is overridden at present, for messages and pages.
type Override struct {
	Pool            string
	Field           nodepool.Field
	Resource        string // resource of a FieldLimit
	Value, Original nodepool.Value
	Owner           string       // field manager that owned the field before the override; "": none
	Rule            explain.Rule // the rule that overrides the field
	Since           time.Time
	Until           time.Time // when the override ends by itself, also after a crash; zero: a rule ends it
	Releasing       bool      // the owner's value is being restored, and the cluster does not show it yet
}

// Name returns the field for messages: its path below spec.
func (o *Override) Name() string { return o.Field.Name(o.Resource) }

// Path returns the path of the field in the NodePool.
func (o *Override) Path() nodepool.Path { return o.Field.Path(o.Resource) }

// Overrides appends the current overrides of the group's NodePools to into, ordered by NodePool and field, and returns it.
func (s *State) Overrides(into []Override) []Override {
	if s.group == nil {
		return into
	}
	for i := range min(len(s.group.Pools), nodepool.MaxPools) {
		p := &s.Pools[i]
		for f := range nodepool.NumFields {
			o := &p.Overrides[f]
			if !o.On {
				continue
			}
			shown := Override{Pool: s.group.Pools[i].Name, Field: f, Resource: s.resource(f), Value: o.To, Original: o.Original,
				Owner: o.Owner, Rule: o.Rule, Since: statemachine.Instant(o.Since), Releasing: o.Releasing}
			if f == nodepool.FieldBudgets {
				shown.Until = statemachine.Instant(max(p.Freeze.Empty, p.Freeze.InUse))
			}
			into = append(into, shown)
		}
	}
	return into
}
