package promquery

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// Limits for a query that is divided into sections (sets of namespaces). A round is one poll.
const (
	// maxQueries is the greatest number of queries in one round. This is enough to isolate one of 1,000 namespaces in one round.
	maxQueries = 24
	// undividedInterval is the number of rounds after which a divided query is sent undivided again, to test whether it works. If a merged
	// section fails, no sections are merged for the same number of rounds.
	undividedInterval = 20
	// maxFailedRounds is the number of consecutive rounds without any success after which division is paused. After so many failures, the
	// cause is the query or the server, and not the series of one namespace.
	maxFailedRounds = 4
	// maxBackoff is the greatest number of rounds for which a namespace that exceeds a limit is not queried. The number of rounds doubles with
	// each failure.
	maxBackoff = 8
	// quickPart defines which sections are quick: a section is quick if it takes at most 1/quickPart of the time of a round. Sections are
	// merged only if the merged section is quick. The merged section contains all namespaces within their limits. Because it is quick, these
	// namespaces are read even if other sections need most of the round.
	quickPart = 8
)

// Fetcher implements source.Fetcher. In each round (one poll) it sends one query that the requests of all namespaces share, and returns the
// readings of these requests.
//
// One namespace can therefore make the query fail for all namespaces: it can have more series than a response may contain, or series for
// which the server rejects the query. A Fetcher then divides the query into sections. Each section is a query for some of the namespaces. A
// section that fails is divided again, until each namespace that causes a failure is alone in a section. Sections that succeed are merged
// again. A round then needs about one query for all namespaces within their limits, and one query for each namespace that exceeds a limit.
type Fetcher struct {
	query  sharedQuery
	limits promapi.Limits

	round        int
	quick        time.Duration // maximum duration of a quick section
	sections     []*section    // sections of the query; nil: the query is not divided
	undividedAt  int           // the round in which the query is sent undivided again
	mergeAt      int           // the round from which sections are merged
	pausedUntil  int           // the round before which division is paused
	failedRounds int           // consecutive rounds without success
	incomplete   int           // number of consecutive undivided queries with an incomplete response
	namespaces   []string      // namespaces of the requests, sorted
	violations   map[string]Limit
	outside      map[string]Limit // namespaces without a section that exceed a limit of the undivided query; nil: not determined yet
}

func newFetcher(q sharedQuery, l promapi.Limits) *Fetcher { return &Fetcher{query: q, limits: l} }

// Fetch implements source.Fetcher. The readings of a namespace that exceeds a limit are missing.
func (f *Fetcher) Fetch(ctx context.Context, requests []source.Request, out []scaling.Reading) (bytes int64, err error) {
	f.round++
	if q, ok := f.query.(*gaugeQuery); ok {
		defer q.endRound()
	}
	f.quick = timeLeft(ctx) / quickPart
	if f.sections == nil || f.round >= f.undividedAt {
		whole := &part{requests: requests, out: out, limits: f.limits}
		bytes, err = f.fetchUndivided(ctx, whole)
		if f.sections == nil && errors.Is(err, fetch.ErrIncomplete) {
			// The undivided query is repeated once. Without the repetition, a single lost connection would make all signals of the query missing
			// until the next poll.
			source.SetEmpty(out)
			var n int64
			whole = &part{requests: requests, out: out, limits: f.limits}
			n, err = f.fetchUndivided(ctx, whole)
			bytes += n
		}
		f.countIncomplete(err)
		if err == nil {
			f.sections, f.violations, f.outside, f.failedRounds, f.pausedUntil = nil, nil, nil, 0, 0
			return bytes, nil
		}
		if f.limitOfResponse(err) == "" || !f.query.divisible() {
			return bytes, err
		}
		f.divide(requests, err)
		f.findOutside(whole)
		source.SetEmpty(out)
		if ctx.Err() != nil || f.paused() {
			return bytes, err // no time is left, or division is paused and this round has sent its query; the next round queries sections
		}
	}
	n, err := f.fetchSections(ctx, requests, out)
	return bytes + n, err
}

// fetchUndivided sends the undivided query: one query for all namespaces. If the query is currently divided into sections, this is a test
// of whether the undivided query works again. The test may use half of the time of the poll, so that the sections can still be queried.
func (f *Fetcher) fetchUndivided(ctx context.Context, whole *part) (bytes int64, err error) {
	if f.sections != nil {
		whole.series = map[string]int{}
	}
	if f.sections != nil && !f.paused() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeLeft(ctx)/2)
		defer cancel()
	}
	return f.query.run(ctx, whole)
}

