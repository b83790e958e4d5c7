package pods

import (
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
)

// Gauges collects the gauges of one engine (model server) for each pod, from a query or from scraped pages.
type Gauges struct {
	List    *List
	profile *exposition.Profile
	width   int
	cells   []exposition.Cell    // one cell for each row of the list and each metric, in the order of the rows
	metrics []*exposition.Metric // metric of each request of the poll, in the same order
}

// NewGauges returns a Gauges without samples for the rows of a list.
func NewGauges(p *exposition.Profile, l *List) *Gauges {
	g := &Gauges{List: l, profile: p, width: l.mostRequests()}
	g.cells = make([]exposition.Cell, len(l.Rows)*g.width)
	for i := range l.Workloads {
		for j := range l.Workloads[i].Requests {
			m, _ := p.Lookup(l.Workloads[i].Requests[j].Source.Metric)
			g.metrics = append(g.metrics, m)
		}
	}
	return g
}

// Metric returns the metric of a request. The parameter is the index of the request in the poll.
func (g *Gauges) Metric(request int) *exposition.Metric { return g.metrics[request] }

// SeriesNames returns the names of the series that the requests need, without duplicates.
func (g *Gauges) SeriesNames() []string {
	var out []string
	seen := map[string]bool{}
	for _, m := range g.metrics {
		for _, s := range m.From {
			if !seen[s.Name] {
				seen[s.Name] = true
				out = append(out, s.Name)
			}
		}
	}
	return out
}

// Add adds a sample of the pod in the given row of the list.
func (g *Gauges) Add(row int32, s *exposition.Sample) {
	w := g.List.of(int(row))
	for j := range w.Requests {
		g.cells[int(row)*g.width+j].Add(g.profile, g.metrics[w.Offset+j], s)
	}
}

// Readings writes the reading of each request of the poll to out, at the index of the request. totals adds the queues of terminated pods.
func (g *Gauges) Readings(out []scaling.Reading, totals *TotalsRound) {
	totals.list = g.List
	for i := range g.List.Workloads {
		w := &g.List.Workloads[i]
		for j := range w.Requests {
			m := g.metrics[w.Offset+j]
			r := g.List.combine(w, &w.Requests[j], func(row int) exposition.Value { return g.cells[row*g.width+j].Value(m) })
			if w.Requests[j].Signal.Kind == scaling.Total {
				totals.fill(w, &w.Requests[j], &r)
			}
			out[w.Offset+j] = r
		}
	}
}
