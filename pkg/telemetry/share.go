package telemetry

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promapi"
)

// One query serves all namespaces, so one namespace could make it fail for all of them: by more series than an answer may have, or by
// series over which the server refuses the query. A sharer then divides the query: it asks for parts of the namespaces, and divides
// each part that fails again, until the namespaces that fail are alone. Those are offenders. The others are put together again, so
// that under attack a round costs one query for them and one for each offender.
const (
	// maxAsks bounds the queries of one round of a divided query. It isolates one offender of 1,000 namespaces within a round.
	maxAsks = 24
	// wholeAfter is the number of rounds after which a divided query is asked undivided again, and after which parts that failed
	// together are put together again.
	wholeAfter = 20
	// fruitless is the number of rounds without any success after which a query is no longer divided: the query itself is at fault.
	fruitless = 4
	// maxWait is the number of rounds for which an offender is left out at most. The wait doubles with each failure.
	maxWait = 8
)

// asker asks one shared query.
type asker interface {
	// ask fills p.out. An error makes p.out void.
	ask(ctx context.Context, p *part) (bytes int64, err error)
	// divisible reports whether the query restricted to some namespaces gives each of them the same value.
	divisible() bool
}

// part is what one query asks for.
type part struct {
	slots      []slot
	out        []scaling.Reading
	namespaces []string // the query is restricted to them; nil: it is not
	limits     promapi.Limits
	round      int
	series     map[string]int // by namespace, also of an answer that was cut
	total      int
}

// count counts a series of the answer. The whole query's are not told apart: a map access for each series would cost every round.
func (p *part) count(namespace string) {
	p.total++
	if p.series != nil {
		p.series[namespace]++
	}
}

// noPods is the error of a part without a pod, for which no query is needed. In a divided query it is none.
func (p *part) noPods() error {
	if p.namespaces == nil {
		return errNoPods
	}
	return nil
}

// section is some namespaces of a divided query.
type section struct {
	namespaces []string // sorted
	merged     bool     // of sections that succeeded alone
	ok         bool     // its last answer was usable
	waited     int      // rounds since it was asked last
	series     int      // of its last usable answer
	bytes      int64
	limit      Limit // that one namespace alone exceeded
	cause      error // why it has no answer in this round
	fails      int
	next       int // the round from which on an offender is asked again
}

// sharer is the fetcher of a shared query.
type sharer struct {
	asker  asker
	limits promapi.Limits

	round    int
	sections []*section // nil: the query is not divided
	wholeAt  int        // the round in which it is asked undivided again
	mergeAt  int
	paused   int // no division before this round
	vain     int // rounds in a row without success
	users    []string
	offences map[string]Limit // by namespace
	outside  map[string]Limit // by namespace, of the undivided query; nil: not counted yet
}

func newSharer(a asker, l promapi.Limits) *sharer { return &sharer{asker: a, limits: l} }

func (s *sharer) fetch(ctx context.Context, slots []slot, out []scaling.Reading) (bytes int64, err error) {
	s.round++
	if s.sections == nil || s.round >= s.wholeAt {
		whole := &part{slots: slots, out: out, limits: s.limits, round: s.round}
		if s.sections != nil {
			whole.series = map[string]int{}
		}
		bytes, err = s.asker.ask(ctx, whole)
		if err == nil {
			s.sections, s.offences, s.outside, s.vain = nil, nil, nil, 0
			return bytes, nil
		}
		if limitOf(err) == "" || !s.divide(slots, err) {
			return bytes, err
		}
		s.nameOutside(whole)
		empty(out)
		if ctx.Err() != nil {
			return bytes, err // no time is left: the next round asks for the sections
		}
	}
	n, err := s.fetchSections(ctx, slots, out)
	return bytes + n, err
}

// divide makes the first sections of a query that failed; false where the query is not to be divided.
func (s *sharer) divide(slots []slot, cause error) bool {
	if !s.asker.divisible() {
		return false
	}
	users := namespacesOf(slots)
	if s.round < s.paused && slices.Equal(users, s.users) {
		return false
	}
	s.wholeAt = s.round + wholeAfter
	if s.sections != nil {
		return true
	}
	s.users, s.vain, s.mergeAt = users, 0, 0
	all := &section{namespaces: users}
	s.sections = []*section{all}
	if errors.Is(cause, context.DeadlineExceeded) && len(users) > 1 {
		s.sections = all.halves() // asked for all of them again it would take the whole round again
	}
	return true
}

// nameOutside names the namespaces that fill the answer of the undivided query, by series that no section asks for: those without a
// policy, and those with labels that contradict each other.
func (s *sharer) nameOutside(whole *part) {
	if whole.series == nil {
		return
	}
	s.outside = map[string]Limit{}
	for namespace, n := range whole.series {
		if n > s.share().Series && len(validation.IsDNS1123Label(namespace)) == 0 {
			s.outside[namespace] = LimitSeries
		}
	}
}

