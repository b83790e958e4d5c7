package tracefile

import (
	"bufio"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
)

// sample is one rate as the file contains it, before its unit is applied.
type sample struct {
	ns     int64 // start of the window
	line   int
	rate   float64 // rate in the unit of the options
	cv     float64
	family reproducible.Family
}

// rateBuilder collects the windowed rates of one or several clients.
type rateBuilder struct {
	o       Options
	clock   timestamp.Parser
	said    []string
	clients []string
	files   []input.Place
	samples [][]sample // one list per client
	total   int
	step    time.Duration // length of a window; 0: computed from the starts
	seen    rateCounts
}

type rateCounts struct {
	rows     logCounts // counts of headers and filtered rows, from table.each
	held     int
	unknown  int // number of samples with NaN
	noFamily int
	shorter  int // number of clients with a shorter time span than the trace
	services int // number of files with a column of service times, which a trace of rates does not use
}

func newRateBuilder(o Options) *rateBuilder {
	return &rateBuilder{o: o, clock: timestamp.Parser{Unit: o.TimeUnit, Layout: o.TimeLayout, Location: o.Location}}
}

var families = map[string]reproducible.Family{"": "", "gamma": reproducible.Gamma, "weibull": reproducible.Weibull,
	"exponential": reproducible.Gamma, "poisson": reproducible.Gamma}

// ratePositions are the columns of ServeGen's files, which have no header.
var ratePositions = Columns{Time: "#1", Rate: "#2", CV: "#3", Family: "#4"}

// looksLikeRates reports whether the first record of a CSV file shows that the file contains windowed rates. There are two cases: a header
// is a usual name of a rate, or the record has the six columns of ServeGen, which are numbers except for the name of a distribution in the
// fourth column.
func looksLikeRates(first []string) bool {
	if usual(first, usualNames[roleRate]) != absent {
		return true
	}
	if len(first) < 6 {
		return false
	}
	if _, known := families[strings.ToLower(strings.TrimSpace(first[3]))]; !known {
		return false
	}
	for _, i := range []int{0, 1, 2, 4, 5} {
		if _, err := strconv.ParseFloat(strings.TrimSpace(first[i]), 64); err != nil {
			return false
		}
	}
	return true
}

// readCSV reads the windows of one client.
func (b *rateBuilder) readCSV(p input.Place, client string, in *bufio.Reader) *trace.Error {
	table, err := openTable(p, in, b.o, ratePositions)
	if err != nil {
		return err
	}
	if table.at[roleRate] == absent {
		return table.Refuse("no column of rates", "one named like rate, rps or qps; or say which (columns.rate)")
	}
	b.begin(p, client)
	if b.said = table.said; table.at[roleService] != absent {
		b.seen.services++
		b.said = slices.DeleteFunc(b.said, func(s string) bool { return strings.Contains(s, " = "+roleNames[roleService]) })
	}
	b.clock.Unit = table.timeUnit(b.o)
	add := func(p input.Place, row []string) *trace.Error { return b.row(p, &table.layout, row) }
	return table.each(add, &b.seen.rows)
}

// begin adds a client. The following calls of add are for this client. The random numbers of the client depend on its name.
func (b *rateBuilder) begin(p input.Place, client string) {
	b.clients = append(b.clients, client)
	b.files = append(b.files, p)
	b.samples = append(b.samples, nil)
}

func (b *rateBuilder) row(p input.Place, l *layout, row []string) *trace.Error {
	if !l.keeps(row) {
		b.seen.rows.filtered++
		return nil
	}
	cell := l.cell(row, roleTime)
	ns, allowed := b.clock.Parse(cell)
	if allowed != "" {
		return p.Refuse("window start "+input.Quote(cell), allowed)
	}
	s := sample{ns: ns, line: p.Line, cv: b.o.CV}
	var err error
	if cell = l.cell(row, roleRate); cell == "" {
		cell = "nothing"
	}
	if s.rate, err = strconv.ParseFloat(cell, 64); err != nil || !(s.rate >= 0) {
		return p.Refuse("rate "+input.Quote(cell), "a number of requests not below 0")
	}
	word := l.cell(row, roleFamily)
	family, known := families[strings.ToLower(word)]
	if !known {
		return p.Refuse("family "+input.Quote(word), "Gamma, Weibull, Exponential or nothing")
	}
	s.family = family
	if s.rate == 0 {
		s.cv = 1 // a window without traffic has no CV, and ServeGen writes 0
	} else if cell = l.cell(row, roleCV); cell != "" {
		if s.cv, err = strconv.ParseFloat(cell, 64); err != nil || !(s.cv >= 0 && s.cv <= reproducible.MaxCV) {
			return p.Refuse("cv "+input.Quote(cell), fmt.Sprintf("a number 0 to %d", reproducible.MaxCV))
		}
	}
	if strings.EqualFold(word, "exponential") || strings.EqualFold(word, "poisson") {
		s.cv = 1
	}
	return b.add(p, s)
}

