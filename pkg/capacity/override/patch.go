package override

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// Patch changes fields of one NodePool's spec, and the annotation that records the overrides. The caller writes Overrides and Record
// together in one server-side apply with force. Overrides contains every override, because an apply gives up the ownership of each field
// that it omits. Overrides does not contain a Change with Restore: the caller writes such a change first, and makes the previous field
// manager the owner of the field again.
type Patch struct {
	Changes   []Change // the changed fields; empty if only the record changes
	Overrides []Change // every override of the NodePool after the patch, including unchanged overrides
	Record    string   // the record annotation after the patch; "": the patch removes it
	Loosens   bool     // the patch allows more nodes, so it is applied before the targets are served
	// KeepsRecord is true if the patch only restores fields: the caller does not apply Overrides and Record. The NodePool then has a record
	// of a newer version of gpuscaler, and an apply would remove fields that this version does not know.
	KeepsRecord bool
}

// Change is the change of one field in a Patch.
type Change struct {
	Field    nodepool.Field
	Resource string // resource of a FieldLimit
	From, To nodepool.Value
	Original nodepool.Value // the owner's value, which is restored later
	Owner    string         // field manager that owned the field before the override; "": none
	Restore  bool           // To is the owner's value: the override ends
	Rule     explain.Rule   // the rule that requests the value
}

// Name returns the field for messages: its path below spec.
func (c Change) Name() string { return c.Field.Name(c.Resource) }

// Path returns the path of the field in the NodePool.
func (c Change) Path() nodepool.Path { return c.Field.Path(c.Resource) }

// Why returns the rule that sets the field, or a text that the owner's value is restored.
func (c Change) Why() string {
	if c.Restore {
		return "owner's value restored"
	}
	return c.Rule.String()
}

// Current describes one overridden field of a NodePool, for messages and pages.
type Current struct {
	Pool            string
	Field           nodepool.Field
	Resource        string // resource of a FieldLimit
	Value, Original nodepool.Value
	Owner           string       // field manager that owned the field before the override; "": none
	Rule            explain.Rule // the rule that overrides the field
	Since           time.Time
	Until           time.Time // when the override ends by itself, even after a crash; zero: only a rule ends it
	Releasing       bool      // the owner's value is being restored, and the cache does not contain it yet
}

// Name returns the field for messages: its path below spec.
func (c *Current) Name() string { return c.Field.Name(c.Resource) }

// Path returns the path of the field in the NodePool.
func (c *Current) Path() nodepool.Path { return c.Field.Path(c.Resource) }

// Current appends the current overrides of a NodePool to the slice into, ordered by field, and returns the slice. The parameter name is
// the name of the NodePool.
func (s *State) Current(into []Current, pool int, name string) []Current {
	p := &s.Pools[pool]
	for f := range nodepool.NumFields {
		o := &p.Overrides[f]
		if !o.On {
			continue
		}
		c := Current{Pool: name, Field: f, Resource: s.Limits.Resource(f), Value: o.To, Original: o.Original, Owner: o.Owner, Rule: o.Rule,
			Since: statemachine.Instant(o.Since), Releasing: o.Releasing}
		if f == nodepool.FieldBudgets {
			c.Until = statemachine.Instant(max(p.Freeze.Empty, p.Freeze.InUse))
		}
		into = append(into, c)
	}
	return into
}
