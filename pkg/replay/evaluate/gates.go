package evaluate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Gate is a condition on gpuscaler's run that fails a pipeline: "slo<0.99".
type Gate struct {
	Text     string
	subject  *subject
	relation string
	limit    float64
}

// GateResult is a gate with what it found.
type GateResult struct {
	Gate   string  `json:"gate"`          // as it was written
	Found  float64 `json:"found"`         // the number
	Failed bool    `json:"failed"`        // the gate holds, so the pipeline fails
	Why    string  `json:"why,omitempty"` // where there was nothing to compare; the gate has failed then
}

// subject is something that a gate may ask about.
type subject struct {
	name, unit string
	of         func(*Report) *float64 // nil: there is no such number
}

// always is a number that the policy's own run has.
func always(f func(*Run) float64) func(*Report) *float64 {
	return func(r *Report) *float64 { v := f(&r.Runs[0]); return &v }
}

var subjects = []subject{
	{"slo", "a share, 0..1; of several workloads the worst one's", always(func(r *Run) float64 { return r.OnTime })},
	{"missed", "a count of workloads that miss their SLO", always(func(r *Run) float64 { return float64(r.Missed()) })},
	{"cost", "$", always(func(r *Run) float64 { return r.Cost })},
	{"cost/lb", "a ratio to the request-level bound; needs --bound", func(r *Report) *float64 { return r.Runs[0].CostOverRequest }},
	{"cost/fluid", "a ratio to the fluid bound; needs --bound", func(r *Report) *float64 { return r.Runs[0].CostOverFluid }},
	{"saved", "a share, 0..1, of a static fleet's cost; needs a scenario that names one", func(r *Report) *float64 { return r.Saved }},
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

// GateNames are what a gate may ask about, with their units.
func GateNames() []string {
	var out []string
	for _, s := range subjects {
		out = append(out, s.name+" ("+s.unit+")")
	}
	return out
}

// ParseGate reads a gate: NAME RELATION NUMBER, the relation one of < <= > >=. Waits are durations, shares may be percentages.
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
		return Gate{}, fmt.Errorf("gate %q: nothing is called %q; there are %s", text, name, strings.Join(GateNames(), ", "))
	}
	limit, err := g.subject.parse(strings.TrimSpace(rest[len(relation):]))
	if err != nil {
		return Gate{}, fmt.Errorf("gate %q: %w", text, err)
	}
	g.limit = limit
	return g, nil
}

// parse reads a limit in the subject's unit.
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

// Check holds the gates against the policy's own run, and keeps what it found in the report. It answers how many have failed.
func (r *Report) Check(gates []Gate) (failed int) {
	for _, g := range gates {
		result := GateResult{Gate: g.Text}
		found := g.subject.of(r)
		if found == nil { // a gate that cannot be judged must not let a policy through
			result.Failed, result.Why = true, "there is no such number: the run misses the SLO, or no bound or static fleet is there"
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

// number prints a value without more digits than it has.
func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