// add adds one sample of the current client. The starts must increase.
func (b *rateBuilder) add(p input.Place, s sample) *trace.Error {
	last := len(b.samples) - 1
	own := b.samples[last]
	switch {
	case len(own) > 0 && s.ns <= own[len(own)-1].ns:
		return p.Refuse("a window that starts at or before the one above", "ascending start times, one row per window; put several clients "+
			"into files of their own, in a .tar.gz")
	case len(own) > 0 && time.Duration(s.ns-own[0].ns) > trace.MaxDuration ||
		b.clock.Kind == timestamp.Relative && time.Duration(s.ns) > trace.MaxDuration:
		return p.Refuse("a window more than 400 days after the start", "at most 400 days; or another timeUnit")
	case b.total == trace.MaxWindows:
		return p.Refuse(fmt.Sprintf("more than %d windows", trace.MaxWindows), "fewer, or longer windows")
	}
	if s.rate > 0 && s.family == "" {
		b.seen.noFamily++
		s.family = b.o.Family
	}
	b.samples[last] = append(own, s)
	b.total++
	return nil
}

// finish converts the samples to windows, stores them in t, and selects the windows within From..To.
func (b *rateBuilder) finish(p input.Place, t *contents) *trace.Error {
	if b.o.Columns.Service != "" || b.o.ServiceUnit != timestamp.Auto {
		return p.Refuse("a column of service times for rates", "a request log, in which each request has its own; or a fixed service time")
	}
	t.Columns = b.said
	origin, err := b.origin(p)
	if err != nil {
		return err
	}
	if b.clock.Kind == timestamp.Absolute {
		t.Start = time.Unix(0, origin).UTC()
	}
	step := b.windowLength()
	if step <= 0 {
		return p.Refuse("a single window", "at least two, or the window's length (window)")
	}
	end := time.Duration(0)
	for i, own := range b.samples {
		c := trace.Client{Name: b.clients[i]}
		if c.Windows, err = b.windows(b.files[i], own, origin, step); err != nil {
			return err
		}
		if n := len(c.Windows); n > 0 {
			end = max(end, c.Windows[n-1].At+c.Windows[n-1].Length)
			t.clients = append(t.clients, c)
		}
	}
	if end > trace.MaxDuration {
		return p.Refuse(fmt.Sprintf("a trace of %.0f days", end.Hours()/24), "at most 400 days")
	}
	t.Notes = append(t.Notes, b.notes()...)
	return b.slice(p, t, end)
}

// origin returns the start of the trace in nanoseconds. It is the earliest time of all clients, or 0 if the times in the file are already
// relative to a start.
func (b *rateBuilder) origin(p input.Place) (int64, *trace.Error) {
	if b.total == 0 {
		return 0, p.Refuse("no windows", "at least one")
	}
	if b.clock.Kind == timestamp.Relative {
		return 0, nil
	}
	var starts, ends []int64
	for _, own := range b.samples {
		if len(own) > 0 {
			starts, ends = append(starts, own[0].ns), append(ends, own[len(own)-1].ns)
		}
	}
	first, last := slices.Min(starts), slices.Max(ends)
	if time.Duration(last-first) > trace.MaxDuration {
		return 0, p.Refuse("clients more than 400 days apart", "at most 400 days")
	}
	for i := range starts {
		if starts[i] > first || ends[i] < last {
			b.seen.shorter++
		}
	}
	return first, nil
}

// slice removes the windows outside From..To. It returns an error if no requests are left.
func (b *rateBuilder) slice(p input.Place, t *contents, end time.Duration) *trace.Error {
	expected := 0.0
	for i := range t.clients {
		c := &t.clients[i]
		c.Windows = slices.DeleteFunc(c.Windows, func(w trace.ClientWindow) bool {
			return w.At+w.Length <= b.o.From || w.At >= b.o.end()
		})
		for _, w := range c.Windows {
			expected += w.Requests
		}
	}
	end = min(max(end, b.o.Duration), b.o.end())
	if expected == 0 || end <= b.o.From {
		return p.Refuse("no traffic", "a rate above 0 in at least one window of the slice")
	}
	t.Duration = end - b.o.From
	if !t.Start.IsZero() {
		t.Start = t.Start.Add(b.o.From)
	}
	return nil
}
