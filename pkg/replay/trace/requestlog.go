package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// logBuilder gathers the rows of a request log, whatever they were written in.
type logBuilder struct {
	o      Options
	clock  clock
	thin   source
	all    []Request // At is the instant as the file has it, until finish
	first  int64     // instants of the first row,
	early  int64     // of the earliest,
	latest int64     // and of the latest, filtered out or not: two models of one log share a clock
	seen   logCounts
}

// logCounts is what finish has to say about the rows.
type logCounts struct {
	rows, backwards, filtered, dropped    int
	zeroOutput, failed, headers, statuses int
	noTokens                              int
	furthest                              time.Duration // back behind a row above
	strange                               string        // a status that is neither success nor failure
}

func newLogBuilder(o Options) *logBuilder {
	return &logBuilder{o: o, clock: clock{unit: o.TimeUnit, layout: o.TimeLayout, location: o.Location}, thin: newSource(o.Seed, "thin", 0)}
}

// add takes one row.
func (b *logBuilder) add(p place, l *layout, row []string) *Error {
	cell := l.cell(row, roleTime)
	ns, allowed := b.clock.instant(cell)
	if allowed != "" {
		return p.refuse("timestamp "+quote(cell), allowed)
	}
	if err := b.inOrder(p, ns, cell); err != nil {
		return err
	}
	if !l.keeps(row) {
		b.seen.filtered++
		return nil
	}
	r := Request{At: time.Duration(ns)}
	var err *Error
	if r.InputTokens, err = tokens(p, roleInput, l.cell(row, roleInput)); err != nil {
		return err
	}
	if r.OutputTokens, err = tokens(p, roleOutput, l.cell(row, roleOutput)); err != nil {
		return err
	}
	r.Failed = b.failed(l.cell(row, roleStatus))
	return b.keep(p, r, l.at[roleStatus] != absent)
}

// inOrder lets a row be somewhat older than one above it, and no more.
func (b *logBuilder) inOrder(p place, ns int64, cell string) *Error {
	if b.seen.rows == 0 {
		b.first, b.early, b.latest = ns, ns, ns
	}
	b.seen.rows++
	back := time.Duration(b.latest - ns)
	switch {
	case back > b.o.MaxBackwards:
		return p.refuse(fmt.Sprintf("timestamp %s, %v behind a row above", quote(cell), back),
			fmt.Sprintf("rows in order of time, or up to %v behind (maxBackwards); an hour behind may be the end of summer time: give the zone", b.o.MaxBackwards))
	case back > 0:
		b.seen.backwards++
		b.seen.furthest = max(b.seen.furthest, back)
	case time.Duration(ns-b.first) > MaxDuration || b.clock.kind == relative && time.Duration(ns) > MaxDuration:
		return p.refuse(fmt.Sprintf("timestamp %s, more than 400 days after the start", quote(cell)), "at most 400 days; or another timeUnit")
	}
	b.early, b.latest = min(b.early, ns), max(b.latest, ns)
	return nil
}

// keep stores the request, unless it is dropped as failed or thinned out.
func (b *logBuilder) keep(p place, r Request, hasStatus bool) *Error {
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
	if b.o.Scale < 1 && b.thin.uniform() >= b.o.Scale {
		return nil
	}
	if r.InputTokens == UnknownTokens || r.OutputTokens == UnknownTokens {
		b.seen.noTokens++
	}
	if len(b.all) == b.o.MaxRequests {
		return p.refuse(fmt.Sprintf("more than %d requests", b.o.MaxRequests), "fewer, or a higher maxRequests (32 bytes of memory each)")
	}
	b.all = append(b.all, r)
	return nil
}

// tokens reads a count; an empty cell and JSON's null are unknown.
func tokens(p place, r role, cell string) (int, *Error) {
	if cell == "" || cell == "null" {
		return UnknownTokens, nil
	}
	n, ok := digits(strings.TrimSuffix(cell, ".0")) // pandas writes a column with a hole in it as 374.0
	if !ok || n > maxTokens {
		return 0, p.refuse(roleNames[r]+" "+quote(cell), fmt.Sprintf("a whole number 0 to %d, or nothing", maxTokens))
	}
	return int(n), nil
}

// failed reads a status: an HTTP or gRPC number, or a word.
func (b *logBuilder) failed(status string) bool {
	if status == "" || status == "null" {
		return false
	}
	if n, err := strconv.Atoi(status); err == nil {
		return n >= 400 || n > 0 && n <= 16 // gRPC codes: 0 is OK, 1 to 16 are errors
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

// finish orders the rows and cuts the slice.
func (b *logBuilder) finish(p place, t *Trace) *Error {
	if b.seen.backwards > 0 {
		slices.SortStableFunc(b.all, func(x, y Request) int { return cmp.Compare(x.At, y.At) })
	}
	t.Kind = Log
	t.Notes = append(t.Notes, b.notes()...)
	origin := time.Duration(0)
	if b.clock.kind == absolute {
		origin = time.Duration(b.early)
		t.Start = time.Unix(0, int64(origin)).UTC()
	}
	fill := newSource(b.o.Seed, "tokens", 0)
	for i := range b.all {
		b.all[i].At -= origin
		b.o.Tokens.fill(&b.all[i], &fill)
	}
	return b.slice(p, t, max(time.Duration(b.latest)-origin, b.o.Duration))
}

// slice keeps From..To of a log that lasts for full.
func (b *logBuilder) slice(p place, t *Trace, full time.Duration) *Error {
	before := func(at time.Duration) int {
		i, _ := slices.BinarySearchFunc(b.all, at, func(r Request, at time.Duration) int { return cmp.Compare(r.At, at) })
		return i
	}
	t.log = b.all[before(b.o.From):before(b.o.end())]
	if len(t.log) == 0 {
		return place{file: p.file}.refuse("no requests", "at least one, in the slice and past the filters")
	}
	for i := range t.log {
		t.log[i].At -= b.o.From
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
	if b.clock.noZone {
		n.say("timestamps carry no zone: read as " + b.o.Location.String())
	}
	n.count(c.backwards, fmt.Sprintf("rows behind a later one by up to %v, sorted", c.furthest))
	n.count(c.headers, "repeated header lines, skipped")
	n.count(c.filtered, "rows filtered out")
	n.count(c.failed, "rows that failed, "+map[bool]string{false: "kept, for they were demand", true: "dropped"}[b.o.DropFailed])
	n.count(c.zeroOutput, "rows with 0 output tokens (failed, or embeddings)")
	n.count(c.dropped, "failed rows dropped")
	n.count(c.statuses, "rows with a status such as "+quote(c.strange)+", read as a success")
	switch {
	case c.noTokens < len(b.all):
		n.count(c.noTokens, "rows without a token count")
	case b.o.Tokens == nil:
		n.say("token counts are not on record")
	}
	return n
}

// notes are what a reader has to say about a file.
type notes []string

func (n *notes) say(text string) { *n = append(*n, text) }

// count says how often something happened, if it did.
func (n *notes) count(times int, what string) {
	if times > 0 {
		n.say(fmt.Sprintf("%s: %s", what, grouped(times)))
	}
}
