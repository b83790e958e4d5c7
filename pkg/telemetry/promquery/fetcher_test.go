package promquery

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// load describes the series of one namespace in the response to a query that several namespaces share.
type load struct {
	series  int
	bytes   int64
	refused bool // the server rejects the query because of these series
	slow    bool // the server does not finish the query because of these series
	takes   time.Duration
}

// fakeQuery is a query that several namespaces share. The reading of each request is the number of series of its namespace.
type fakeQuery struct {
	loads   map[string]load
	outside int // number of series of namespaces without a policy
	err     error
	cut     int // a proxy cuts off responses with more series than this; 0: it does not
	queries int
}

func (f *fakeQuery) divisible() bool { return true }

func (f *fakeQuery) run(ctx context.Context, p *part) (int64, error) {
	f.queries++
	if f.err != nil {
		return 0, f.err
	}
	names := p.namespaces
	if names == nil {
		names = namespacesOf(p.requests)
		for range f.outside {
			p.count("outside")
		}
	}
	bytes := int64(0)
	for _, n := range names {
		l := f.loads[n]
		if l.slow {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		select {
		case <-time.After(l.takes):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if l.refused {
			return 0, &fetch.StatusError{Code: 422}
		}
	}
	for _, n := range names {
		for range f.loads[n].series {
			if p.count(n); p.total > p.limits.Series {
				return bytes, promapi.ErrSeries
			}
		}
		if bytes += f.loads[n].bytes; bytes > p.limits.Bytes {
			return bytes, fetch.ErrTruncated
		}
	}
	if f.cut > 0 && p.total > f.cut {
		return bytes, fetch.ErrIncomplete
	}
	for i := range p.requests {
		p.out[i] = scaling.Reading{Known: true, Value: float64(f.loads[p.requests[i].Namespace()].series)}
	}
	return bytes, nil
}

func requestsIn(namespaces ...string) []source.Request {
	var out []source.Request
	for _, n := range namespaces {
		out = append(out, source.Request{Workload: &scaling.Workload{Key: scaling.Key{Namespace: n, Name: "w"}}})
	}
	return out
}

var fakeLimits = promapi.Limits{Series: 100, Bytes: 1000}

// fetchRound runs one round. It returns the reading of each namespace.
func fetchRound(ctx context.Context, f *Fetcher, requests []source.Request) (map[string]scaling.Reading, error) {
	out := make([]scaling.Reading, len(requests))
	source.SetEmpty(out)
	_, err := f.Fetch(ctx, requests, out)
	got := map[string]scaling.Reading{}
	for i := range requests {
		got[requests[i].Namespace()] = out[i]
	}
	return got, err
}

// Each namespace has a random load. As soon as the division has isolated the namespaces that exceed a limit, every other namespace must
// have a reading in each round. The division into sections takes several rounds (polls), because a round sends at most maxQueries
// queries.
func TestNamespaceWithinItsShareIsReadBesideAnyOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		query := &fakeQuery{loads: map[string]load{}, outside: rapid.SampledFrom([]int{0, 0, 0, 500}).Draw(t, "outside")}
		n := rapid.IntRange(1, 60).Draw(t, "namespaces")
		names := []string{}
		draw := func(name string) {
			query.loads[name] = load{
				series:  rapid.SampledFrom([]int{0, 1, 5, 30, 50, 51, 100, 400}).Draw(t, "series"),
				bytes:   rapid.SampledFrom([]int64{0, 1, 50, 300, 501, 5000}).Draw(t, "bytes"),
				refused: rapid.IntRange(0, 3).Draw(t, "refused") == 0,
			}
			names = append(names, name)
		}
		for i := range n {
			draw(fmt.Sprintf("ns-%02d", i))
		}
		victim := fmt.Sprintf("ns-%02d", rapid.IntRange(0, n-1).Draw(t, "victim"))
		query.loads[victim] = load{series: 3, bytes: 30}
		f := newFetcher(query, fakeLimits)
		isolated := 2 + 4*n/maxQueries // maximum number of rounds until each namespace was queried alone, after larger sections
		for round := range isolated + 2*undividedInterval {
			if rapid.IntRange(0, 9).Draw(t, "joins") == 0 && len(names) < 70 {
				draw(fmt.Sprintf("zz-%02d", len(names)))
			}
			query.queries = 0
			got, err := fetchRound(t.Context(), f, requestsIn(names...))
			if query.queries > maxQueries+1 {
				t.Fatalf("round %d: %d queries", round, query.queries)
			}
			if round >= isolated && (err != nil || !got[victim].Known || got[victim].Value != 3) {
				t.Fatalf("round %d: the victim reads %+v, %v; sections %+v", round, got[victim], err, f.sections)
			}
			for name, r := range got {
				if r.Known && (query.loads[name].refused || query.loads[name].series > fakeLimits.Series) {
					t.Fatalf("round %d: namespace %s over a limit reads %+v", round, name, r)
				}
			}
			if l := f.violations[victim]; l != "" {
				t.Fatalf("round %d: the victim is reported for its %s", round, l)
			}
		}
	})
}