// timeLeft returns the time until the deadline of ctx. If ctx has no deadline, it returns a very long time.
func timeLeft(ctx context.Context) time.Duration {
	if deadline, ok := ctx.Deadline(); ok {
		return time.Until(deadline) // may use the clock: the time limit of the poll
	}
	return math.MaxInt64
}

// FailedPart implements source.Divided.
func (f *Fetcher) FailedPart(c scaling.Cause) error {
	for _, s := range f.sections {
		if s.cause != nil && source.CauseOf(s.cause) == c {
			return s.cause
		}
	}
	return nil
}

// Violations returns the namespaces that exceeded a limit in the last round.
func (f *Fetcher) Violations() (out []Violation) {
	for namespace, limit := range f.violations {
		out = append(out, Violation{Namespace: namespace, Limit: limit})
	}
	for namespace, limit := range f.outside {
		_, is := slices.BinarySearch(f.namespaces, namespace)
		out = append(out, Violation{Namespace: namespace, Limit: limit, Outside: !is})
	}
	return out
}

// divide creates the first sections of the shared query after the undivided query failed. If there are sections already, divide keeps
// them.
func (f *Fetcher) divide(requests []source.Request, cause error) {
	if f.undividedAt = f.round + undividedInterval; f.paused() {
		f.undividedAt = f.round + 2
	}
	if f.sections != nil {
		return
	}
	f.namespaces, f.failedRounds, f.mergeAt, f.pausedUntil = namespacesOf(requests), 0, 0, 0
	f.sections = []*section{{namespaces: f.namespaces}}
	if errors.Is(cause, context.DeadlineExceeded) {
		f.halve() // one section with all namespaces would fail again and use up the time of this round
	}
}

// paused reports whether the division into sections is paused. While it is paused, a round sends only one query: alternately the
// undivided query and the query of one section. If the query of the section succeeds, division continues in the same round.
func (f *Fetcher) paused() bool { return f.round < f.pausedUntil }

// halve replaces all sections with two sections that have half of the namespaces each. If there is only one namespace, it creates one
// section.
func (f *Fetcher) halve() {
	all := &section{namespaces: f.namespaces}
	if f.sections = []*section{all}; len(f.namespaces) > 1 {
		f.sections = all.halves()
	}
}

// findOutside finds namespaces that have no section, but more series in the response to the undivided query than one namespace may have.
// Either no policy of these namespaces uses the query, or the labels of their series contradict each other.
func (f *Fetcher) findOutside(whole *part) {
	if whole.series == nil {
		return
	}
	f.outside = map[string]Limit{}
	for namespace, n := range whole.series {
		if n > f.share().Series && len(validation.IsDNS1123Label(namespace)) == 0 {
			f.outside[namespace] = LimitSeries
		}
	}
}

// share returns the limits of one namespace while the query is divided: half of the limits of a response. If only one namespace uses the
// query, it has the full limits.
func (f *Fetcher) share() promapi.Limits {
	l := f.limits
	if len(f.namespaces) > 1 {
		l.Series, l.Bytes = max(l.Series/2, 1), max(l.Bytes/2, 1)
	}
	return l
}

// fetchSections sends the queries of the sections, and divides the sections that fail.
func (f *Fetcher) fetchSections(ctx context.Context, requests []source.Request, out []scaling.Reading) (bytes int64, err error) {
	f.namespaces = namespacesOf(requests)
	queue, queries, succeeded := queryOrder(align(f.sections, f.namespaces), f.share(), f.quick), 0, 0
	most := maxQueries
	if f.paused() {
		most = 1
	}
	var done []*section
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		if f.round < s.retryAt && s.limit != "" {
			done = append(done, s) // the only namespace of the section exceeds a limit, so it is not queried in this round
			continue
		}
		if queries == most || ctx.Err() != nil {
			s.cause, s.waited = errNotQueried, s.waited+1
			done = append(done, s)
			continue
		}
		queries++
		pieces, n := f.fetchSection(ctx, s, requests, out)
		bytes += n
		// The smaller sections are appended to the queue, so that sections that were not queried yet do not wait for them.
		queue = append(queue, pieces...)
		if pieces == nil {
			done = append(done, s)
		}
		if s.cause == nil {
			succeeded, most, f.pausedUntil = succeeded+1, maxQueries, 0
		} else {
			err = s.cause
		}
	}
	f.sections = done
	if succeeded == 0 {
		return bytes, f.failRound(err)
	}
	f.failedRounds = 0
	f.finishRound(requests, out)
	return bytes, nil
}

