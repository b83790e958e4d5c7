package tracefile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace/readable"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
)

// logBuilder collects the rows of a request log in any format.
type logBuilder struct {
	o     Options
	clock timestamp.Parser
	thin  reproducible.Draws
	all   []trace.Request // requests; At is the time in the file until finish is called, and then the time since the start
	first int64           // time of the first row
	early int64           // time of the earliest row
	// time of the latest row; like first and early, it includes rows that the filter removes, so that the logs of two models in one file have
	// the same start
	latest int64
	seen   logCounts
}

// logCounts counts the rows of a log by kind, for the notes of the trace.
type logCounts struct {
	rows, backwards, filtered, dropped    int
	zeroOutput, failed, headers, statuses int
	// noTokens and noService count requests without token counts and without a service time; noWork counts requests with a service time of 0.
	noTokens, noService, noWork int
	milliseconds                bool          // toMilliseconds has changed the unit
	furthest                    time.Duration // longest time by which a row is earlier than a previous row
	strange                     string        // a status whose meaning is unknown
}

func newLogBuilder(o Options) *logBuilder {
	return &logBuilder{o: o, clock: timestamp.Parser{Unit: o.TimeUnit, Layout: o.TimeLayout, Location: o.Location},
		thin: reproducible.Numbered(o.Seed, "thin", 0)}
}

// add parses one row and passes its request to keep, unless a filter removes the row.
func (b *logBuilder) add(p input.Place, l *layout, row []string) *trace.Error {
	cell := l.cell(row, roleTime)
	ns, allowed := b.clock.Parse(cell)
	if allowed != "" && b.toMilliseconds() { // a number above 1e8 cannot be seconds since the start
		ns, allowed = b.clock.Parse(cell)
	}
	if allowed != "" {
		return p.Refuse("timestamp "+input.Quote(cell), allowed)
	}
	seconds := !b.seen.milliseconds
	if err := b.inOrder(p, ns, cell); err != nil {
		return err
	}
	if seconds && b.seen.milliseconds { // the unit was changed from seconds to milliseconds because of this row
		ns /= 1000
	}
	if !l.keeps(row) {
		b.seen.filtered++
		return nil
	}
	r := trace.Request{At: time.Duration(ns)}
	var err *trace.Error
	if r.InputTokens, err = tokens(p, roleInput, l.cell(row, roleInput)); err != nil {
		return err
	}
	if r.OutputTokens, err = tokens(p, roleOutput, l.cell(row, roleOutput)); err != nil {
		return err
	}
	if l.at[roleService] != absent {
		if r.Service, err = b.serviceTime(p, l, row); err != nil {
			return err
		}
	}
	r.Failed = b.failed(l.cell(row, roleStatus))
	return b.keep(p, r, l.at[roleStatus] != absent)
}

// inOrder returns an error if the time of a row is more than MaxBackwards before the time of an earlier row, or more than trace.MaxDuration
// after the first row.
func (b *logBuilder) inOrder(p input.Place, ns int64, cell string) *trace.Error {
	if b.seen.rows == 0 {
		b.first, b.early, b.latest = ns, ns, ns
	}
	b.seen.rows++
	back := time.Duration(b.latest - ns)
	switch {
	case back > b.o.MaxBackwards:
		return p.Refuse(fmt.Sprintf("timestamp %s, %v before an earlier row", input.Quote(cell), back),
			fmt.Sprintf("rows in the order of time, or up to %v earlier (maxBackwards); one hour earlier may be the end of summer time: set the "+
				"time zone", b.o.MaxBackwards))
	case back > 0:
		b.seen.backwards++
		b.seen.furthest = max(b.seen.furthest, back)
	case time.Duration(ns-b.first) > trace.MaxDuration || b.clock.Kind == timestamp.Relative && time.Duration(ns) > trace.MaxDuration:
		if b.toMilliseconds() {
			b.latest = max(b.latest, ns/1000)
			return nil
		}
		return p.Refuse(fmt.Sprintf("timestamp %s, more than 400 days after the start", input.Quote(cell)),
			"at most 400 days; or another timeUnit")
	}
	b.early, b.latest = min(b.early, ns), max(b.latest, ns)
	return nil
}

// minMillisecondRows, minMillisecondSpan and minMillisecondGap are the conditions under which timestamps that could be seconds are read as
// milliseconds. The traces of BurstGPT must not match them: their timestamps are integer seconds since the start, they are months long, and
// they have a request every 2 to 4 s.
const (
	minMillisecondRows = 100
	minMillisecondSpan = 1_000_000 * time.Second // minimum span if the numbers were seconds: more than 11 days
	minMillisecondGap  = 10 * time.Second        // minimum of the mean time between requests, if the numbers were seconds
)

// toMilliseconds changes the unit of the log from seconds to milliseconds, and reports whether it did. It changes only logs of at least
// minMillisecondRows rows whose timestamps are integers since the start and have no known unit.
func (b *logBuilder) toMilliseconds() bool {
	if b.clock.Unit != timestamp.Auto || b.clock.Layout != "" || b.clock.Kind != timestamp.Relative || b.clock.Exact ||
		b.seen.rows < minMillisecondRows {
		return false
	}
	b.clock.Unit, b.seen.milliseconds = timestamp.Milliseconds, true
	b.first, b.early, b.latest = b.first/1000, b.early/1000, b.latest/1000
	b.seen.furthest /= 1000
	for i := range b.all {
		b.all[i].At /= 1000
	}
	return true
}

