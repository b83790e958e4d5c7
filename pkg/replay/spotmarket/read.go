package spotmarket

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace/readable"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/input"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
)

const (
	maxNodes = 1_000_000
	maxRows  = 5_000_000
	maxJSON  = 64 << 20

	allowedForms = "rows of t_ms,add|remove,node; of time,count; of date,time,count; or {\"metadata\":{\"gap_seconds\":N},\"data\":[n,...]}"
)

// Open reads a spot trace from a file, with or without gzip. Every error that is not from the file system is an [*trace.Error].
func Open(path string) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return Read(path, f)
}

// Read reads a spot trace from r. name is used in messages.
func Read(name string, r io.Reader) (*Trace, error) {
	p := input.Place{File: name}
	in, err := input.Decompress(p, r)
	if err != nil {
		return nil, err
	}
	head, err := in.Peek(input.PeekSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, p.Failed(err, "a whole file")
	}
	text := strings.TrimSpace(string(head))
	s := &Trace{Name: filepath.Base(name)}
	var refused *trace.Error
	switch {
	case text == "":
		refused = p.Refuse("an empty file", allowedForms)
	case text[0] == '{':
		refused = s.readGaps(p, in)
	default:
		refused = s.readRows(p, in, input.Delimiter(input.FirstLine(head)))
	}
	if refused != nil {
		return nil, refused
	}
	return s, nil
}

// readGaps reads the JSON format of SkyPilot: a list of node counts at intervals of gap_seconds.
func (s *Trace) readGaps(p input.Place, in io.Reader) *trace.Error {
	var body struct {
		Metadata struct {
			GapSeconds float64 `json:"gap_seconds"`
		} `json:"metadata"`
		Data []*int `json:"data"`
	}
	limited := &io.LimitedReader{R: in, N: maxJSON}
	decoder := json.NewDecoder(limited)
	if err := decoder.Decode(&body); err != nil {
		return p.Failed(err, allowedForms+", whole numbers, at most 64 MiB")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return p.Refuse("more after the end of the object", allowedForms)
	}
	gap := body.Metadata.GapSeconds
	if !(gap >= 0.001 && gap <= 86400) {
		return p.Refuse(fmt.Sprintf("gap_seconds %g", gap), "0.001 to 86400 seconds")
	}
	step := time.Duration(reproducible.Mul(gap, 1e9))
	if len(body.Data) == 0 || len(body.Data) > maxRows || step > trace.MaxDuration/time.Duration(len(body.Data)) {
		return p.Refuse(fmt.Sprintf("%d counts, %v apart", len(body.Data), step), "1 to 5000000 counts within 400 days")
	}
	for i, n := range body.Data {
		at := input.Place{File: fmt.Sprintf("%s(data %d)", p.File, i+1)}
		if n == nil {
			return at.Refuse("null", "a count of nodes: unknown is not 0")
		}
		if err := s.count(at, time.Duration(i)*step, *n); err != nil {
			return err
		}
	}
	// Each count applies for one interval, so the trace ends one interval after the last count.
	s.Duration = time.Duration(len(body.Data)) * step
	s.sampling = step
	return nil
}

// eventRows reads the CSV formats of a spot trace: node events (add, remove) or counts of nodes.
type eventRows struct {
	*input.Rows
	spot   *Trace
	clock  timestamp.Parser
	live   map[string]bool
	origin int64
	last   time.Duration
	n      int
}

func (s *Trace) readRows(p input.Place, in *bufio.Reader, comma rune) *trace.Error {
	r := &eventRows{Rows: input.NewRows(p, in, comma), spot: s, live: map[string]bool{}, clock: timestamp.Parser{Location: time.UTC}}
	for {
		row, err := r.Next()
		if err != nil {
			return err
		}
		if row == nil {
			break
		}
		if r.n == 0 && isHeader(row) {
			continue
		}
		if r.n++; r.n > maxRows {
			return r.Refuse(fmt.Sprintf("more than %d rows", maxRows), "fewer")
		}
		if err := r.row(row); err != nil {
			return err
		}
	}
	if r.n == 0 {
		return p.Refuse("no rows", allowedForms)
	}
	s.Duration = r.last
	if r.clock.NoZone {
		s.Notes = append(s.Notes, "timestamps without a time zone are read as UTC")
	}
	if s.sampling > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("counts are up to %s apart; between two counts the earlier one is used",
			readable.Duration(s.sampling)))
	}
	return nil
}

// isHeader reports whether the row is a header, that is, whether it does not begin with a number.
func isHeader(row []string) bool {
	first := strings.TrimSpace(row[0])
	return first == "" || strings.IndexByte("0123456789.+-", first[0]) < 0
}