// share is what a namespace may have of an answer while the whole does not fit. A namespace that uses the source alone may have it all.
func (s *sharer) share() promapi.Limits {
	l := s.limits
	if len(s.users) > 1 {
		l.Series, l.Bytes = max(l.Series/2, 1), max(l.Bytes/2, 1)
	}
	return l
}

// fetchSections asks for each section, and divides those that fail.
func (s *sharer) fetchSections(ctx context.Context, slots []slot, out []scaling.Reading) (bytes int64, err error) {
	s.align(slots)
	queue, asked, good := s.inOrder(), 0, 0
	var done []*section
	for len(queue) > 0 {
		sec := queue[0]
		queue = queue[1:]
		if s.round < sec.next && sec.limit != "" {
			done = append(done, sec) // an offender that waits
			continue
		}
		if asked == maxAsks || ctx.Err() != nil {
			sec.cause, sec.waited = errNotAsked, sec.waited+1
			done = append(done, sec)
			continue
		}
		asked++
		pieces, n := s.askSection(ctx, sec, slots, out)
		bytes += n
		queue = append(queue, pieces...) // behind those that were not asked yet, so that no namespace waits for another's search
		if pieces == nil {
			done = append(done, sec)
		}
		if sec.cause == nil {
			good++
		} else {
			err = sec.cause
		}
	}
	s.sections = done
	if good == 0 {
		return bytes, s.failed(done, err)
	}
	s.vain = 0
	s.settle(slots, out)
	return bytes, nil
}

var errNotAsked = errors.New("not asked in this round: no time or no query was left for it")

// failed handles a round without any success. Where every section was asked, or several such rounds follow each other, the query or
// the server is at fault and not a namespace.
func (s *sharer) failed(done []*section, err error) error {
	s.vain++
	all := !slices.ContainsFunc(done, func(sec *section) bool { return errors.Is(sec.cause, errNotAsked) })
	if err == nil {
		err = errNotAsked
	}
	if limitOf(err) != "" && (all || s.vain >= fruitless) {
		s.sections, s.offences, s.outside = nil, nil, nil
		s.paused = s.round + wholeAfter
	}
	return err
}

// askSection asks for one section. It returns the pieces of a section that failed and is to be asked in pieces.
func (s *sharer) askSection(ctx context.Context, sec *section, slots []slot, out []scaling.Reading) (pieces []*section, bytes int64) {
	p := s.partOf(sec, slots)
	if deadline, ok := ctx.Deadline(); ok { // a section that is slow leaves half of the time to the others
		left := time.Until(deadline) // I/O edge: the poll's time-out
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left/2)
		defer cancel()
	}
	bytes, err := s.asker.ask(ctx, p)
	limit := limitOf(err)
	sec.ok, sec.cause, sec.limit, sec.waited = err == nil, err, "", 0
	switch {
	case err == nil:
		sec.series, sec.bytes, sec.fails, sec.next = p.total, bytes, 0, 0
		p.scatter(slots, out)
	case limit == "":
	case len(sec.namespaces) > 1:
		if sec.merged {
			s.mergeAt = s.round + wholeAfter
		}
		return sec.pieces(p.series, s.share().Series), bytes
	default:
		sec.limit, sec.fails = limit, sec.fails+1
		sec.next = s.round + min(1<<min(sec.fails-1, 8), maxWait)
	}
	return nil, bytes
}

// settle fills in what the sections that failed make of their slots, and puts those that succeeded together for the next round.
func (s *sharer) settle(slots []slot, out []scaling.Reading) {
	s.offences = map[string]Limit{}
	if s.outside == nil {
		s.wholeAt = s.round + 1 // counted by namespace this time
	}
	causes := map[string]scaling.Cause{}
	for _, sec := range s.sections {
		if sec.cause == nil {
			continue
		}
		for _, namespace := range sec.namespaces {
			causes[namespace] = causeOf(sec.cause)
		}
		if sec.limit != "" {
			s.offences[sec.namespaces[0]] = sec.limit
		}
	}
	for i := range slots {
		if cause, failed := causes[slots[i].w.Key.Namespace]; failed {
			out[i] = scaling.Reading{Reported: -1, Cause: cause}
		}
	}
	if keeper, ok := s.asker.(interface {
		keep(namespaces map[string]scaling.Cause)
	}); ok {
		keeper.keep(causes)
	}
	if s.round >= s.mergeAt {
		s.sections = merged(s.sections, s.limits)
	}
}

// merged puts sections that succeeded together, as long as their answers fit into four fifths of one.
func merged(sections []*section, l promapi.Limits) (out []*section) {
	var open *section
	for _, sec := range sections {
		if sec.cause != nil {
			out = append(out, sec)
			continue
		}
		if open != nil && (open.series+sec.series)*5 <= l.Series*4 && (open.bytes+sec.bytes)*5 <= l.Bytes*4 {
			open.namespaces = slices.Sorted(slices.Values(append(open.namespaces, sec.namespaces...)))
			open.series, open.bytes, open.merged = open.series+sec.series, open.bytes+sec.bytes, true
			continue
		}
		open = sec
		out = append(out, sec)
	}
	return out
}

