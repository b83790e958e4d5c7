package trace

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
)

const (
	maxSpotNodes = 1_000_000
	maxSpotRows  = 5_000_000
	maxSpotJSON  = 64 << 20

	spotAllowed = "rows of t_ms,add|remove,node; of time,count; of date,time,count; or {\"metadata\":{\"gap_seconds\":N},\"data\":[n,...]}"
)

// OpenSpot reads a spot trace from a file, with or without gzip. Every error except those of the file system is an [*Error].
func OpenSpot(path string) (*Spot, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadSpot(path, f)
}

// ReadSpot reads a spot trace from r. name is used in messages.
func ReadSpot(name string, r io.Reader) (*Spot, error) {
	p := place{file: name}
	in, err := unwrap(p, r)
	if err != nil {
		return nil, err
	}
	head, err := in.Peek(peekSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, p.failed(err, "a whole file")
	}
	text := strings.TrimSpace(string(head))
	s := &Spot{Name: filepath.Base(name)}
	var refused *Error
	switch {
	case text == "":
		refused = p.refuse("an empty file", spotAllowed)
	case text[0] == '{':
		refused = s.readGaps(p, in)
	default:
		refused = s.readRows(p, in, delimiter(firstLine(head)))
	}
	if refused != nil {
		return nil, refused
	}
	return s, nil
}

// readGaps reads the JSON format of SkyPilot: a list of node counts at intervals of gap_seconds.
func (s *Spot) readGaps(p place, in io.Reader) *Error {
	var body struct {
		Metadata struct {
			GapSeconds float64 `json:"gap_seconds"`
		} `json:"metadata"`
		Data []*int `json:"data"`
	}
	limited := &io.LimitedReader{R: in, N: maxSpotJSON}
	decoder := json.NewDecoder(limited)
	if err := decoder.Decode(&body); err != nil {
		return p.failed(err, spotAllowed+", whole numbers, at most 64 MiB")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return p.refuse("more after the end of the object", spotAllowed)
	}
	gap := body.Metadata.GapSeconds
	if !(gap >= 0.001 && gap <= 86400) {
		return p.refuse(fmt.Sprintf("gap_seconds %g", gap), "0.001 to 86400 seconds")
	}
	step := time.Duration(reproducible.Mul(gap, 1e9))
	if len(body.Data) == 0 || len(body.Data) > maxSpotRows || step > MaxDuration/time.Duration(len(body.Data)) {
		return p.refuse(fmt.Sprintf("%d counts, %v apart", len(body.Data), step), "1 to 5000000 counts within 400 days")
	}
	for i, n := range body.Data {
		at := place{file: fmt.Sprintf("%s(data %d)", p.file, i+1)}
		if n == nil {
			return at.refuse("null", "a count of nodes: unknown is not 0")
		}
		if err := s.count(at, time.Duration(i)*step, *n); err != nil {
			return err
		}
	}
	// The last count applies for one more interval, like every other count.
	s.Duration = time.Duration(len(body.Data)) * step
	s.sampling = step
	return nil
}

// spotRows reads the CSV formats of a spot trace: node events (add, remove) or counts of nodes.
type spotRows struct {
	*rows
	spot   *Spot
	clock  clock
	live   map[string]bool
	origin int64
	last   time.Duration
	n      int
}

func (s *Spot) readRows(p place, in *bufio.Reader, comma rune) *Error {
	r := &spotRows{rows: newRows(p, in, comma), spot: s, live: map[string]bool{}, clock: clock{location: time.UTC}}
	for {
		row, err := r.next()
		if err != nil {
			return err
		}
		if row == nil {
			break
		}
		if r.n == 0 && isSpotHeader(row) {
			continue
		}
		if r.n++; r.n > maxSpotRows {
			return r.refuse(fmt.Sprintf("more than %d rows", maxSpotRows), "fewer")
		}
		if err := r.row(row); err != nil {
			return err
		}
	}
	if r.n == 0 {
		return p.refuse("no rows", spotAllowed)
	}
	s.Duration = r.last
	if r.clock.noZone {
		s.Notes = append(s.Notes, "timestamps without a time zone are read as UTC")
	}
	if s.sampling > 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("counts are up to %s apart; between two counts the earlier one is used", human(s.sampling)))
	}
	return nil
}

