// Package promtest is a Prometheus server for tests. It uses Prometheus' own query engine with samples in memory, and has the parts of the
// HTTP API that package history uses (query, query_range, series, label values, metadata, build information). A query that works in a test
// also works with a real server, because both have the same lookback and the same errors for duplicate labels.
package promtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// Parser parses PromQL with the same options as the server.
var Parser = parser.NewParser(parser.Options{})

// Server is a test server that runs until the test ends.
type Server struct {
	URL   string
	Begin time.Time         // time of the first sample
	Kinds map[string]string // type of each metric, for the path /metadata; must be set before the first request

	engine *promql.Engine
	series []*series

	mu      sync.Mutex
	queries []string
}

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

type sample struct {
	t int64
	v float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) F() float64                    { return s.v }
func (s sample) ST() int64                     { return 0 }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// Serve starts a server with the given series. Each line of text is one series in the notation of Prometheus' own tests, such as
// up{job="a"} 1x60. The first value is at begin, and the next values follow at intervals of one minute.
func Serve(t testing.TB, begin time.Time, text string) *Server {
	t.Helper()
	var all []Series
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		l, values, err := Parser.ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, Series{Labels: l, Values: values})
	}
	return ServeSeries(t, begin, time.Minute, all)
}

// Absent is the value that Prometheus stores for a series at the first scrape that no longer contains the series.
var Absent = math.Float64frombits(value.StaleNaN)

// Series is one series of ServeSeries. An omitted value is a time without a scrape.
type Series struct {
	Labels labels.Labels
	Values []parser.SequenceValue
}

// ServeSeries starts a server with the given series. The first value of each series is at begin, and the next values follow at the given
// interval.
func ServeSeries(t testing.TB, begin time.Time, every time.Duration, all []Series) *Server {
	t.Helper()
	s := &Server{Begin: begin, engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, Parser: Parser,
	})}
	for i := range all {
		one := &series{labels: all[i].Labels}
		for k, v := range all[i].Values {
			if !v.Omitted {
				one.samples = append(one.samples, sample{begin.Add(time.Duration(k) * every).UnixMilli(), v.Value})
			}
		}
		s.series = append(s.series, one)
	}
	slices.SortFunc(s.series, func(a, b *series) int { return labels.Compare(a.labels, b.labels) })
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	s.URL = web.URL
	return s
}

// Queries returns the expressions of all queries that the server has received so far.
func (s *Server) Queries() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.queries)
}

// Selectors returns every selector of every query that the server has received so far.
func (s *Server) Selectors(t testing.TB) (out []string) {
	t.Helper()
	for _, q := range s.Queries() {
		expr, err := Parser.ParseExpr(q)
		if err != nil {
			t.Errorf("%s: %v", q, err)
			continue
		}
		parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
			if v, ok := n.(*parser.VectorSelector); ok {
				out = append(out, v.String())
			}
			return nil
		})
	}
	return out
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var data any
	var err error
	_, label, _ := strings.Cut(strings.TrimSuffix(r.URL.Path, "/values"), "/api/v1/label/")
	switch r.URL.Path {
	case "/api/v1/query", "/api/v1/query_range":
		data, err = s.query(r)
	case "/api/v1/series":
		data, err = s.matching(r, func(l labels.Labels) any { return l.Map() })
	case "/api/v1/label/" + label + "/values":
		data, err = s.matching(r, func(l labels.Labels) any { return l.Get(label) })
	case "/api/v1/metadata":
		name := r.FormValue("metric")
		known := map[string]any{}
		if kind := s.Kinds[name]; kind != "" {
			known[name] = []map[string]string{{"type": kind, "help": "", "unit": ""}}
		}
		data = known
	case "/api/v1/status/buildinfo":
		data = map[string]string{"version": "3.5.0"}
	default:
		http.NotFound(w, r)
		return
	}
	answer := map[string]any{"status": "success", "data": data}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		answer = map[string]any{"status": "error", "errorType": "bad_data", "error": err.Error()}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *Server) query(r *http.Request) (any, error) {
	text := r.FormValue("query")
	s.mu.Lock()
	s.queries = append(s.queries, text)
	s.mu.Unlock()
	var q promql.Query
	var err error
	if r.URL.Path == "/api/v1/query" {
		q, err = s.engine.NewInstantQuery(r.Context(), s, nil, text, moment(r.FormValue("time")))
	} else {
		step, _ := strconv.ParseFloat(r.FormValue("step"), 64)
		start, end := moment(r.FormValue("start")), moment(r.FormValue("end"))
		q, err = s.engine.NewRangeQuery(r.Context(), s, nil, text, start, end, time.Duration(step*float64(time.Second)))
	}
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result := q.Exec(r.Context())
	if result.Err != nil {
		return nil, result.Err
	}
	return map[string]any{"resultType": result.Value.Type(), "result": encode(result.Value)}, nil
}

