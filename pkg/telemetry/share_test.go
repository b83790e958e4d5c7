package telemetry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
)

// neighbor is what one namespace does to a shared query.
type neighbor struct {
	series  int
	bytes   int64
	refused bool // the server refuses the query for its series
	slow    bool // the server does not finish the query for its series
}

// fakeAsker answers each namespace with its number of series.
type fakeAsker struct {
	does    map[string]neighbor
	outside int // series of namespaces without a policy
	down    error
	asks    int
}

func (f *fakeAsker) divisible() bool { return true }

func (f *fakeAsker) ask(ctx context.Context, p *part) (int64, error) {
	f.asks++
	if f.down != nil {
		return 0, f.down
	}
	names := p.namespaces
	if names == nil {
		names = namespacesOf(p.slots)
		for range f.outside {
			p.count("outside")
		}
	}
	bytes := int64(0)
	for _, n := range names {
		d := f.does[n]
		if d.slow {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		if d.refused {
			return 0, &fetch.StatusError{Code: 422}
		}
	}
	for _, n := range names {
		for range f.does[n].series {
			if p.count(n); p.total > p.limits.Series {
				return bytes, promapi.ErrSeries
			}
		}
		if bytes += f.does[n].bytes; bytes > p.limits.Bytes {
			return bytes, fetch.ErrTruncated
		}
	}
	for i := range p.slots {
		p.out[i] = scaling.Reading{Known: true, Value: float64(f.does[p.slots[i].w.Key.Namespace].series)}
	}
	return bytes, nil
}

func slotsIn(namespaces ...string) []slot {
	var out []slot
	for _, n := range namespaces {
		c := compiled(n, "w", policy.Source{})
		out = append(out, slot{w: &c.Workload, signal: &c.Workload.Policy.Signals[0], source: &c.Sources[0]})
	}
	return out
}

var fakeLimits = promapi.Limits{Series: 100, Bytes: 1000}

// round runs one round and returns the readings by namespace.
func (s *sharer) roundOf(ctx context.Context, slots []slot) (map[string]scaling.Reading, error) {
	out := make([]scaling.Reading, len(slots))
	empty(out)
	_, err := s.fetch(ctx, slots, out)
	got := map[string]scaling.Reading{}
	for i := range slots {
		got[slots[i].w.Key.Namespace] = out[i]
	}
	return got, err
}

// Whatever the neighbors do, a namespace that stays within its share is answered: at the latest once the search, of maxAsks queries a
// round, has found the offenders, and in every round from then on. No round takes more queries than its bound.
func TestWhateverItsNeighborsDoANamespaceWithinItsShareIsAnswered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := &fakeAsker{does: map[string]neighbor{}, outside: rapid.SampledFrom([]int{0, 0, 0, 500}).Draw(t, "outside")}
		n := rapid.IntRange(1, 60).Draw(t, "namespaces")
		names := []string{}
		draw := func(name string) {
			f.does[name] = neighbor{
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
		f.does[victim] = neighbor{series: 3, bytes: 30}
		s := newSharer(f, fakeLimits)
		found := 2 + 4*n/maxAsks // each namespace alone, and the searches above it
		for round := range found + 2*wholeAfter {
			if rapid.IntRange(0, 9).Draw(t, "joins") == 0 && len(names) < 70 {
				draw(fmt.Sprintf("zz-%02d", len(names)))
			}
			f.asks = 0
			got, err := s.roundOf(t.Context(), slotsIn(names...))
			if f.asks > maxAsks+1 {
				t.Fatalf("round %d: %d queries", round, f.asks)
			}
			if round >= found && (err != nil || !got[victim].Known || got[victim].Value != 3) {
				t.Fatalf("round %d: the victim reads %+v, %v; sections %+v", round, got[victim], err, s.sections)
			}
			for name, r := range got {
				if r.Known && (f.does[name].refused || f.does[name].series > fakeLimits.Series) {
					t.Fatalf("round %d: offender %s reads %+v", round, name, r)
				}
			}
			if l := s.offences[victim]; l != "" {
				t.Fatalf("round %d: the victim is reported for its %s", round, l)
			}
		}
	})
}

