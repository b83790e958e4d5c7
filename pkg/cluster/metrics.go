package cluster

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/nodepoolwriter"
)

// metrics is what the cluster room tells about itself.
type metrics struct {
	findings     *prometheus.GaugeVec
	activations  *prometheus.CounterVec
	kindsWatched *prometheus.GaugeVec
	nodeWrites   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		findings: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gpuscaler_hpa_findings",
			Help: "HPAs that read our metric and will not follow it exactly, by what is wrong with them.",
		}, []string{"what"}),
		activations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuscaler_activations_total",
			Help: "Writes to /scale between zero and one replica, by direction (up, down) and result (written, outrun, failed).",
		}, []string{"direction", "result"}),
		kindsWatched: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gpuscaler_kind_watched",
			Help: "1 while objects of a kind that comes with a CRD are watched, 0 while the API server does not serve it.",
		}, []string{"group", "kind"}),
		nodeWrites: nodepoolwriter.NewWritesMetric(),
	}
	if r != nil {
		r.MustRegister(m.findings, m.activations, m.kindsWatched, m.nodeWrites)
	}
	return m
}
