package capacity

import "time"

// Override is one field of a NodePool that is ours at present, for people.
type Override struct {
	Pool            string
	Field           Field
	Resource        string // of FieldLimit
	Value, Original Value
	Owner           string // field manager that had it before us; "": nobody
	Rule            Rule   // who wants it
	Since           time.Time
	Until           time.Time // when it ends by itself, also if we die; zero: a rule ends it
	Releasing       bool      // it goes back; the cluster does not show it yet
}

// Name is the field as a path below spec.
func (n *Override) Name() string { return n.Field.Name(n.Resource) }

// Path returns the path of the field in the NodePool.
func (n *Override) Path() Path { return n.Field.Path(n.Resource) }

// Overrides appends what is held on the group's NodePools, in their order.
func (s *State) Overrides(into []Override) []Override {
	if s.group == nil {
		return into
	}
	for i := range min(len(s.group.Pools), MaxPools) {
		p := &s.pools[i]
		for f := range numFields {
			n := &p.nudges[f]
			if !n.on {
				continue
			}
			shown := Override{Pool: s.group.Pools[i].Name, Field: f, Resource: s.resource(f), Value: n.to, Original: n.original,
				Owner: n.owner, Rule: n.rule, Since: instant(n.since), Releasing: n.releasing}
			if f == FieldBudgets {
				shown.Until = instant(max(p.hold.empty, p.hold.under))
			}
			into = append(into, shown)
		}
	}
	return into
}
