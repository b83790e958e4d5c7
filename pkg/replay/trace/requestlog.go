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
	first  int64
	latest int64
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

// add takes one row that passed the filters.
func (b *logBuilder) add(p place, l *layout, row []string) *Error {
	cell := l.cell(row, roleTime)
	ns, allowed := b.clock.instant(cell)
	if allowed != "" {
		return p.refuse("timestamp "+quote(cell), allowed)
	}
	if err := b.inOrder(p, ns, cell); err != nil {
		return err
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
		b.first, b.latest = ns, ns
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
	case time.Duration(ns-b.first) > MaxDuration:
		return p.refuse(fmt.Sprintf("timestamp %s, %.0f days after the first", quote(cell), time.Duration(ns-b.first).Hours()/24), "at most 400 days; or another timeUnit")
	}
	b.latest = max(b.latest, ns)
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
func (b *logBuilder) finish(t *Trace) *Error {
	if b.seen.backwards > 0 {
		slices.SortStableFunc(b.all, func(x, y Request) int { return cmp.Compare(x.At, y.At) })
	}
	t.Kind = Log
	t.Notes = append(t.Notes, b.notes()...)
	origin := time.Duration(0)
	if b.clock.kind == absolute && len(b.all) > 0 {
		origin = b.all[0].At
		t.Start = time.Unix(0, int64(origin)).UTC()
	}
	fill := newSource(b.o.Seed, "tokens", 0)
	for i := range b.all {
		b.all[i].At -= origin
		b.o.Tokens.fill(&b.all[i], &fill)
	}
	return b.slice(t)
}

func (b *logBuilder) slice(t *Trace) *Error {
	before := func(at time.Duration) int {
		i, _ := slices.BinarySearchFunc(b.all, at, func(r Request, at time.Duration) int { return cmp.Compare(r.At, at) })
		return i
	}
	full := b.o.Duration
	if n := len(b.all); n > 0 {
		full = max(full, b.all[n-1].At)
	}
	all := b.all[before(b.o.From):before(b.o.end())]
	if len(all) == 0 {
		return place{file: t.Name}.refuse("no requests", "at least one, in the slice and past the filters")
	}
	for i := range all {
		all[i].At -= b.o.From
	}
	t.log = all
	t.Duration = min(full, b.o.end()) - b.o.From
	if !t.Start.IsZero() {
		t.Start = t.Start.Add(b.o.From)
	}
	return nil
}

func (b *logBuilder) notes() []string {
	var notes []string
	say := func(n int, format string, args ...any) {
		if n > 0 {
			notes = append(notes, fmt.Sprintf("%d ", n)+fmt.Sprintf(format, args...))
		}
	}
	if b.clock.noZone {
		notes = append(notes, "timestamps carry no zone: read as "+b.o.Location.String())
	}
	c := b.seen
	say(c.backwards, "rows stand behind a later one, by up to %v: sorted", c.furthest)
	say(c.headers, "repeated header lines skipped")
	say(c.filtered, "rows filtered out")
	say(c.failed, "rows failed: %s", keptOr(b.o.DropFailed))
	say(c.zeroOutput, "rows have 0 output tokens (failed, or embeddings)")
	say(c.dropped, "failed rows dropped")
	say(c.statuses, "rows have a status such as %s, read as a success", quote(c.strange))
	if c.noTokens < len(b.all) {
		say(c.noTokens, "rows lack a token count")
	} else if b.o.Tokens == nil {
		notes = append(notes, "token counts are not on record")
	}
	return notes
}

func keptOr(drop bool) string {
	if drop {
		return "dropped"
	}
	return "kept, for they were demand"
}
