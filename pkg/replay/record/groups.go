package record

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
)

// groupLine is the recorded form of one version of a capacity group.
type groupLine struct {
	ID        int             `json:"id"`
	Group     *capacity.Group `json:"group"` // without its schedules, which are encoded separately because of the names of their time zones
	Schedules []groupSchedule `json:"schedules,omitempty"`
}

type groupSchedule struct {
	capacity.Schedule
	Zone string
}

func groupLineOf(id int, g *capacity.Group) *groupLine {
	copied := *g
	copied.Schedules = nil
	l := &groupLine{ID: id, Group: &copied}
	for _, s := range g.Schedules {
		l.Schedules = append(l.Schedules, groupSchedule{s, zoneOf(&s.Window)})
		l.Schedules[len(l.Schedules)-1].Window.Location = nil
	}
	return l
}

// compiled returns the capacity group of the line with its schedules. It returns an error if a time zone is unknown.
func (l *groupLine) compiled() (*capacity.Group, error) {
	if l.Group == nil {
		return nil, fmt.Errorf("a group line without a group")
	}
	g := *l.Group
	for _, s := range l.Schedules {
		zone, err := time.LoadLocation(s.Zone)
		if err != nil {
			return nil, err
		}
		s.Window.Location = zone
		g.Schedules = append(g.Schedules, s.Schedule)
	}
	return capacity.NewGroup(g)
}

// zoneOf returns the name of the time zone of a window.
func zoneOf(w *calendar.Window) string {
	if w.Location == nil {
		return "UTC"
	}
	return w.Location.String()
}

// groupEntry contains the changes of one group in a tick.
type groupEntry struct {
	Key      string          `json:"k"`
	Group    int             `json:"p,omitempty"`
	Orphaned bool            `json:"orphaned,omitempty"` // the group was removed; its overrides are restored
	Fresh    bool            `json:"fresh,omitempty"`    // the decision started without earlier state
	State    json.RawMessage `json:"state,omitempty"`    // state before this tick; only at the start of a segment (file)
	// parts of the observation that differ from the previous tick; key: name of the part
	Seen     map[string]json.RawMessage `json:"seen,omitempty"`
	Decision json.RawMessage            `json:"d,omitempty"`
}

// groupKey returns the key of a group, which is its name. The key of an orphaned NodePool is nodepool/NAME, which cannot be the name of a
// group.
func groupKey(t *engine.GroupTick) string {
	if t.Orphaned {
		return "nodepool/" + t.Group.Pools[0].Name
	}
	return t.Group.Name
}

// whole is one part of a recorded observation: the lengths of the lists of the observation, and the fields that belong to no single
// NodePool or workload.
type whole struct {
	Pools                  []int // number of nodes of each NodePool
	Workloads              int
	Lost, Shields, Buffers bool
	Ahead                  []capacity.Span
}

// node is a capacity.Node whose price can be NaN or infinite, which JSON numbers cannot represent.
type node struct {
	capacity.Node
	Hourly number
}

const (
	partWhole  = "whole"
	partOthers = "others"
)

func partPool(i int) string     { return fmt.Sprint("pool.", i) }
func partNode(i, j int) string  { return fmt.Sprintf("node.%d.%d", i, j) }
func partWorkload(i int) string { return fmt.Sprint("workload.", i) }

// seen calls f with the name and the JSON of each part of an observation.
func seen(o *capacity.Observation, f func(part string, text json.RawMessage)) error {
	var failed error
	part := func(name string, v any) {
		text, err := json.Marshal(v)
		if err != nil {
			failed = err
		}
		f(name, text)
	}
	w := whole{Workloads: len(o.Workloads), Lost: o.Lost, Shields: o.Shields, Buffers: o.Buffers, Ahead: o.Ahead}
	for i := range o.Pools {
		w.Pools = append(w.Pools, len(o.Pools[i].Nodes))
	}
	part(partWhole, &w)
	part(partOthers, o.UnmanagedPods)
	for i := range o.Pools {
		v := o.Pools[i]
		v.Nodes = nil
		part(partPool(i), &v)
		for j, n := range o.Pools[i].Nodes {
			part(partNode(i, j), &node{n, number(n.Hourly)})
		}
	}
	for i := range o.Workloads {
		part(partWorkload(i), &o.Workloads[i])
	}
	return failed
}