func TestOneNamespaceOfAThousandIsIsolatedWithinARound(t *testing.T) {
	query := &fakeQuery{loads: map[string]load{"ns-0500": {refused: true}}}
	names := []string{}
	for i := range 1000 {
		names = append(names, fmt.Sprintf("ns-%04d", i))
	}
	f := newFetcher(query, fakeLimits)
	for round := range 2 {
		query.queries = 0
		got, err := fetchRound(t.Context(), f, requestsIn(names...))
		if err != nil || query.queries > maxQueries {
			t.Errorf("round %d: %d queries, %v", round, query.queries, err)
		}
		for name, r := range got {
			if r.Known != (name != "ns-0500") {
				t.Errorf("round %d: %s reads %+v", round, name, r)
			}
		}
	}
	if query.queries > 3 {
		t.Errorf("the second round sends %d queries", query.queries)
	}
	query.loads["ns-0500"] = load{}
	for range undividedInterval {
		query.queries = 0
		if _, err := fetchRound(t.Context(), f, requestsIn(names...)); err != nil {
			t.Fatal(err)
		}
	}
	if query.queries != 1 || len(f.Violations()) > 0 {
		t.Errorf("%d queries a round and violations %v after the namespace is within its limits again", query.queries, f.Violations())
	}
}

func TestServerThatIsDownReceivesNoAdditionalQueries(t *testing.T) {
	query := &fakeQuery{err: errors.New("connection refused")}
	f := newFetcher(query, fakeLimits)
	for range 3 {
		if _, err := fetchRound(t.Context(), f, requestsIn("a", "b", "c", "d")); err == nil {
			t.Error("no error")
		}
	}
	if query.queries != 3 {
		t.Errorf("%d queries in 3 rounds", query.queries)
	}
}

func TestQueryThatFailsForEveryNamespaceIsNotDividedInEachRound(t *testing.T) {
	query := &fakeQuery{err: &fetch.StatusError{Code: 400}}
	f := newFetcher(query, fakeLimits)
	names := []string{}
	for i := range 100 {
		names = append(names, fmt.Sprintf("ns-%02d", i))
	}
	for round := range undividedInterval {
		query.queries = 0
		if _, err := fetchRound(t.Context(), f, requestsIn(names...)); err == nil || len(f.violations) > 0 {
			t.Errorf("round %d: %v, violations %v", round, err, f.violations)
		}
		if round > maxFailedRounds && query.queries != 1 {
			t.Errorf("round %d: %d queries", round, query.queries)
		}
	}
}

// A proxy before Prometheus cuts off responses with more than 40 series, and one namespace has 45 series. No limit of gpuscaler is
// exceeded. After some rounds the query must be divided, so that the other namespaces have readings again. When the proxy no longer cuts
// off responses, every namespace must have a reading.
func TestNamespaceWhoseAnswersAreAlwaysCutOffIsIsolated(t *testing.T) {
	query := &fakeQuery{cut: 40, loads: map[string]load{"flood": {series: 45}}}
	names := []string{"flood"}
	for i := range 10 {
		names = append(names, fmt.Sprintf("team-%d", i))
		query.loads[names[i+1]] = load{series: 3}
	}
	f := newFetcher(query, fakeLimits)
	for round := range 2 * undividedInterval {
		query.queries = 0
		got, err := fetchRound(t.Context(), f, requestsIn(names...))
		if round < maxFailedRounds-1 { // in these rounds, the cause may still be a lost connection
			if err == nil || query.queries != 2 || len(f.Violations()) > 0 {
				t.Fatalf("round %d: %d queries, %v, %v", round, query.queries, err, f.Violations())
			}
			continue
		}
		if v := f.Violations(); len(v) != 1 || v[0] != (Violation{Namespace: "flood", Limit: LimitRefused}) || got["flood"].Known {
			t.Fatalf("round %d: %+v, the namespace with many series reads %+v", round, v, got["flood"])
		}
		for _, n := range names[1:] {
			if got[n].Value != 3 || !got[n].Known {
				t.Fatalf("round %d: %s reads %+v, %v", round, n, got[n], err)
			}
		}
	}
	query.cut = 0
	for range undividedInterval {
		_, _ = fetchRound(t.Context(), f, requestsIn(names...))
	}
	if got, err := fetchRound(t.Context(), f, requestsIn(names...)); err != nil || got["flood"].Value != 45 || len(f.Violations()) > 0 {
		t.Errorf("after it: %+v, %v, %v", got["flood"], err, f.Violations())
	}
}