func TestOneOffenderOfAThousandNamespacesIsFoundWithinARound(t *testing.T) {
	f := &fakeAsker{does: map[string]neighbor{"ns-0500": {refused: true}}}
	names := []string{}
	for i := range 1000 {
		names = append(names, fmt.Sprintf("ns-%04d", i))
	}
	s := newSharer(f, fakeLimits)
	for round := range 2 {
		f.asks = 0
		got, err := s.roundOf(t.Context(), slotsIn(names...))
		if err != nil || f.asks > maxAsks {
			t.Errorf("round %d: %d queries, %v", round, f.asks, err)
		}
		for name, r := range got {
			if r.Known != (name != "ns-0500") {
				t.Errorf("round %d: %s reads %+v", round, name, r)
			}
		}
	}
	if f.asks > 3 {
		t.Errorf("the second round takes %d queries", f.asks)
	}
	f.does["ns-0500"] = neighbor{}
	for range wholeAfter {
		f.asks = 0
		if _, err := s.roundOf(t.Context(), slotsIn(names...)); err != nil {
			t.Fatal(err)
		}
	}
	if f.asks != 1 || len(s.offences) > 0 {
		t.Errorf("%d queries a round and offences %v once the offender is gone", f.asks, s.offences)
	}
}

func TestAServerThatIsDownIsNotAskedMoreOften(t *testing.T) {
	f := &fakeAsker{down: errors.New("connection refused")}
	s := newSharer(f, fakeLimits)
	for range 3 {
		if _, err := s.roundOf(t.Context(), slotsIn("a", "b", "c", "d")); err == nil {
			t.Error("no error")
		}
	}
	if f.asks != 3 {
		t.Errorf("%d queries in 3 rounds", f.asks)
	}
}

func TestAQueryThatFailsForEveryNamespaceIsNotDividedInEachRound(t *testing.T) {
	f := &fakeAsker{down: &fetch.StatusError{Code: 400}}
	s := newSharer(f, fakeLimits)
	names := []string{}
	for i := range 100 {
		names = append(names, fmt.Sprintf("ns-%02d", i))
	}
	for round := range wholeAfter {
		f.asks = 0
		if _, err := s.roundOf(t.Context(), slotsIn(names...)); err == nil || len(s.offences) > 0 {
			t.Errorf("round %d: %v, offences %v", round, err, s.offences)
		}
		if round > fruitless && f.asks != 1 {
			t.Errorf("round %d: %d queries", round, f.asks)
		}
	}
}

func TestANeighborWhoseQueryIsSlowIsIsolated(t *testing.T) {
	f := &fakeAsker{does: map[string]neighbor{"evil": {slow: true}, "victim": {series: 3}}}
	s := newSharer(f, fakeLimits)
	slots := slotsIn("a", "b", "evil", "victim")
	for round := range 6 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		got, err := s.roundOf(ctx, slots)
		cancel()
		if round >= 3 && (err != nil || !got["victim"].Known || !got["a"].Known || got["evil"].Known) {
			t.Errorf("round %d: %+v, %v", round, got, err)
		}
	}
	if s.offences["evil"] != LimitRefused || len(s.offences) != 1 {
		t.Errorf("offences %v", s.offences)
	}
}