// size decodes the part "whole" of a recorded observation into o: it sets the fields that are not lists and the lengths of the lists. The
// elements that the lists already contain do not change.
func size(o *capacity.Observation, text json.RawMessage) error {
	var w whole
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	if len(w.Pools) > nodepool.MaxPools || w.Workloads < 0 || w.Workloads > mostParts {
		return fmt.Errorf("%d pools and %d workloads", len(w.Pools), w.Workloads)
	}
	o.Pools, o.Workloads = sized(o.Pools, len(w.Pools)), sized(o.Workloads, w.Workloads)
	for i, nodes := range w.Pools {
		if nodes < 0 || nodes > mostParts {
			return fmt.Errorf("%d nodes", nodes)
		}
		o.Pools[i].Nodes = sized(o.Pools[i].Nodes, nodes)
	}
	o.Lost, o.Shields, o.Buffers, o.Ahead = w.Lost, w.Shields, w.Buffers, w.Ahead
	return nil
}

// learn decodes one part of a recorded observation, other than "whole", into o. The lengths of the lists of o must have been set by size.
func learn(o *capacity.Observation, part string, text json.RawMessage) error {
	if part == partOthers {
		o.UnmanagedPods = nil
		return json.Unmarshal(text, &o.UnmanagedPods)
	}
	var i, j int
	if n, _ := fmt.Sscanf(part, "pool.%d", &i); n == 1 && i >= 0 && i < len(o.Pools) {
		p := &o.Pools[i]
		nodes := p.Nodes
		*p = capacity.PoolView{}
		err := json.Unmarshal(text, p)
		p.Nodes = nodes
		return err
	}
	if n, _ := fmt.Sscanf(part, "node.%d.%d", &i, &j); n == 2 && i >= 0 && i < len(o.Pools) && j >= 0 && j < len(o.Pools[i].Nodes) {
		var read node
		err := json.Unmarshal(text, &read)
		read.Node.Hourly = float64(read.Hourly)
		o.Pools[i].Nodes[j] = read.Node
		return err
	}
	if n, _ := fmt.Sscanf(part, "workload.%d", &i); n == 1 && i >= 0 && i < len(o.Workloads) {
		o.Workloads[i] = capacity.Workload{}
		return json.Unmarshal(text, &o.Workloads[i])
	}
	return fmt.Errorf("an observation has no part %q", part)
}

// mostParts is the maximum number of workloads of a group, and of nodes of a NodePool, in a recording.
const mostParts = 1 << 17

func sized[T any](s []T, n int) []T {
	for len(s) < n {
		s = append(s, *new(T))
	}
	return s[:n]
}

// groupDecision is the JSON form of a capacity.Decision. It contains the types of the actions, and NaN and infinite numbers as text.
type groupDecision struct {
	capacity.Decision
	Actions, Plan []groupAction
	Reasons       []groupReason
	Findings      []groupFinding
}

type groupAction struct {
	Kind string
	capacity.Action
}

type groupReason struct {
	explain.Reason
	A, B number
}

type groupFinding struct {
	explain.Finding
	Hourly number
}

// encodeGroup returns the JSON of a decision for the recording. Verify compares the recorded JSON with the JSON of the recomputed decision
// byte for byte.
func encodeGroup(d *capacity.Decision) (json.RawMessage, error) {
	out := groupDecision{Decision: *d, Actions: actionsOf(d.Actions), Plan: actionsOf(d.Plan)}
	if len(d.Advice) == 0 {
		out.Advice = nil // so that an empty slice and nil have the same JSON
	}
	for _, r := range d.Reasons {
		r.Until = r.Until.UTC()
		out.Reasons = append(out.Reasons, groupReason{r, number(r.A), number(r.B)})
	}
	for _, f := range d.Findings {
		f.Until = f.Until.UTC()
		out.Findings = append(out.Findings, groupFinding{f, number(f.Hourly)})
	}
	return json.Marshal(&out)
}

func actionsOf(all []capacity.Action) (out []groupAction) {
	for _, a := range all {
		out = append(out, groupAction{fmt.Sprintf("%T", a), a})
	}
	return out
}

// decideGroup computes the decision of a group from the group, the observation and the time in t, and stores it in d. It updates the
// decision state s.
func decideGroup(s *capacity.State, t *engine.GroupTick, d *capacity.Decision) {
	if t.Orphaned {
		s.Release(t.Group, t.Observation, t.At, d)
	} else {
		s.Decide(t.Group, t.Observation, t.At, d)
	}
}
