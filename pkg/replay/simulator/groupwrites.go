package simulator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// completed is the channel that Act returns. It is closed, because writes to the simulated API server complete immediately.
var completed = func() <-chan struct{} { c := make(chan struct{}); close(c); return c }()

// Act implements engine.Nodes. It patches the simulated NodePools and sets the annotations of the simulated pods.
func (g groups) Act(_ *capacity.Group, actions []capacity.Action) <-chan struct{} {
	for _, a := range actions {
		switch a := a.(type) {
		case capacity.NodePoolPatch:
			g.w.pool(a.Pool).patch(a)
		case capacity.PodAnnotation:
			g.w.mark(a)
		}
	}
	return completed
}

// patch sets the restored fields of the NodePool to the values of their owners, and then sets the overrides of the group.
func (p *pool) patch(a capacity.NodePoolPatch) {
	u := p.overridable
	u.record = a.Record
	for _, c := range a.Changes {
		if c.Restore {
			u.fields[c.Path().Pointer()] = nodepool.FieldView{Value: c.To, Owner: c.Owner}
		}
	}
	for _, c := range a.Overrides {
		u.fields[c.Path().Pointer()] = nodepool.FieldView{Value: c.To, Ours: true}
	}
	p.reread()
}

// reread updates the simulated NodePool from its overridable fields.
func (p *pool) reread() {
	u, c, w := p.overridable, &p.config, p.w
	text := func(name string) string { return strings.Trim(string(u.fields[name].Value), `"`) }
	c.Limit = nil
	if n, err := strconv.ParseInt(text(limitOf(u.resource)), 10, 64); err == nil {
		c.Limit = &n
	}
	if n, err := strconv.ParseInt(text(weightField), 10, 32); err == nil {
		c.Weight = int32(n)
	}
	c.ConsolidateAfter = Never
	if d, err := time.ParseDuration(text(afterField)); err == nil {
		c.ConsolidateAfter = d
	}
	c.OnlyWhenEmpty = text(policyField) == "WhenEmpty"
	c.Budgets = budgetsOf(string(u.fields[budgetsField].Value), w)
	slices.SortStableFunc(w.nodes.byWeight, func(a, b *pool) int {
		return cmp.Or(cmp.Compare(b.config.Weight, a.config.Weight), cmp.Compare(b.config.Name, a.config.Name))
	})
}

// mark sets an annotation of a replica that still exists.
func (w *Simulator) mark(a capacity.PodAnnotation) {
	var id int32
	var gen uint32
	if _, err := fmt.Sscanf(a.UID, "%d-%d", &id, &gen); err != nil || int(id) >= len(w.replicas) || w.replicas[id].gen != gen {
		return
	}
	r := w.replicas[id]
	if a.Kind == capacity.DoNotDisrupt {
		r.shield = a.Value
		return
	}
	r.cost, _ = strconv.Atoi(a.Value) // for a removed annotation, Atoi returns 0
}

// budget is an entry of spec.disruption.budgets.
type budget struct {
	Nodes    string   `json:"nodes"`
	Reasons  []string `json:"reasons,omitempty"`
	Schedule string   `json:"schedule,omitempty"`
	Duration string   `json:"duration,omitempty"`
}

func budgetsText(list []Budget) string {
	if len(list) == 0 {
		list = []Budget{{Percent: 10}}
	}
	var out []budget
	for _, b := range list {
		entry := budget{Nodes: strconv.Itoa(int(b.Nodes))}
		if b.Percent > 0 {
			entry.Nodes = strconv.Itoa(int(b.Percent)) + "%"
		}
		if b.Reason != "" {
			entry.Reasons = []string{b.Reason}
		}
		out = append(out, entry)
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // not possible, because strings and numbers can always be encoded
	}
	return string(text)
}

// budgetsOf parses the output of budgetsText. It also parses the entries that a consolidation freeze adds, which apply for a limited time.
func budgetsOf(text string, w *Simulator) (out []Budget) {
	var list []budget
	if json.Unmarshal([]byte(text), &list) != nil {
		return nil
	}
	for _, entry := range list {
		b := Budget{}
		share, isShare := strings.CutSuffix(entry.Nodes, "%")
		n, _ := strconv.ParseInt(share, 10, 32)
		if b.Nodes = int32(n); isShare && n > 0 {
			b.Nodes, b.Percent = 0, int32(n)
		}
		var minute, hour, day, month int
		if n, _ := fmt.Sscanf(entry.Schedule, "%d %d %d %d *", &minute, &hour, &day, &month); n == 4 {
			length, _ := time.ParseDuration(entry.Duration)
			from := time.Date(w.Time().UTC().Year(), time.Month(month), day, hour, minute, 0, 0, time.UTC)
			b.From, b.Until = from.Sub(w.config.Start), max(1, from.Add(length).Sub(w.config.Start))
		}
		for _, b.Reason = range entry.Reasons {
			out = append(out, b)
		}
		if len(entry.Reasons) == 0 {
			out = append(out, b)
		}
	}
	return out
}