func moment(text string) time.Time {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return time.Now() // may use the clock: an instant query without a time is evaluated at the current time
	}
	return time.UnixMilli(int64(math.Round(seconds * 1000)))
}

func encode(v parser.Value) any {
	point := func(t int64, v float64) []any {
		return []any{float64(t) / 1000, strconv.FormatFloat(v, 'f', -1, 64)}
	}
	out := []map[string]any{}
	switch v := v.(type) {
	case promql.Vector:
		for _, x := range v {
			out = append(out, map[string]any{"metric": x.Metric.Map(), "value": point(x.T, x.F)})
		}
	case promql.Matrix:
		for _, x := range v {
			values := [][]any{}
			for _, f := range x.Floats {
				values = append(values, point(f.T, f.F))
			}
			out = append(out, map[string]any{"metric": x.Metric.Map(), "values": values})
		}
	case promql.Scalar:
		return point(v.T, v.V)
	}
	return out
}

// matching calls the function what with the labels of each series that the request selects, and returns the results without duplicates. A
// series must match a selector in the parameter match[], and must have samples between the parameters start and end.
func (s *Server) matching(r *http.Request, what func(labels.Labels) any) (any, error) {
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	from, to := moment(r.FormValue("start")).UnixMilli(), moment(r.FormValue("end")).UnixMilli()
	out, seen := []any{}, map[string]bool{}
	for _, text := range r.Form["match[]"] {
		ms, err := Parser.ParseMetricSelector(text)
		if err != nil {
			return nil, err
		}
		for _, one := range s.series {
			v := what(one.labels)
			if v != "" && len(one.within(from, to)) > 0 && matches(one.labels, ms) && !seen[fmt.Sprint(v)] {
				seen[fmt.Sprint(v)] = true
				out = append(out, v)
			}
		}
	}
	if len(r.Form["match[]"]) == 0 {
		return nil, errors.New("no match[] parameter provided")
	}
	return out, nil
}

func (s *series) within(from, to int64) (out []chunks.Sample) {
	for _, x := range s.samples {
		if x.T() >= from && x.T() <= to {
			out = append(out, x)
		}
	}
	return out
}

// Querier implements storage.Queryable.
func (s *Server) Querier(from, to int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
		set := &list{at: -1}
		for _, one := range s.series {
			if !matches(one.labels, ms) {
				continue
			}
			if samples := one.within(from, to); len(samples) > 0 {
				set.series = append(set.series, storage.NewListSeries(one.labels, samples))
			}
		}
		return set
	}}, nil
}

func matches(l labels.Labels, ms []*labels.Matcher) bool {
	return !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(l.Get(m.Name)) })
}

type list struct {
	series []storage.Series
	at     int
}

func (l *list) Next() bool                        { l.at++; return l.at < len(l.series) }
func (l *list) At() storage.Series                { return l.series[l.at] }
func (l *list) Err() error                        { return nil }
func (l *list) Warnings() annotations.Annotations { return nil }
