package promquery

import (
	"context"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/pods"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// latencyQuery reads one latency of one engine for all pods with one query. For each pod, the query returns the rates of the histogram's
// buckets, sum and count, the times of the samples, and gauges. The gauges show whether a server without new observations is blocked or
// idle. Prometheus does not merge the buckets, because only gpuscaler knows which pods belong to a workload.
type latencyQuery struct {
	api         *promapi.Client
	pods        engine.Pods
	profile     *exposition.Profile
	metric      *exposition.Metric
	matchers    map[string]string
	window      time.Duration
	attribution *attribution
}

// Values of partLabel, which distinguishes the parts of the combined query. The index of the series name in Metric.From is appended to
// each value.
const (
	partBucket = "bucket"
	partSum    = "sum"
	partCount  = "count"
	partLoad   = "load" // the number appended to this value is the gauge's index in Metric.Busy times maxNames, plus the index of the name
)

// maxNames is greater than the number of series names of any gauge. One number can therefore encode the index of a gauge and the index of
// its name.
const maxNames = 100

// text returns the query for the requests. text adds the matchers in the parameter only to every selector.
func (q *latencyQuery) text(requests []source.Request, only []*labels.Matcher) string {
	quantile, mean := false, false
	for i := range requests {
		quantile = quantile || requests[i].Source.Quantile > 0
		mean = mean || requests[i].Source.Quantile == 0
	}
	by := q.attribution.labels.Names()
	var parts []string
	add := func(part string, i int, expr parser.Expr) {
		parts = append(parts, mark(expr.String(), part+strconv.Itoa(i)))
	}
	for i := range q.metric.From {
		sum, count := q.metric.From[i].Counters(q.metric.Shape)
		if quantile && q.metric.Shape == exposition.Histogrammed {
			add(partBucket, i, aggregate(parser.SUM, q.rate(q.metric.From[i].Name+"_bucket", only), append(by, "le")))
		}
		if mean {
			add(partSum, i, aggregate(parser.SUM, q.rate(sum, only), by))
		}
		add(partCount, i, aggregate(parser.SUM, q.rate(count, only), by))
		add(partAge, i, aggregate(parser.MIN, call("timestamp", q.selector(exposition.Series{Name: count}, only)), by))
	}
	for gauge, busy := range q.metric.Busy {
		if m, ok := q.profile.Lookup(busy); ok {
			for i, s := range m.From {
				add(partLoad, gauge*maxNames+i, aggregate(parser.MAX, q.selector(s, only), by))
			}
		}
	}
	return strings.Join(parts, " or ")
}

func (q *latencyQuery) selector(s exposition.Series, only []*labels.Matcher) *parser.VectorSelector {
	ms := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, s.Name)}
	if s.Label != "" {
		ms = append(ms, labels.MustNewMatcher(labels.MatchEqual, s.Label, s.Value))
	}
	return &parser.VectorSelector{LabelMatchers: append(withMatchers(ms, q.matchers), only...)}
}

func (q *latencyQuery) rate(name string, only []*labels.Matcher) parser.Expr {
	return call("rate", &parser.MatrixSelector{VectorSelector: q.selector(exposition.Series{Name: name}, only), Range: q.window})
}

func (q *latencyQuery) divisible() bool { return true }

func (q *latencyQuery) run(ctx context.Context, p *part) (bytes int64, err error) {
	list := pods.New(p.requests, q.pods, true)
	if len(list.Rows) == 0 {
		return 0, p.noPods()
	}
	rates := make([]podRates, len(list.Rows))
	for i := range rates {
		rates[i].name = -1
	}
	q.attribution.begin()
	bytes, err = q.attribution.each(p, func(only []*labels.Matcher) (int64, error) {
		return q.api.With(p.limits).Query(ctx, q.text(p.requests, only), func(s *promapi.Series) error {
			p.count(q.attribution.rows(list, s.Labels, func(row int32) {
				if s.Valid {
					rates[row].add(s)
				}
			}))
			return nil
		})
	})
	if err != nil {
		return bytes, err
	}
	for i := range list.Workloads {
		w := &list.Workloads[i]
		for j := range w.Requests {
			p.out[w.Offset+j] = list.Latency(w, &w.Requests[j], q.metric, func(row int) exposition.Observed { return rates[row].observe() })
		}
	}
	return bytes, nil
}

// podRates collects the series of one pod in the response.
type podRates struct {
	name     int  // lowest index in Metric.From of the series added so far; -1: no series yet
	reported uint // one bit for each gauge of Metric.Busy that has a value
	observed exposition.Observed
	counted  bool
}

// add adds one series. If a pod serves a metric under several names, only the name with the lowest index is used.
func (r *podRates) add(s *promapi.Series) {
	text := s.Labels.Get(partLabel)
	digits := strings.TrimLeft(text, "abcdefghijklmnopqrstuvwxyz")
	part := text[:len(text)-len(digits)]
	number, err := strconv.Atoi(digits)
	if err != nil {
		return
	}
	if part == partLoad {
		if s.Value >= 0 {
			r.observed.Load += s.Value
			r.reported |= 1 << (number / maxNames)
		}
		return
	}
	if r.name >= 0 && number > r.name {
		return
	}
	if number != r.name {
		*r = podRates{name: number, reported: r.reported, observed: exposition.Observed{Load: r.observed.Load}}
	}
	gain := &r.observed.Gain
	switch part {
	case partBucket:
		if upper, err := strconv.ParseFloat(s.Labels.Get("le"), 64); err == nil {
			gain.AddBucket(upper, s.Value)
		}
	case partSum:
		gain.Sum += s.Value
	case partCount:
		gain.Count += s.Value
		r.counted = true
	case partAge:
		r.observed.At = sampleTime(s)
	}
}

// observe returns the pod's rates and their quality. If the response has no count for the pod, the quality is Missing, because Prometheus
// has fewer than two samples within the window.
func (r *podRates) observe() exposition.Observed {
	o := r.observed
	o.Reported = bits.OnesCount(r.reported)
	switch {
	case !r.counted:
		o.Quality = exposition.Missing
	case math.IsNaN(o.Gain.Count) || math.IsNaN(o.Gain.Sum) || o.Gain.Count < 0 || o.Gain.Sum < 0:
		o.Quality = exposition.Blank
	default:
		o.Quality = exposition.Good
	}
	return o
}