func TestANamespaceWithoutAPolicyIsNamedToo(t *testing.T) {
	f := &fakeAsker{does: map[string]neighbor{"a": {series: 1}, "b": {series: 1}}, outside: 500}
	s := newSharer(f, fakeLimits)
	for range wholeAfter + 1 {
		if got, err := s.roundOf(t.Context(), slotsIn("a", "b")); err != nil || !got["a"].Known || !got["b"].Known {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if s.outside["outside"] != LimitSeries {
		t.Errorf("outside %v", s.outside)
	}
}

func TestOnlyAQueryThatKeepsNamespacesApartIsDivided(t *testing.T) {
	for query, want := range map[string]bool{
		`sum by (namespace, pool) (queue_size)`:                                true,
		`sum by (pool) (queue_size)`:                                           false,
		`sum without (pod) (queue_size)`:                                       true,
		`sum without (namespace) (queue_size)`:                                 false,
		`queue_size`:                                                           true,
		`sum by (namespace) (a) / sum by (namespace) (b)`:                      true,
		`sum by (namespace) (a) / on (namespace) b`:                            true,
		`sum by (namespace) (a) / ignoring (namespace) b`:                      false,
		`sum by (namespace) (a) / on () group_left sum(b)`:                     false,
		`sum by (namespace) (a) / scalar(sum(b))`:                              false,
		`sum by (namespace) (a) / scalar(vector(2))`:                           true,
		`sum by (namespace) (a) or vector(0)`:                                  true,
		`a and absent(b)`:                                                      false,
		`label_replace(a, "pool", "$1", "p", "(.*)")`:                          true,
		`label_replace(sum by (ns) (a), "namespace", "$1", "ns", "(.*)")`:      false,
		`histogram_quantile(0.9, sum by (le, namespace) (rate(x_bucket[5m])))`: true,
		`max_over_time(sum by (namespace) (rate(a[1m]))[1h:])`:                 true,
		`-topk by (namespace) (3, a) * (sum by (namespace) (b) > bool 2)`:      true,
		`topk(3, a)`: false,
	} {
		expr, err := promql.ParseExpr(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := separable(expr, "namespace"); got != want {
			t.Errorf("%s: separable %t, want %t", query, got, want)
		}
	}
}

// Polls of one namespace that hang take no turn from the others for longer than one poll lasts.
func TestTurnsGoRoundBetweenNamespaces(t *testing.T) {
	turns := newTurns()
	enter := func(owner string, admitted chan<- string) {
		go func() {
			if _, err := turns.enter(t.Context(), owner); err == nil {
				admitted <- owner
			}
		}()
	}
	waits := func(n int) {
		for {
			turns.mu.Lock()
			have := turns.total
			for _, w := range turns.waiting {
				have += len(w)
			}
			turns.mu.Unlock()
			if have == n {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	admitted := make(chan string, 1000)
	for i := range 100 {
		enter("evil", admitted)
		waits(i + 1)
	}
	if len(admitted) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	for range maxAlone {
		if got := <-admitted; got != "evil" {
			t.Fatal(got)
		}
	}
	enter("victim", admitted)
	enter("", admitted)
	got := []string{<-admitted, <-admitted}
	slices.Sort(got)
	if !slices.Equal(got, []string{"", "victim"}) {
		t.Fatalf("admitted %q beside an owner that waits with 98 polls", got)
	}
	enter("second", admitted)
	waits(maxConcurrent + 99)
	turns.release("evil")
	turns.release("victim")
	got = []string{<-admitted, <-admitted}
	slices.Sort(got)
	if !slices.Equal(got, []string{"evil", "second"}) {
		t.Fatalf("admitted %q, want one poll of each that waits", got)
	}
	select {
	case more := <-admitted:
		t.Errorf("%q is admitted as well: more than %d at once", more, maxConcurrent)
	default:
	}
}

func TestAPollThatStopsWaitingLeavesItsTurnToTheNext(t *testing.T) {
	turns := newTurns()
	ctx, cancel := context.WithCancel(t.Context())
	for range maxConcurrent {
		if _, err := turns.enter(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
	stopped := make(chan error)
	go func() { _, err := turns.enter(ctx, "a"); stopped <- err }()
	cancel()
	if err := <-stopped; err == nil {
		t.Fatal("admitted beyond the bound")
	}
	turns.release("")
	release, err := turns.enter(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	release()
	turns.mu.Lock()
	defer turns.mu.Unlock()
	if turns.total != maxConcurrent-1 || len(turns.waiting) > 0 || len(turns.order) > 0 {
		t.Errorf("%d run, %d wait", turns.total, len(turns.waiting))
	}
}