func TestNamespaceWhoseQueryIsSlowIsIsolated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		query := &fakeQuery{loads: map[string]load{"evil": {slow: true}, "victim": {series: 3}}}
		f := newFetcher(query, fakeLimits)
		requests := requestsIn("a", "b", "evil", "victim")
		for round := range 6 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			got, err := fetchRound(ctx, f, requests)
			cancel()
			if round >= 3 && (err != nil || !got["victim"].Known || !got["a"].Known || got["evil"].Known) {
				t.Errorf("round %d: %+v, %v", round, got, err)
			}
		}
		if f.violations["evil"] != LimitRefused || len(f.violations) != 1 {
			t.Errorf("violations %v", f.violations)
		}
	})
}

// The queries of two of three namespaces need more time than a round (poll) has. In the first round after the query is divided, all three
// namespaces fail. In the next round, the third namespace must be queried alone. From then on, it must have a reading in each round, even
// in rounds in which the undivided query is sent again.
func TestNamespacesWhoseQueriesAreSlowDoNotStopTheDivision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		query := &fakeQuery{loads: map[string]load{"a-evil": {takes: time.Minute}, "b-evil": {takes: 2 * time.Second},
			"victim": {takes: 700 * time.Millisecond, series: 3}}}
		f := newFetcher(query, fakeLimits)
		requests := requestsIn("a-evil", "b-evil", "victim")
		for round := range 3 * undividedInterval {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			got, err := fetchRound(ctx, f, requests)
			cancel()
			if round >= 2 && (err != nil || !got["victim"].Known || got["a-evil"].Known) {
				t.Fatalf("round %d: %+v, %v", round, got, err)
			}
			if round == 2 && f.violations["victim"] != "" {
				t.Errorf("round %d: violations %v", round, f.violations)
			}
		}
		if f.violations["a-evil"] != LimitRefused || len(f.violations) != 1 {
			t.Errorf("violations %v", f.violations)
		}
	})
}

// For some time, the server does not respond, or its responses are too large. When it works again, every namespace must have a reading in
// one of the next two rounds. This must not depend on the length of the outage, or on series of other namespaces that make the undivided
// query fail.
func TestReadingsReturnAtOnceAfterAnOutage(t *testing.T) {
	outages := map[string]load{"hangs": {takes: time.Hour}, "too large": {bytes: 1 << 40}, "refused": {refused: true}}
	for name, outage := range outages {
		for _, c := range []struct{ namespaces, outside int }{{1, 0}, {1, 500}, {3, 0}, {3, 500}, {12, 500}} {
			for rounds := range 50 {
				synctest.Test(t, func(t *testing.T) {
					query := &fakeQuery{loads: map[string]load{}, outside: c.outside}
					f := newFetcher(query, fakeLimits)
					var names []string
					set := func(l load) {
						for _, n := range names {
							query.loads[n] = l
						}
					}
					for i := range c.namespaces {
						names = append(names, fmt.Sprint("team-", i))
					}
					readings := func() (n int) {
						ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
						defer cancel()
						got, _ := fetchRound(ctx, f, requestsIn(names...))
						for _, r := range got {
							if r.Known {
								n++
							}
						}
						return n
					}
					set(outage)
					for range rounds + 1 {
						if readings() > 0 {
							t.Fatalf("%s: a reading during the outage", name)
						}
					}
					set(load{series: 3})
					if first := readings(); first < c.namespaces && readings() < c.namespaces {
						t.Errorf("%s for %d rounds, %+v: not all readings in the second round after the outage", name, rounds+1, c)
					}
				})
			}
		}
	}
}

func TestNamespaceWithoutAPolicyIsReportedAsOutside(t *testing.T) {
	query := &fakeQuery{loads: map[string]load{"a": {series: 1}, "b": {series: 1}}, outside: 500}
	f := newFetcher(query, fakeLimits)
	for range undividedInterval + 1 {
		if got, err := fetchRound(t.Context(), f, requestsIn("a", "b")); err != nil || !got["a"].Known || !got["b"].Known {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if got := f.Violations(); len(got) != 1 || got[0] != (Violation{Namespace: "outside", Limit: LimitSeries, Outside: true}) {
		t.Errorf("violations %+v", got)
	}
}