var errNotQueried = errors.New("not queried in this round: no time or no query was left for it")

// failRound handles a round in which no section succeeded. The cause is the query or the server, and not the series of one namespace, in
// three cases: all sections failed, the last response was incomplete, or no section succeeded in maxFailedRounds consecutive rounds. In
// these cases the division into sections is paused for undividedInterval rounds. If there are several sections, a section that ran out of
// time is not regarded as failed, because an earlier section may have used up the time.
func (f *Fetcher) failRound(err error) error {
	f.failedRounds++
	several := len(f.sections) > 1
	all := errors.Is(err, fetch.ErrIncomplete) || !slices.ContainsFunc(f.sections, func(s *section) bool {
		return errors.Is(s.cause, errNotQueried) || several && tookTooLong(s.cause)
	})
	if err == nil {
		err = errNotQueried
	}
	if !f.paused() && f.limitOfResponse(err) != "" && (all || f.failedRounds >= maxFailedRounds) {
		f.halve()
		f.violations, f.outside = nil, nil
		f.pausedUntil, f.undividedAt = f.round+1+undividedInterval, f.round+2
	}
	return err
}

// fetchSection queries one section. If a section with several namespaces failed because of a limit, fetchSection returns smaller sections,
// which are queried instead.
func (f *Fetcher) fetchSection(ctx context.Context, s *section, requests []source.Request, out []scaling.Reading,
) (pieces []*section, bytes int64) {
	p := f.partOf(s, requests)
	left := timeLeft(ctx)
	limited := left
	if len(f.sections) > 1 && !f.paused() {
		limited /= 2 // a slow section leaves half of the time for the other sections
	}
	limitedCtx, cancel := context.WithTimeout(ctx, limited)
	defer cancel()
	bytes, err := f.query.run(limitedCtx, p)
	limit := f.limitOfResponse(err)
	s.took = left - timeLeft(ctx)
	s.ok, s.cause, s.limit, s.waited = err == nil, err, "", 0
	switch {
	case err == nil:
		s.series, s.bytes, s.failures, s.retryAt = p.total, bytes, 0, 0
		p.scatter(requests, out)
	case limit == "":
	case len(s.namespaces) > 1:
		if s.merged {
			f.mergeAt = f.round + undividedInterval
		}
		return s.pieces(p.series, f.share().Series), bytes
	case f.paused(): // while division is paused, the cause may be the server and not the section
	default:
		s.limit, s.failures = limit, s.failures+1
		s.retryAt = f.round + min(1<<min(s.failures-1, 8), maxBackoff)
	}
	return nil, bytes
}

// finishRound ends a round. It sets the readings of failed sections to missing, and merges the sections that succeeded for the next round.
func (f *Fetcher) finishRound(requests []source.Request, out []scaling.Reading) {
	f.violations = map[string]Limit{}
	if f.outside == nil {
		f.undividedAt = f.round + 1 // the next round sends the undivided query, whose series are counted for each namespace
	}
	causes := map[string]scaling.Cause{}
	for _, s := range f.sections {
		if s.cause == nil {
			continue
		}
		for _, namespace := range s.namespaces {
			causes[namespace] = source.CauseOf(s.cause)
		}
		if s.limit != "" {
			f.violations[s.namespaces[0]] = s.limit
		}
	}
	for i := range requests {
		if cause, failed := causes[requests[i].Namespace()]; failed {
			out[i] = source.Missing(cause)
		}
	}
	if q, ok := f.query.(*gaugeQuery); ok {
		q.keepTotals(causes)
	}
	if f.round >= f.mergeAt {
		f.sections = merge(f.sections, f.limits, f.quick)
	}
}

// partOf returns a part with the requests of a section.
func (f *Fetcher) partOf(s *section, requests []source.Request) *part {
	p := &part{namespaces: s.namespaces, limits: f.limits, series: map[string]int{}}
	if len(s.namespaces) == 1 {
		p.limits = f.share()
	}
	for i := range requests {
		if _, is := slices.BinarySearch(s.namespaces, requests[i].Namespace()); is {
			p.requests = append(p.requests, requests[i])
		}
	}
	p.out = make([]scaling.Reading, len(p.requests))
	source.SetEmpty(p.out)
	return p
}