func (r *eventRows) row(row []string) *trace.Error {
	for i := range row {
		row[i] = strings.TrimSpace(row[i])
	}
	nodes := len(row) == 3 && (row[1] == "add" || row[1] == "remove")
	if r.n == 1 {
		r.spot.Named = nodes
	}
	switch {
	case nodes != r.spot.Named:
		return r.Refuse(input.Quote(strings.Join(row, ",")), "rows of the same form as the first: "+allowedForms)
	case nodes:
		at, err := r.instant(row[0], timestamp.Milliseconds)
		if err != nil {
			return err
		}
		return r.node(at, row[1] == "add", row[2])
	case len(row) == 3:
		return r.sample(row[0]+" "+row[1], row[2])
	case len(row) == 2:
		return r.sample(row[0], row[1])
	}
	return r.Refuse(strconv.Itoa(len(row))+" columns: "+input.Quote(strings.Join(row, ",")), allowedForms)
}

// instant returns the time in a cell, relative to the start of the trace. It returns an error if the time is before the time of the
// previous row.
func (r *eventRows) instant(cell string, unit timestamp.Unit) (time.Duration, *trace.Error) {
	r.clock.Unit = unit
	ns, allowed := r.clock.Parse(cell)
	if allowed != "" {
		return 0, r.Refuse("time "+input.Quote(cell), allowed)
	}
	if r.n == 1 && r.clock.Kind == timestamp.Absolute {
		r.origin = ns
		r.spot.Start = time.Unix(0, ns).UTC()
	}
	at := time.Duration(ns - r.origin)
	if at < r.last {
		return 0, r.Refuse(fmt.Sprintf("time %s, %v before the row above", input.Quote(cell), r.last-at), "rows in order of time")
	}
	if at > trace.MaxDuration {
		return 0, r.Refuse("time "+input.Quote(cell), "at most 400 days after the first; node events are in ms")
	}
	if r.n > 1 && !r.spot.Named {
		r.spot.sampling = max(r.spot.sampling, at-r.last)
	}
	r.last = at
	return at, nil
}

func (r *eventRows) sample(when, count string) *trace.Error {
	at, err := r.instant(when, timestamp.Auto)
	if err != nil {
		return err
	}
	n, ok := input.Digits(count)
	if !ok || n > maxNodes {
		return r.Refuse("count "+input.Quote(count), fmt.Sprintf("a whole number 0 to %d", maxNodes))
	}
	if r.n == 1 {
		at = 0 // the first time in the file is the start of the trace, even if it is above 0
	}
	return r.spot.count(r.Place, at, int(n))
}

// count sets the number of nodes at a time. If two rows have the same time, the later row is used.
func (s *Trace) count(p input.Place, at time.Duration, n int) *trace.Error {
	if n < 0 || n > maxNodes {
		return p.Refuse(fmt.Sprintf("count %d", n), fmt.Sprintf("a whole number 0 to %d", maxNodes))
	}
	if at == 0 && len(s.Events) == 0 {
		s.Initial = n
		return nil
	}
	if last := len(s.Events) - 1; last >= 0 && s.Events[last].At == at {
		s.Events = s.Events[:last]
	}
	change := n - s.Available(at)
	if change == 0 {
		return nil
	}
	s.Events = append(s.Events, Event{At: at, Added: max(change, 0), Lost: max(-change, 0), Available: n})
	return nil
}

// node adds or removes the node with the given ID. It returns an error if an added node exists already, or if a removed node does not
// exist.
func (r *eventRows) node(at time.Duration, add bool, id string) *trace.Error {
	if id == "" || add == r.live[id] {
		word := map[bool]string{true: "add", false: "remove"}[add]
		return r.Refuse(word+" of node "+input.Quote(id), "add for a new node, remove for an existing one")
	}
	if len(r.live) == maxNodes && add {
		return r.Refuse(fmt.Sprintf("more than %d nodes", maxNodes), "fewer")
	}
	s := r.spot
	if last := len(s.Events) - 1; last < 0 || s.Events[last].At != at {
		s.Events = append(s.Events, Event{At: at, Available: s.Available(at)})
	}
	e := &s.Events[len(s.Events)-1]
	if add {
		r.live[id] = true
		e.Added, e.Available, e.AddedIDs = e.Added+1, e.Available+1, append(e.AddedIDs, id)
		return nil
	}
	delete(r.live, id)
	e.Lost, e.Available, e.LostIDs = e.Lost+1, e.Available-1, append(e.LostIDs, id)
	return nil
}
