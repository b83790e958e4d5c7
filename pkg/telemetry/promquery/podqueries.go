package promquery

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/pods"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
)

// gaugeQuery reads the gauges of one engine in all pods with one query, and finds the pod of a workload to which each series belongs.
type gaugeQuery struct {
	api         *promapi.Client
	pods        engine.Pods
	profile     *exposition.Profile
	matchers    map[string]string
	attribution *attribution

	totals  pods.Totals
	updates *pods.TotalsRound // totals of the current round; nil between two rounds
}

func (q *gaugeQuery) divisible() bool { return true }

func (q *gaugeQuery) run(ctx context.Context, p *part) (bytes int64, err error) {
	g := pods.NewGauges(q.profile, pods.New(p.requests, q.pods, true))
	if len(g.List.Rows) == 0 {
		return 0, p.noPods()
	}
	q.attribution.begin()
	names, back := g.SeriesNames(), lookback(p.requests)
	bytes, err = q.attribution.each(p, func(only []*labels.Matcher) (int64, error) {
		text := newestSamples(names, q.matchers, back, only)
		return q.api.With(p.limits).Query(ctx, text, func(s *promapi.Series) error {
			sample := sampleOf(s)
			p.count(q.attribution.rows(g.List, s.Labels, func(row int32) {
				if s.Valid {
					g.Add(row, sample)
				}
			}))
			return nil
		})
	})
	if err != nil {
		return bytes, err
	}
	if q.updates == nil {
		q.updates = q.totals.Begin(now())
	}
	g.Readings(p.out, q.updates)
	return bytes, nil
}

// keepTotals keeps the stored totals (see pods.Totals) of the namespaces that were not read in this round.
func (q *gaugeQuery) keepTotals(namespaces map[string]scaling.Cause) {
	if q.updates != nil {
		q.updates.Keep(namespaces)
	}
}

// endRound frees the list of pods and the totals at the end of a round (poll). The list and the totals are needed only during a round and
// use more than 1 KiB for each workload.
func (q *gaugeQuery) endRound() { q.updates = nil }

// gpuQuery reads the GPU counters of all pods with one query.
type gpuQuery struct {
	api         *promapi.Client
	cluster     pods.Cluster
	matchers    map[string]string
	attribution *attribution
}

func (q *gpuQuery) divisible() bool { return true }

func (q *gpuQuery) run(ctx context.Context, p *part) (bytes int64, err error) {
	g := pods.NewGPUs(pods.New(p.requests, q.cluster.Pods, false), q.cluster.Nodes)
	if len(g.List.Rows) == 0 {
		return 0, p.noPods()
	}
	q.attribution.begin()
	names, back := pods.DCGMNames(p.requests), lookback(p.requests)
	bytes, err = q.attribution.each(p, func(only []*labels.Matcher) (int64, error) {
		text := newestSamples(names, q.matchers, back, only)
		return q.api.With(p.limits).Query(ctx, text, func(s *promapi.Series) error {
			sample := sampleOf(s)
			if of, ok, _ := q.attribution.subject(s.Labels); ok && s.Valid {
				g.AddHolder(of.exporter, of.pod, sample)
			}
			p.count(q.attribution.rows(g.List, s.Labels, func(row int32) {
				if s.Valid {
					g.Add(row, sample)
				}
			}))
			return nil
		})
	})
	if err != nil {
		return bytes, err
	}
	g.Readings(p.out)
	return bytes, nil
}

func sampleOf(s *promapi.Series) *exposition.Sample {
	return &exposition.Sample{Name: s.Labels.Get("__name__"), Labels: s.Labels, Value: s.Value, At: s.At}
}