// inOrder lists the sections as they are asked: the small ones that succeeded last first, so that they are answered whatever the others
// do; then those that failed in turn with the large ones. Of each kind those come first that waited longest.
func (s *sharer) inOrder() []*section {
	var small, large, failed []*section
	for _, sec := range s.sections {
		switch {
		case !sec.ok:
			failed = append(failed, sec)
		case sec.series*8 <= s.share().Series && sec.bytes*8 <= s.share().Bytes:
			small = append(small, sec)
		default:
			large = append(large, sec)
		}
	}
	for _, kind := range [][]*section{small, large, failed} {
		slices.SortStableFunc(kind, func(a, b *section) int {
			return cmp.Or(cmp.Compare(b.waited, a.waited), cmp.Compare(a.fails, b.fails), cmp.Compare(a.series, b.series))
		})
	}
	for i := range max(len(large), len(failed)) {
		if i < len(large) {
			small = append(small, large[i])
		}
		if i < len(failed) {
			small = append(small, failed[i])
		}
	}
	return small
}

// align fits the sections to the namespaces of the slots, which come and go.
func (s *sharer) align(slots []slot) {
	s.users = namespacesOf(slots)
	have := map[string]bool{}
	for _, sec := range s.sections {
		sec.namespaces = slices.DeleteFunc(sec.namespaces, func(n string) bool {
			_, uses := slices.BinarySearch(s.users, n)
			have[n] = uses
			return !uses
		})
	}
	s.sections = slices.DeleteFunc(s.sections, func(sec *section) bool { return len(sec.namespaces) == 0 })
	fresh := &section{}
	for _, n := range s.users {
		if !have[n] {
			fresh.namespaces = append(fresh.namespaces, n)
		}
	}
	if len(fresh.namespaces) > 0 {
		s.sections = append(s.sections, fresh)
	}
}

// pieces takes a section apart: the namespaces that exceed their share of series are put alone; without such a one it is halved.
func (sec *section) pieces(series map[string]int, share int) []*section {
	rest := &section{fails: sec.fails + 1}
	var out []*section
	for _, n := range sec.namespaces {
		if series[n] > share {
			out = append(out, &section{namespaces: []string{n}, fails: sec.fails + 1})
		} else {
			rest.namespaces = append(rest.namespaces, n)
		}
	}
	if len(out) == 0 {
		return sec.halves()
	}
	if len(rest.namespaces) > 0 {
		out = append([]*section{rest}, out...)
	}
	return out
}

func (sec *section) halves() []*section {
	middle := len(sec.namespaces) / 2
	return []*section{
		{namespaces: slices.Clone(sec.namespaces[:middle])},
		{namespaces: slices.Clone(sec.namespaces[middle:])},
	}
}

// partOf gathers the slots of a section.
func (s *sharer) partOf(sec *section, slots []slot) *part {
	p := &part{namespaces: sec.namespaces, limits: s.limits, round: s.round, series: map[string]int{}}
	if len(sec.namespaces) == 1 {
		p.limits = s.share()
	}
	for i := range slots {
		if _, is := slices.BinarySearch(sec.namespaces, slots[i].w.Key.Namespace); is {
			p.slots = append(p.slots, slots[i])
		}
	}
	p.out = make([]scaling.Reading, len(p.slots))
	empty(p.out)
	return p
}

// scatter puts the readings of a part where the group's slots have theirs.
func (p *part) scatter(slots []slot, out []scaling.Reading) {
	next := 0
	for i := range slots {
		if _, is := slices.BinarySearch(p.namespaces, slots[i].w.Key.Namespace); is {
			out[i] = p.out[next]
			next++
		}
	}
}

func empty(out []scaling.Reading) {
	for i := range out {
		out[i] = scaling.Reading{Reported: -1, Cause: scaling.CauseEmpty}
	}
}

// namespacesOf lists the namespaces of slots, sorted.
func namespacesOf(slots []slot) []string {
	seen := map[string]bool{}
	var out []string
	for i := range slots {
		if n := slots[i].w.Key.Namespace; !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

// limitOf says which limit an answer exceeded, or "" for an error that the series of a single namespace do not cause: a server that
// is down, or does not accept our credentials.
func limitOf(err error) Limit {
	var status *fetch.StatusError
	var api *promapi.APIError
	switch {
	case errors.Is(err, promapi.ErrSeries):
		return LimitSeries
	case errors.Is(err, fetch.ErrTruncated):
		return LimitBytes
	case errors.Is(err, context.DeadlineExceeded):
		return LimitRefused
	case errors.As(err, &status):
		tooSlow := status.Code == 503 && strings.Contains(status.Body, `"errorType":"timeout"`)
		if tooSlow || slices.Contains([]int{400, 413, 414, 422}, status.Code) {
			return LimitRefused
		}
	case errors.As(err, &api):
		if slices.Contains([]string{"execution", "bad_data", "timeout", "canceled"}, api.Type) {
			return LimitRefused
		}
	}
	return ""
}
