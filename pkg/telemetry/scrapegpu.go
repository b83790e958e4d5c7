package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
)

// exporterScraper reads the DCGM exporters on the nodes where the workloads' pods run.
type exporterScraper struct {
	*scraper
	pods      engine.Pods
	nodes     Nodes
	exporters func() []engine.Pod
}

const exporterPort = 9400

func newExporterScraper(g *group, o *Options) (*exporterScraper, error) {
	s, err := newScraper(&g.source, exporterPort, "/metrics", fetch.Guard{Loopback: o.LoopbackPods})
	if err != nil {
		return nil, err
	}
	return &exporterScraper{scraper: s, pods: o.Pods, nodes: o.Nodes, exporters: exporterPods(&g.source, o)}, nil
}

func (e *exporterScraper) fetch(ctx context.Context, slots []slot, out []scaling.Reading) (int64, error) {
	b := newGPUBatch(newRoster(slots, e.pods, false), e.nodes)
	if len(b.roster.rows) == 0 {
		return 0, errNoPods
	}
	rows := map[string][]int{} // by node
	for i := range b.roster.rows {
		node := b.roster.rows[i].pod.Node
		rows[node] = append(rows[node], i)
	}
	var targets []target
	for _, p := range e.exporters() {
		if here := rows[p.Node]; len(here) > 0 {
			targets = append(targets, target{pod: p, take: func(s *exposition.Sample) { b.onPage(p.Node, s) }, done: func(_ time.Time, err error) {
				for _, i := range here {
					if err != nil {
						b.roster.rows[i].fault = causeOf(err)
					}
				}
			}})
		}
	}
	if len(targets) == 0 {
		return 0, errors.New("no exporter runs where the pods do")
	}
	wanted := map[string]bool{}
	for _, name := range dcgmNames(slots) {
		wanted[name] = true
	}
	n := e.round(ctx, targets, wanted)
	b.readings(out)
	return n, nil
}

// exporterPods lists the pods that a data source selects by label.
func exporterPods(d *policy.DataSource, o *Options) func() []engine.Pod {
	return func() []engine.Pod {
		if o.Exporters == nil {
			return nil
		}
		return o.Exporters.Exporters(d.PodsIn, d.PodLabels)
	}
}
