package pods

import (
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// GPUs collects the GPU counters of DCGM exporters for each pod, from a query or from scraped pages.
type GPUs struct {
	List   *List
	gpus   []exposition.GPUs // GPUs of the pod in each row of the list, in the same order
	shared *sharedGPUs
}

// NewGPUs returns a GPUs without samples for the rows of a list. If nodes is nil, no node is known to share its GPUs.
func NewGPUs(l *List, nodes Nodes) *GPUs {
	return &GPUs{List: l, gpus: make([]exposition.GPUs, len(l.Rows)), shared: newSharedGPUs(nodes)}
}

// DCGMNames returns the names of the series that the requests need.
func DCGMNames(requests []source.Request) []string {
	var metrics []string
	for i := range requests {
		metrics = append(metrics, requests[i].Source.Metric)
	}
	return exposition.DCGMNames(metrics...)
}

// Add adds a sample of a GPU of the pod in the given row of the list.
func (g *GPUs) Add(row int32, s *exposition.Sample) { g.gpus[row].Add(s) }

// AddHolder records that an exporter reports a pod as a holder of the sample's GPU. If it reports two holders in one scrape, they share the
// GPU.
func (g *GPUs) AddHolder(exporter, holder exposition.Owner, s *exposition.Sample) {
	g.shared.addHolder(exporter, holder, s)
}

// AddFromPage adds a sample from the page of the exporter that runs on a node. It ignores a sample about a pod on another node, because an
// exporter reads only the GPUs of its own node. It also ignores a sample of a GPU that no pod holds.
func (g *GPUs) AddFromPage(node string, s *exposition.Sample) {
	if owner, ok := exposition.GPUOwner(s.Labels); ok {
		g.AddHolder(exposition.Owner{Pod: node}, owner, s)
		g.List.OnNode(owner, node, func(row int32) { g.Add(row, s) })
	}
}

// Readings writes the reading of each request of the poll to out, at the index of the request.
func (g *GPUs) Readings(out []scaling.Reading) {
	for i := range g.List.Workloads {
		w := &g.List.Workloads[i]
		for j := range w.Requests {
			metric := w.Requests[j].Source.Metric
			r := g.List.combine(w, &w.Requests[j], func(row int) exposition.Value { return g.gpus[row].Value(metric) })
			for row := w.first; row < w.end && !r.Shared; row++ {
				r.Shared = g.List.Rows[row].counted && g.shared.has(g.List.Owner(row), &g.List.Rows[row].Pod)
			}
			out[w.Offset+j] = r
		}
	}
}