// keep stores the request, unless Options.DropFailed excludes it or it is not in the random share of requests that Options.Scale selects.
func (b *logBuilder) keep(p input.Place, r trace.Request, hasStatus bool) *trace.Error {
	zero := r.OutputTokens == 0
	if zero {
		b.seen.zeroOutput++
	}
	if r.Failed {
		b.seen.failed++
	}
	if b.o.DropFailed && (r.Failed || zero && !hasStatus) {
		b.seen.dropped++
		return nil
	}
	if b.o.Scale < 1 && b.thin.Uniform() >= b.o.Scale {
		return nil
	}
	if r.InputTokens == trace.UnknownTokens || r.OutputTokens == trace.UnknownTokens {
		b.seen.noTokens++
	}
	if len(b.all) == b.o.MaxRequests {
		return p.Refuse(fmt.Sprintf("more than %d requests", b.o.MaxRequests), "fewer, or a higher maxRequests (40 bytes of memory each)")
	}
	b.all = append(b.all, r)
	return nil
}

// tokens returns the token count in a cell. It returns trace.UnknownTokens for an empty cell and for null.
func tokens(p input.Place, r role, cell string) (int, *trace.Error) {
	if cell == "" || cell == "null" {
		return trace.UnknownTokens, nil
	}
	n, ok := input.Digits(strings.TrimSuffix(cell, ".0")) // pandas writes integers as 374.0 in a column with empty cells
	if !ok || n > trace.MaxTokens {
		return 0, p.Refuse(roleNames[r]+" "+input.Quote(cell), fmt.Sprintf("a whole number 0 to %d, or nothing", trace.MaxTokens))
	}
	return int(n), nil
}

// failed reports whether a status means that the request failed. The status is an HTTP or gRPC code, or a word such as "error". An unknown
// word counts as success.
func (b *logBuilder) failed(status string) bool {
	if status == "" || status == "null" {
		return false
	}
	if n, err := strconv.Atoi(status); err == nil {
		return n >= 400 || n > 0 && n <= 16 // HTTP codes from 400 on and gRPC codes 1 to 16 are errors
	}
	switch strings.ToLower(status) {
	case "ok", "success", "succeeded", "successful", "complete", "completed", "done", "finished", "true":
		return false
	case "error", "fail", "failed", "failure", "timeout", "cancelled", "canceled", "aborted", "rejected", "false":
		return true
	}
	b.seen.statuses++
	b.seen.strange = status
	return false
}

// finish sorts the requests, makes their times relative to the start of the log, fills unknown token counts, and selects the requests
// within From..To.
func (b *logBuilder) finish(p input.Place, t *contents) *trace.Error {
	span := time.Duration(b.latest - b.early)
	if span >= minMillisecondSpan && span/time.Duration(b.seen.rows) >= minMillisecondGap {
		b.toMilliseconds()
	}
	if b.seen.backwards > 0 {
		slices.SortStableFunc(b.all, func(x, y trace.Request) int { return cmp.Compare(x.At, y.At) })
	}
	t.Notes = append(t.Notes, b.notes()...)
	origin := time.Duration(0)
	if b.clock.Kind == timestamp.Absolute {
		origin = time.Duration(b.early)
		t.Start = time.Unix(0, int64(origin)).UTC()
	}
	fill := reproducible.Numbered(b.o.Seed, "tokens", 0)
	for i := range b.all {
		b.all[i].At -= origin
		b.o.Tokens.Fill(&b.all[i], &fill)
	}
	return b.slice(p, t, max(time.Duration(b.latest)-origin, b.o.Duration))
}

// slice sets the requests and the duration of t to the part From..To of a log. full is the duration of the whole log.
func (b *logBuilder) slice(p input.Place, t *contents, full time.Duration) *trace.Error {
	before := func(at time.Duration) int {
		i, _ := slices.BinarySearchFunc(b.all, at, func(r trace.Request, at time.Duration) int { return cmp.Compare(r.At, at) })
		return i
	}
	t.requests = b.all[before(b.o.From):before(b.o.end())]
	if len(t.requests) == 0 {
		return input.Place{File: p.File}.Refuse("no requests", "at least one within the slice and the filters")
	}
	for i := range t.requests {
		t.requests[i].At -= b.o.From
	}
	t.Duration = min(full, b.o.end()) - b.o.From
	if !t.Start.IsZero() {
		t.Start = t.Start.Add(b.o.From)
	}
	return nil
}

func (b *logBuilder) notes() []string {
	var n notes
	c := b.seen
	if b.clock.NoZone {
		n.say("timestamps without a time zone are read as " + b.o.Location.String())
	}
	if c.milliseconds {
		n.say("timestamps are read as milliseconds since the start, because as seconds they would span months; set timeUnit if that is wrong")
	}
	n.count(c.backwards, fmt.Sprintf("rows up to %v before an earlier row, sorted", c.furthest))
	n.count(c.headers, "repeated header lines, skipped")
	n.count(c.filtered, "rows filtered out")
	n.count(c.failed, "failed rows, "+map[bool]string{false: "kept, because they are load", true: "dropped"}[b.o.DropFailed])
	n.count(c.zeroOutput, "rows with 0 output tokens (failed, or embeddings)")
	n.count(c.dropped, "failed rows dropped")
	n.count(c.noService, "rows without a service time")
	n.count(c.noWork, "rows with a service time of 0")
	n.count(c.statuses, "rows with a status such as "+input.Quote(c.strange)+", read as a success")
	switch {
	case c.noTokens < len(b.all):
		n.count(c.noTokens, "rows without a token count")
	case b.o.Tokens == nil:
		n.say("token counts are not recorded")
	}
	return n
}

// notes are the remarks about a file.
type notes []string

func (n *notes) say(text string) { *n = append(*n, text) }

// count adds the note "what: times" if times is above 0.
func (n *notes) count(times int, what string) {
	if times > 0 {
		n.say(fmt.Sprintf("%s: %s", what, readable.Count(times)))
	}
}
