package telemetry

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sort"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	prom "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

var testParser = parser.NewParser(parser.Options{})

// testPrometheus answers /api/v1/query with the query engine of Prometheus and samples in memory. A query that works in these tests also
// works with a real server, because both have the same five-minute lookback and the same errors for duplicate labels.
type testPrometheus struct {
	*httptest.Server
	engine *prom.Engine

	mu      sync.Mutex
	series  []*testSeries
	queries []string
	now     func() time.Time
}

type testSeries struct {
	labels  labels.Labels
	samples []testSample
}

type testSample struct {
	t int64
	v float64
}

func (s testSample) T() int64                      { return s.t }
func (s testSample) F() float64                    { return s.v }
func (s testSample) ST() int64                     { return 0 }
func (s testSample) H() *histogram.Histogram       { return nil }
func (s testSample) FH() *histogram.FloatHistogram { return nil }
func (s testSample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s testSample) Copy() chunks.Sample           { return s }

func newTestPrometheus(t testing.TB) *testPrometheus {
	p := &testPrometheus{now: time.Now}
	p.engine = prom.NewEngine(prom.EngineOpts{
		MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, EnableAtModifier: true, Parser: testParser,
	})
	p.Server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.Close)
	return p
}

// put appends a sample to a series. The series is written in the form name{label="value"}.
func (p *testPrometheus) put(series string, at time.Time, v float64) {
	l, err := testParser.ParseMetric(series)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.series {
		if labels.Equal(s.labels, l) {
			s.samples = append(s.samples, testSample{at.UnixMilli(), v})
			return
		}
	}
	p.series = append(p.series, &testSeries{l, []testSample{{at.UnixMilli(), v}}})
}

// clear deletes all series.
func (p *testPrometheus) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.series = nil
}

// asked returns the queries that the server has received so far.
func (p *testPrometheus) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.queries...)
}

func (p *testPrometheus) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/v1/query" || r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	text := r.FormValue("query")
	p.mu.Lock()
	p.queries = append(p.queries, text)
	at := p.now()
	p.mu.Unlock()
	q, err := p.engine.NewInstantQuery(r.Context(), p, nil, text, at)
	if err != nil {
		apiError(w, 400, "bad_data", err)
		return
	}
	defer q.Close()
	res := q.Exec(r.Context())
	if res.Err != nil {
		apiError(w, 422, "execution", res.Err)
		return
	}
	json.NewEncoder(w).Encode(map[string]any{
		"status": "success", "data": map[string]any{"resultType": res.Value.Type(), "result": encodeResult(res.Value)},
	})
}

func apiError(w http.ResponseWriter, code int, kind string, err error) {
	w.WriteHeader(code)
	fmt.Fprintf(w, `{"status":"error","errorType":%q,"error":%q}`, kind, err)
}

func encodeResult(v parser.Value) []map[string]any {
	out := []map[string]any{}
	point := func(t int64, v float64) []any {
		return []any{float64(t) / 1000, strconv.FormatFloat(v, 'f', -1, 64)}
	}
	switch v := v.(type) {
	case prom.Vector:
		for _, s := range v {
			out = append(out, map[string]any{"metric": s.Metric.Map(), "value": point(s.T, s.F)})
		}
	case prom.Matrix:
		for _, s := range v {
			var values []any
			for _, f := range s.Floats {
				values = append(values, point(f.T, f.F))
			}
			out = append(out, map[string]any{"metric": s.Metric.Map(), "values": values})
		}
	}
	return out
}

// Querier implements storage.Queryable.
func (p *testPrometheus) Querier(mint, maxt int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
		p.mu.Lock()
		defer p.mu.Unlock()
		var out []storage.Series
		for _, s := range p.series {
			if !matches(s.labels, ms) {
				continue
			}
			var list []chunks.Sample
			for _, x := range s.samples {
				if x.t >= mint && x.t <= maxt {
					list = append(list, x)
				}
			}
			out = append(out, storage.NewListSeries(s.labels, list))
		}
		sort.Slice(out, func(i, j int) bool { return labels.Compare(out[i].Labels(), out[j].Labels()) < 0 })
		return &listSet{series: out, at: -1}
	}}, nil
}

func matches(l labels.Labels, ms []*labels.Matcher) bool {
	for _, m := range ms {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

type listSet struct {
	series []storage.Series
	at     int
}

func (s *listSet) Next() bool                        { s.at++; return s.at < len(s.series) }
func (s *listSet) At() storage.Series                { return s.series[s.at] }
func (s *listSet) Err() error                        { return nil }
func (s *listSet) Warnings() annotations.Annotations { return nil }