// isSpotHeader reports whether the row is a header, that is, whether it does not begin with a number.
func isSpotHeader(row []string) bool {
	first := strings.TrimSpace(row[0])
	return first == "" || strings.IndexByte("0123456789.+-", first[0]) < 0
}

func (r *spotRows) row(row []string) *Error {
	for i := range row {
		row[i] = strings.TrimSpace(row[i])
	}
	nodes := len(row) == 3 && (row[1] == "add" || row[1] == "remove")
	if r.n == 1 {
		r.spot.Named = nodes
	}
	switch {
	case nodes != r.spot.Named:
		return r.refuse(quote(strings.Join(row, ",")), "rows of the same form as the first: "+spotAllowed)
	case nodes:
		at, err := r.instant(row[0], Milliseconds)
		if err != nil {
			return err
		}
		return r.node(at, row[1] == "add", row[2])
	case len(row) == 3:
		return r.sample(row[0]+" "+row[1], row[2])
	case len(row) == 2:
		return r.sample(row[0], row[1])
	}
	return r.refuse(strconv.Itoa(len(row))+" columns: "+quote(strings.Join(row, ",")), spotAllowed)
}

// instant returns the time in a cell, relative to the start of the trace. It returns an error if the time is before that of the previous
// row.
func (r *spotRows) instant(cell string, unit TimeUnit) (time.Duration, *Error) {
	r.clock.unit = unit
	ns, allowed := r.clock.instant(cell)
	if allowed != "" {
		return 0, r.refuse("time "+quote(cell), allowed)
	}
	if r.n == 1 && r.clock.kind == absolute {
		r.origin = ns
		r.spot.Start = time.Unix(0, ns).UTC()
	}
	at := time.Duration(ns - r.origin)
	if at < r.last {
		return 0, r.refuse(fmt.Sprintf("time %s, %v before the row above", quote(cell), r.last-at), "rows in order of time")
	}
	if at > MaxDuration {
		return 0, r.refuse("time "+quote(cell), "at most 400 days after the first; node events are in ms")
	}
	if r.n > 1 && !r.spot.Named {
		r.spot.sampling = max(r.spot.sampling, at-r.last)
	}
	r.last = at
	return at, nil
}

func (r *spotRows) sample(when, count string) *Error {
	at, err := r.instant(when, AutoUnit)
	if err != nil {
		return err
	}
	n, ok := digits(count)
	if !ok || n > maxSpotNodes {
		return r.refuse("count "+quote(count), fmt.Sprintf("a whole number 0 to %d", maxSpotNodes))
	}
	if r.n == 1 {
		at = 0 // the first relative time may be above 0; it is the start of the trace
	}
	return r.spot.count(r.place, at, int(n))
}

// count sets the number of nodes at a time. If two rows have the same time, the later row is used.
func (s *Spot) count(p place, at time.Duration, n int) *Error {
	if n < 0 || n > maxSpotNodes {
		return p.refuse(fmt.Sprintf("count %d", n), fmt.Sprintf("a whole number 0 to %d", maxSpotNodes))
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
	s.Events = append(s.Events, SpotEvent{At: at, Added: max(change, 0), Lost: max(-change, 0), Available: n})
	return nil
}

// node adds or removes one node.
func (r *spotRows) node(at time.Duration, add bool, id string) *Error {
	if id == "" || add == r.live[id] {
		word := map[bool]string{true: "add", false: "remove"}[add]
		return r.refuse(word+" of node "+quote(id), "add for a new node, remove for an existing one")
	}
	if len(r.live) == maxSpotNodes && add {
		return r.refuse(fmt.Sprintf("more than %d nodes", maxSpotNodes), "fewer")
	}
	s := r.spot
	if last := len(s.Events) - 1; last < 0 || s.Events[last].At != at {
		s.Events = append(s.Events, SpotEvent{At: at, Available: s.Available(at)})
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
