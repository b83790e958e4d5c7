package telemetry

import (
	"context"
	"fmt"
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
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
)

// latencyFetcher asks one query for one latency of one engine over all pods: the rate of each bucket, of sum and count, the time of
// the samples, and the gauges that tell silence from idleness. Buckets come per pod and are put together here, because a workload's
// pods are known here and not in Prometheus.
type latencyFetcher struct {
	api      *promapi.Client
	pods     engine.Pods
	profile  *exposition.Profile
	metric   *exposition.Metric
	matchers map[string]string
	window   time.Duration
	owners   *attribution
}

func newLatencyFetcher(g *group, api *promapi.Client, o *Options) (*latencyFetcher, error) {
	p, ok := exposition.Engine(string(g.key.profile))
	if !ok {
		return nil, fmt.Errorf("%w: engine %q", errInvalid, g.key.profile)
	}
	m, ok := p.Lookup(g.key.metric)
	if !ok {
		return nil, fmt.Errorf("%w: metric %q", errInvalid, g.key.metric)
	}
	return &latencyFetcher{api: api, pods: o.Pods, profile: p, metric: m, matchers: g.source.Matchers,
		window: g.key.window, owners: newAttribution(&g.source, g.key.profile, o)}, nil
}

// Parts of the combined answer; each is followed by the number of the spelling.
const (
	partBucket = "bucket"
	partSum    = "sum"
	partCount  = "count"
	partLoad   = "load"
)

// maxSpellings is more than any gauge has; the number of a gauge's part is that of the gauge times this, and its spelling.
const maxSpellings = 100

func (f *latencyFetcher) query(slots []slot, only []*labels.Matcher) string {
	quantile, mean := false, false
	for i := range slots {
		quantile = quantile || slots[i].source.Quantile > 0
		mean = mean || slots[i].source.Quantile == 0
	}
	by := f.owners.labels.Names()
	var parts []string
	add := func(part string, i int, expr parser.Expr) {
		parts = append(parts, mark(expr.String(), part+strconv.Itoa(i)))
	}
	for i := range f.metric.From {
		sum, count := f.metric.From[i].Counters(f.metric.Shape)
		if quantile && f.metric.Shape == exposition.Histogrammed {
			add(partBucket, i, aggregate(parser.SUM, f.rate(f.metric.From[i].Name+"_bucket", only), append(by, "le")))
		}
		if mean {
			add(partSum, i, aggregate(parser.SUM, f.rate(sum, only), by))
		}
		add(partCount, i, aggregate(parser.SUM, f.rate(count, only), by))
		add(partAge, i, aggregate(parser.MIN, call("timestamp", f.selector(exposition.Series{Name: count}, only)), by))
	}
	for gauge, busy := range f.metric.Busy {
		if m, ok := f.profile.Lookup(busy); ok {
			for i, s := range m.From {
				add(partLoad, gauge*maxSpellings+i, aggregate(parser.MAX, f.selector(s, only), by))
			}
		}
	}
	return strings.Join(parts, " or ")
}

func (f *latencyFetcher) selector(s exposition.Series, only []*labels.Matcher) *parser.VectorSelector {
	ms := []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, model.MetricNameLabel, s.Name)}
	if s.Label != "" {
		ms = append(ms, labels.MustNewMatcher(labels.MatchEqual, s.Label, s.Value))
	}
	return &parser.VectorSelector{LabelMatchers: append(withMatchers(ms, f.matchers), only...)}
}

func (f *latencyFetcher) rate(name string, only []*labels.Matcher) parser.Expr {
	return call("rate", &parser.MatrixSelector{VectorSelector: f.selector(exposition.Series{Name: name}, only), Range: f.window})
}

func call(name string, of parser.Expr) parser.Expr {
	return &parser.Call{Func: parser.Functions[name], Args: parser.Expressions{of}}
}

func aggregate(op parser.ItemType, of parser.Expr, by []string) parser.Expr {
	return &parser.AggregateExpr{Op: op, Expr: of, Grouping: by}
}

// podRates is what the answer holds for one pod.
type podRates struct {
	spelling int  // the best so far, -1 for none
	told     uint // a bit for each gauge of Metric.Busy that told
	observed exposition.Observed
	counted  bool
}

func (f *latencyFetcher) divisible() bool { return true }

func (f *latencyFetcher) ask(ctx context.Context, p *part) (bytes int64, err error) {
	r := newRoster(p.slots, f.pods, true)
	if len(r.rows) == 0 {
		return 0, p.noPods()
	}
	rates := make([]podRates, len(r.rows))
	for i := range rates {
		rates[i].spelling = -1
	}
	f.owners.begin()
	for _, only := range f.owners.namespaces().restrictions(p.namespaces) {
		n, err := f.api.With(p.limits).Query(ctx, f.query(p.slots, only), func(s *promapi.Series) error {
			p.count(f.owners.rows(r, s.Labels, func(row int32) {
				if s.Valid {
					rates[row].add(s)
				}
			}))
			return nil
		})
		bytes += n
		if err != nil {
			return bytes, err
		}
	}
	for i := range r.works {
		k := &r.works[i]
		for j := range k.slots {
			p.out[k.offset+j] = r.latency(k, &k.slots[j], f.metric, func(row int) exposition.Observed { return rates[row].settle() })
		}
	}
	return bytes, nil
}

// add sorts one series. Only the newest spelling that a pod serves counts.
func (p *podRates) add(s *promapi.Series) {
	text := s.Labels.Get(partLabel)
	digits := strings.TrimLeft(text, "abcdefghijklmnopqrstuvwxyz")
	part := text[:len(text)-len(digits)]
	spelling, err := strconv.Atoi(digits)
	if err != nil {
		return
	}
	if part == partLoad {
		if s.Value >= 0 {
			p.observed.Load += s.Value
			p.told |= 1 << (spelling / maxSpellings)
		}
		return
	}
	if p.spelling >= 0 && spelling > p.spelling {
		return
	}
	if spelling != p.spelling {
		*p = podRates{spelling: spelling, told: p.told, observed: exposition.Observed{Load: p.observed.Load}}
	}
	gain := &p.observed.Gain
	switch part {
	case partBucket:
		if upper, err := strconv.ParseFloat(s.Labels.Get("le"), 64); err == nil {
			gain.AddBucket(upper, s.Value)
		}
	case partSum:
		gain.Sum += s.Value
	case partCount:
		gain.Count += s.Value
		p.counted = true
	case partAge:
		p.observed.At = sampleTime(s)
	}
}

// settle judges a pod's rates: without a count there was no second sample within the window, and nothing is known.
func (p *podRates) settle() exposition.Observed {
	o := p.observed
	o.Told = bits.OnesCount(p.told)
	switch {
	case !p.counted:
		o.Quality = exposition.Missing
	case math.IsNaN(o.Gain.Count) || math.IsNaN(o.Gain.Sum) || o.Gain.Count < 0 || o.Gain.Sum < 0:
		o.Quality = exposition.Blank
	default:
		o.Quality = exposition.Good
	}
	return o
}
