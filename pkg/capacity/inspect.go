package capacity

import "time"

// Override describes one field of a NodePool that is overridden at present, for messages and pages.
type Override struct {
	Pool            string
	Field           Field
	Resource        string // resource of a FieldLimit
	Value, Original Value
	Owner           string // field manager that owned the field before the override; "": none
	Rule            Rule   // the rule that overrides the field
	Since           time.Time
	Until           time.Time // when the override ends by itself, also after a crash; zero: a rule ends it
	Releasing       bool      // the owner's value is being restored, and the cluster does not show it yet
}

// Name returns the field for messages: its path below spec.
func (o *Override) Name() string { return o.Field.Name(o.Resource) }

// Path returns the path of the field in the NodePool.
func (o *Override) Path() Path { return o.Field.Path(o.Resource) }

// Overrides appends the current overrides of the group's NodePools to into, ordered by NodePool and field, and returns it.
func (s *State) Overrides(into []Override) []Override {
	if s.group == nil {
		return into
	}
	for i := range min(len(s.group.Pools), MaxPools) {
		p := &s.Pools[i]
		for f := range numFields {
			o := &p.Overrides[f]
			if !o.On {
				continue
			}
			shown := Override{Pool: s.group.Pools[i].Name, Field: f, Resource: s.resource(f), Value: o.To, Original: o.Original,
				Owner: o.Owner, Rule: o.Rule, Since: instant(o.Since), Releasing: o.Releasing}
			if f == FieldBudgets {
				shown.Until = instant(max(p.Freeze.Empty, p.Freeze.InUse))
			}
			into = append(into, shown)
		}
	}
	return into
}
