package scrape

import (
	"context"
	"errors"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/pods"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// Exporters reads the pages of the DCGM exporters on the nodes on which the workloads' pods run. It implements source.Fetcher.
type Exporters struct {
	*scraper
	source  *policy.DataSource
	cluster pods.Cluster
}

const exporterPort = 9400

// NewExporters returns a fetcher for the exporters that a data source selects by label.
func NewExporters(d *policy.DataSource, c pods.Cluster, g fetch.Guard) (*Exporters, error) {
	s, err := newScraper(d, exporterPort, "/metrics", g)
	if err != nil {
		return nil, err
	}
	return &Exporters{scraper: s, source: d, cluster: c}, nil
}

// Fetch implements source.Fetcher.
func (e *Exporters) Fetch(ctx context.Context, requests []source.Request, out []scaling.Reading) (int64, error) {
	g := pods.NewGPUs(pods.New(requests, e.cluster.Pods, false), e.cluster.Nodes)
	if len(g.List.Rows) == 0 {
		return 0, source.ErrNoPods
	}
	rows := map[string][]int{} // rows of the pods on each node
	for i := range g.List.Rows {
		node := g.List.Rows[i].Pod.Node
		rows[node] = append(rows[node], i)
	}
	var targets []target
	for _, p := range selectedPods(e.source, e.cluster) {
		if here := rows[p.Node]; len(here) > 0 {
			targets = append(targets, target{pod: p, take: func(s *exposition.Sample) { g.AddFromPage(p.Node, s) }, done: func(err error) {
				for _, i := range here {
					if err != nil {
						g.List.Rows[i].Fault = source.CauseOf(err)
					}
				}
			}})
		}
	}
	if len(targets) == 0 {
		return 0, errors.New("no DCGM exporter runs on the nodes of the pods")
	}
	series := map[string]bool{}
	for _, name := range pods.DCGMNames(requests) {
		series[name] = true
	}
	n := e.round(ctx, targets, series)
	g.Readings(out)
	return n, nil
}

// selectedPods lists the pods that a data source selects by label.
func selectedPods(d *policy.DataSource, c pods.Cluster) []engine.Pod {
	if c.Exporters == nil {
		return nil
	}
	return c.Exporters.Exporters(d.PodsIn, d.PodLabels)
}
