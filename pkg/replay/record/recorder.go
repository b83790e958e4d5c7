package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Options limit the size of a recording. The zero value keeps 512 MiB.
type Options struct {
	Segment int64 // size of a file in bytes; 0 means 64 MiB
	Keep    int   // number of older files that are kept; 0 means 7
}

// Recorder writes a recording. Only the goroutine that runs the ticks may use it.
type Recorder struct {
	path    string
	options Options
	file    *os.File
	buffer  *bufio.Writer
	written int64

	known    map[scaling.Key]*shadow
	policies map[*scaling.Policy]int
	ids      int
	record   engine.Record

	knownGroups map[string]*groupShadow
	groupIDs    map[*capacity.Group]int
	groups      []groupEntry // entries of the capacity groups that were recorded in the current tick
	failed      error        // error of the current tick
}

// shadow is the last recorded data of a workload, with a copy of its decision state.
type shadow struct {
	state    scaling.State
	policy   *scaling.Policy
	view     engine.View
	readings []scaling.Reading
	decision json.RawMessage
	seen     bool // whether the workload was recorded in this tick
}

// New starts a recording at path. If a file exists there, it is renamed and kept as an older file of the recording.
func New(path string, o Options) (*Recorder, error) {
	if o.Segment <= 0 {
		o.Segment = 64 << 20
	}
	if o.Keep <= 0 {
		o.Keep = 7
	}
	r := &Recorder{path: path, options: o, known: map[scaling.Key]*shadow{}, knownGroups: map[string]*groupShadow{}}
	return r, r.open()
}

// open renames the older files of the recording, and creates a new file that can be verified without them.
func (r *Recorder) open() error {
	if info, err := os.Stat(r.path); err == nil && info.Size() > 0 {
		for i := r.options.Keep - 1; i >= 0; i-- {
			if err := os.Rename(segment(r.path, i), segment(r.path, i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("recording: %w", err)
			}
		}
	}
	// Only the owner of the file can read the recording, because it contains loads and targets.
	file, err := os.OpenFile(r.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	r.file, r.buffer, r.written = file, bufio.NewWriter(file), 0
	r.policies, r.groupIDs = map[*scaling.Policy]int{}, map[*capacity.Group]int{}
	return r.write(&line{Kind: kindStart, Version: Version})
}

// segment returns the name of the i-th file; file 0 is the current one.
func segment(path string, i int) string {
	if i == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, i)
}

// Start records that the engine starts without state, after a change of the leader. All earlier state of the recorder is deleted.
func (r *Recorder) Start() error {
	clear(r.known)
	clear(r.knownGroups)
	r.policies, r.groupIDs, r.groups = map[*scaling.Policy]int{}, map[*capacity.Group]int{}, nil
	return r.write(&line{Kind: kindStart, Version: Version})
}

// Tick records the inputs and outcomes of the engine's tick at the time now. It must be called after each tick.
func (r *Recorder) Tick(b *engine.DecisionStore, now time.Time) error {
	out := line{Kind: kindTick, At: now.UTC()}
	for _, s := range r.known {
		s.seen = false
	}
	for _, key := range b.Keys() {
		if !b.CopyRecord(key, &r.record) {
			continue
		}
		if err := r.workload(b, key, now, &out); err != nil {
			return err
		}
	}
	for key, s := range r.known {
		if !s.seen {
			delete(r.known, key)
			out.Gone = append(out.Gone, key.String())
		}
	}
	slices.Sort(out.Gone)
	if err := errors.Join(r.endGroups(&out), r.write(&out), r.buffer.Flush()); err != nil || r.written < r.options.Segment {
		return err
	}
	return r.turn()
}

// workload adds the changes of the workload in r.record to the line of the tick. If the workload was not decided in the tick, workload
// lists it in Unseen.
func (r *Recorder) workload(b *engine.DecisionStore, key scaling.Key, now time.Time, out *line) error {
	s := r.known[key]
	fresh := s == nil
	if fresh {
		s = &shadow{}
	}
	if !r.record.At.Equal(now) {
		if !fresh {
			s.seen = true
			out.Unseen = append(out.Unseen, key.String())
		}
		return nil
	}
	r.known[key], s.seen = s, true
	p := r.record.Workload.Policy
	id, recorded := r.policies[p]
	if !recorded {
		var err error
		if id, err = r.policyVersion(key, &r.record.Workload); err != nil {
			return err
		}
	}
	d, err := encode(&r.record.Decision)
	if err != nil {
		return fmt.Errorf("recording %s: %w", key, err)
	}
	e := entry{Key: key.String(), Policy: id, Decision: d}
	whole := fresh || s.decision == nil // a new segment (file) contains all data, including data that did not change
	if whole && !fresh {
		s.state.Adopt(p)
		e.State = s.state.Numbers()
	}
	if model, at := b.Restored(key); model != nil && fresh {
		s.state.Restore(p, model, at)
		e.State = s.state.Numbers()
	}
	r.addChanges(&e, s, whole)
	begin := b.StateOrigin(key)
	e.Begin = uint8(begin)
	begin.From(&s.state, p, r.record.View.Replicas, now)
	observation := r.record.Observation()
	s.state.Decide(p, &observation, now)
	s.policy, s.view, s.readings, s.decision = p, r.record.View, append(s.readings[:0], r.record.Readings...), d
	if e.Begin != 0 || e.Policy != 0 || e.View != nil || e.Readings != nil || e.Decision != nil {
		out.Workloads = append(out.Workloads, e)
	}
	return nil
}

// addChanges compares the data of the current tick in r.record with the data of the previous tick in s. It adds the view and the readings
// to e if they changed, and removes the policy and the decision from e if they did not change. If whole is true, e contains all four, even
// if they did not change.
func (r *Recorder) addChanges(e *entry, s *shadow, whole bool) {
	if whole || s.view != r.record.View {
		view := r.record.View
		e.View = &view
	}
	if whole || !slices.EqualFunc(s.readings, r.record.Readings, sameReading) {
		readings := readingsOf(r.record.Readings)
		e.Readings = &readings
	}
	if whole {
		return
	}
	if s.policy == r.record.Workload.Policy {
		e.Policy = 0
	}
	if bytes.Equal(s.decision, e.Decision) {
		e.Decision = nil
	}
}

// sameReading reports whether two readings are equal. Two values that are both NaN count as equal.
func sameReading(a, b scaling.Reading) bool {
	if a.Value != a.Value && b.Value != b.Value {
		a.Value, b.Value = 0, 0
	}
	same := a.At.Equal(b.At)
	a.At, b.At = time.Time{}, time.Time{}
	return same && a == b
}

func (r *Recorder) policyVersion(key scaling.Key, w *scaling.Workload) (int, error) {
	r.ids++
	r.policies[w.Policy] = r.ids
	return r.ids, r.write(&line{Kind: kindPolicy, Policy: &policyLine{
		ID: r.ids, Key: key.String(), Origin: w.Origin, Formula: w.Policy.Formula != nil, Rules: rulesOf(w.Policy),
	}})
}

// turn ends the current segment (file) and starts the next one, which contains all data again.
func (r *Recorder) turn() error {
	if err := r.Close(); err != nil {
		return err
	}
	for _, s := range r.known {
		s.decision = nil
	}
	for _, s := range r.knownGroups {
		s.decision = nil
	}
	return r.open()
}

func (r *Recorder) write(l *line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	r.written += int64(len(b)) + 1
	if _, err = r.buffer.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return nil
}

// Close writes the buffered lines and closes the file.
func (r *Recorder) Close() error {
	return errors.Join(r.buffer.Flush(), r.file.Close())
}
