package evaluate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Gate is a condition on the results of gpuscaler's run, such as "slo<0.99". If the condition is true, the exit code of the command is 1.
type Gate struct {
	Text     string
	subject  *subject
	relation string
	limit    float64
}

// GateResult is a gate with the value of the run, and whether the gate failed.
type GateResult struct {
	Gate   string  `json:"gate"`          // text of the gate
	Found  float64 `json:"found"`         // value of the run
	Failed bool    `json:"failed"`        // the condition is true or cannot be checked, so the exit code is 1
	Why    string  `json:"why,omitempty"` // set if the value does not exist; the gate then fails
}

// subject is a quantity of the results that a gate can limit.
type subject struct {
	name, unit string
	of         func(*Report) *float64 // returns the value, or nil if the report has none
}

// always returns a function that reads a value of gpuscaler's run, for values that every run has.
func always(f func(*Run) float64) func(*Report) *float64 {
	return func(r *Report) *float64 { v := f(&r.Runs[0]); return &v }
}

var subjects = []subject{
	{"slo", "a share, 0..1; for several workloads the lowest", always(func(r *Run) float64 { return r.OnTime })},
	{"missed", "a count of workloads that miss their SLO", always(func(r *Run) float64 { return float64(r.Missed()) })},
	{"cost", "$", always(func(r *Run) float64 { return r.Cost })},
	{"cost/lb", "a ratio to the request-level bound; needs --bound", func(r *Report) *float64 { return r.Runs[0].CostOverRequest }},
	{"cost/fluid", "a ratio to the fluid bound; needs --bound", func(r *Report) *float64 { return r.Runs[0].CostOverFluid }},
	{"saved", "a share, 0..1, of a static fleet's cost; needs a scenario with a static fleet", func(r *Report) *float64 { return r.Saved }},
	{"gpu-hours", "hours", always(func(r *Run) float64 { return r.GPUHours })},
	{"utilization", "a share, 0..1", always(func(r *Run) float64 { return r.Utilization })},
	{"productive", "a share, 0..1", always(func(r *Run) float64 { return r.Productive })},
	{"p50", "a wait: 10s", always(func(r *Run) float64 { return r.Wait.P50 })},
	{"p95", "a wait: 10s", always(func(r *Run) float64 { return r.Wait.P95 })},
	{"p99", "a wait: 10s", always(func(r *Run) float64 { return r.Wait.P99 })},
	{"max", "a wait: 10s", always(func(r *Run) float64 { return r.Wait.Max })},
	{"replica-starts", "a count", always(func(r *Run) float64 { return float64(r.ReplicaStarts) })},
	{"scale-events", "a count", always(func(r *Run) float64 { return float64(r.ScaleUps + r.ScaleDowns) })},
	{"requeued", "a count", always(func(r *Run) float64 { return float64(r.Requeued) })},
}

// GateNames returns the names that a gate can check, with their units.
func GateNames() []string {
	var out []string
	for _, s := range subjects {
		out = append(out, s.name+" ("+s.unit+")")
	}
	return out
}

// ParseGate parses NAME RELATION NUMBER, where RELATION is one of < <= > >=. Waits are durations, and shares may be percentages.
func ParseGate(text string) (Gate, error) {
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		return Gate{}, fmt.Errorf("gate %q: want NAME<NUMBER, with <, <=, > or >=, e.g. slo<0.99", text)
	}
	name, rest := strings.TrimSpace(text[:at]), text[at:]
	relation := rest[:1]
	if strings.HasPrefix(rest[1:], "=") {
		relation = rest[:2]
	}
	g := Gate{Text: text, relation: relation}
	for i := range subjects {
		if subjects[i].name == name {
			g.subject = &subjects[i]
		}
	}
	if g.subject == nil {
		return Gate{}, fmt.Errorf("gate %q: unknown name %q; use one of %s", text, name, strings.Join(GateNames(), ", "))
	}
	limit, err := g.subject.parse(strings.TrimSpace(rest[len(relation):]))
	if err != nil {
		return Gate{}, fmt.Errorf("gate %q: %w", text, err)
	}
	g.limit = limit
	return g, nil
}

// parse parses a limit in the unit of the subject.
func (s *subject) parse(text string) (float64, error) {
	if strings.HasPrefix(s.unit, "a wait") {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, fmt.Errorf("%q: want a wait such as 10s or 1m30s", text)
		}
		return d.Seconds(), nil
	}
	scale := 1.0
	if share := strings.HasPrefix(s.unit, "a share"); share && strings.HasSuffix(text, "%") {
		text, scale = strings.TrimSuffix(text, "%"), 0.01
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v*scale >= 0) || v*scale > 1e15 {
		return 0, fmt.Errorf("%q: want %s", text, s.unit)
	}
	if v *= scale; strings.HasPrefix(s.unit, "a share") && v > 1 {
		return 0, fmt.Errorf("%q: want %s; 99%% is 0.99", text, s.unit)
	}
	return v, nil
}

// Check evaluates the gates on the run of the policy, stores the results in the report, and returns how many failed.
func (r *Report) Check(gates []Gate) (failed int) {
	for _, g := range gates {
		result := GateResult{Gate: g.Text}
		found := g.subject.of(r)
		if found == nil { // a gate whose value does not exist fails
			result.Failed, result.Why = true, "the value does not exist: the run misses the SLO, or the report has no lower bound or no static fleet"
		} else {
			result.Found, result.Failed = *found, g.holds(*found)
		}
		if result.Failed {
			failed++
		}
		r.Gates = append(r.Gates, result)
	}
	return failed
}

func (g *Gate) holds(v float64) bool {
	switch g.relation {
	case "<":
		return v < g.limit
	case "<=":
		return v <= g.limit
	case ">":
		return v > g.limit
	}
	return v >= g.limit
}

// number formats a value with the fewest digits that identify it.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
