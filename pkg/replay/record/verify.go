package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Formulas returns the formula of the policy with the given key, or nil if it is unknown.
type Formulas func(key string) scaling.Formula

// Verified counts the recomputed decisions.
type Verified struct {
	Ticks     int
	Decisions int // number of decisions of workloads
	Groups    int // number of decisions of capacity groups
	From, To  time.Time
	LeftOut   []string // policies that were skipped because their formula is unknown
	// Phases contains the phases of each capacity group, oldest first.
	Phases map[string][]statemachine.Phase
}

// Difference is an outcome that differs from the recording.
type Difference struct {
	File     string
	Line     int
	At       time.Time
	Key      string // key of a workload, or of a capacity group with a prefix
	Recorded string // JSON of the recorded decision
	Now      string
}

// Error returns the position in the recording, the recorded decision and the recomputed decision.
func (d *Difference) Error() string {
	return fmt.Sprintf("%s:%d: the decision of %s at %s differs from the recording\nrecorded %s\nnow      %s",
		d.File, d.Line, d.Key, d.At.Format(time.RFC3339Nano), d.Recorded, d.Now)
}

// VerifyFiles verifies a recording with all its older files, the oldest file first. After a crash, the last line of a file can be
// incomplete. Such a file is verified up to that line.
func VerifyFiles(path string, formulas Formulas) (all Verified, err error) {
	oldest := 0
	for exists(segment(path, oldest+1)) {
		oldest++
	}
	for i := oldest; i >= 0; i-- {
		f, err := os.Open(segment(path, i))
		if err != nil {
			return all, err
		}
		v, err := Verify(segment(path, i), f, formulas)
		f.Close()
		all.add(v)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (v *Verified) add(o Verified) {
	if v.From.IsZero() {
		v.From = o.From
	}
	if !o.To.IsZero() {
		v.To = o.To
	}
	for group, phases := range o.Phases {
		for _, p := range phases {
			v.enter(group, p)
		}
	}
	v.Ticks, v.Decisions, v.Groups, v.LeftOut = v.Ticks+o.Ticks, v.Decisions+o.Decisions, v.Groups+o.Groups, append(v.LeftOut, o.LeftOut...)
}

func (v *Verified) enter(group string, p statemachine.Phase) {
	if v.Phases == nil {
		v.Phases = map[string][]statemachine.Phase{}
	}
	if all := v.Phases[group]; len(all) == 0 || all[len(all)-1] != p {
		v.Phases[group] = append(all, p)
	}
}

// longestLine is the maximum length of a line; a tick of a thousand workloads is shorter.
const longestLine = 256 << 20

// Verify recomputes all decisions of a recording. name is the name of the recording in errors. The first outcome that differs is returned
// as a *Difference.
func Verify(name string, r io.Reader, formulas Formulas) (Verified, error) {
	p := player{name: name, formulas: formulas}
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		text, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return p.out, nil // a crash can leave an incomplete last line
		}
		if err != nil {
			return p.out, err
		}
		p.line++
		if len(text) > longestLine {
			return p.out, p.fault(fmt.Errorf("a line of %d bytes", len(text)))
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return p.out, p.fault(err)
		}
		if err := p.take(&l); err != nil {
			return p.out, err
		}
	}
}

// player repeats the ticks of a recording and compares each decision with the recorded decision.
type player struct {
	name     string
	line     int
	formulas Formulas
	started  bool
	policies map[int]*scaling.Policy // policies by number; nil: the policy is skipped
	known    map[string]*replayed
	order    []string
	groups   map[int]*capacity.Group
	nodes    map[string]*replayedGroup
	out      Verified
}

type replayed struct {
	state    scaling.State
	begin    engine.StateOrigin // origin of the state for the decision of this tick
	record   engine.Record
	decision json.RawMessage
}

func (p *player) fault(err error) error { return fmt.Errorf("%s:%d: %w", p.name, p.line, err) }

func (p *player) take(l *line) error {
	if !p.started && l.Kind != kindStart {
		return p.fault(errors.New("not a recording: the first line is not a start line"))
	}
	switch l.Kind {
	case kindStart:
		if l.Version != Version {
			return p.fault(fmt.Errorf("format %d; this program reads format %d", l.Version, Version))
		}
		p.started, p.policies, p.known, p.order = true, map[int]*scaling.Policy{}, map[string]*replayed{}, nil
		p.groups, p.nodes = map[int]*capacity.Group{}, map[string]*replayedGroup{}
		return nil
	case kindPolicy:
		return p.policy(l.Policy)
	case kindGroup:
		return p.group(l.Group)
	case kindTick:
		return p.tick(l)
	}
	return p.fault(fmt.Errorf("a line of kind %q", l.Kind))
}

func (p *player) policy(l *policyLine) error {
	if l == nil {
		return p.fault(errors.New("a policy line without a policy"))
	}
	policy, err := l.Rules.compiled()
	if err != nil {
		return p.fault(err)
	}
	if len(policy.Signals) > scaling.MaxSignals || len(policy.Schedules) > scaling.MaxSchedules {
		return p.fault(errors.New("a policy with too many signals or schedules"))
	}
	if l.Formula {
		if p.formulas != nil {
			policy.Formula = p.formulas(l.Key)
		}
		if policy.Formula == nil {
			policy = nil
			p.out.LeftOut = append(p.out.LeftOut, l.Key)
		}
	}
	p.policies[l.ID] = policy
	return nil
}

func (p *player) tick(l *line) error {
	for i := range l.Workloads {
		if err := p.learn(&l.Workloads[i]); err != nil {
			return err
		}
	}
	for _, key := range l.Gone {
		delete(p.known, key)
	}
	if p.out.From.IsZero() {
		p.out.From = l.At
	}
	p.out.Ticks, p.out.To = p.out.Ticks+1, l.At
	skip := strings.Join(l.Unseen, "\n")
	kept := p.order[:0]
	for _, key := range p.order {
		w := p.known[key]
		if w == nil {
			continue
		}
		kept = append(kept, key)
		if skip != "" && strings.Contains("\n"+skip+"\n", "\n"+key+"\n") {
			continue
		}
		if err := p.decide(key, w, l.At); err != nil {
			return err
		}
	}
	p.order = kept
	return p.groupTick(l)
}

// learn stores the recorded changes of a workload. It recomputes no decision.
func (p *player) learn(e *entry) error {
	w := p.known[e.Key]
	if w == nil {
		if e.Policy == 0 || e.View == nil || e.Readings == nil || e.Decision == nil {
			return p.fault(fmt.Errorf("%s: the first entry is incomplete", e.Key))
		}
		w = &replayed{}
		p.known[e.Key], p.order = w, append(p.order, e.Key)
	}
	w.begin = engine.StateOrigin(e.Begin)
	if e.Policy != 0 {
		policy, recorded := p.policies[e.Policy]
		if !recorded {
			return p.fault(fmt.Errorf("%s: policy %d is not in the recording", e.Key, e.Policy))
		}
		w.record.Workload.Policy = policy
	}
	if e.View != nil {
		w.record.View = *e.View
	}
	if e.Readings != nil {
		w.record.Readings = e.readings()
	}
	if e.Decision != nil {
		w.decision = e.Decision
	}
	if policy := w.record.Workload.Policy; e.State != nil && policy != nil {
		state, err := scaling.StateOf(policy, e.State)
		if err != nil {
			return p.fault(fmt.Errorf("%s: %w", e.Key, err))
		}
		w.state = state
	}
	return nil
}

func (p *player) decide(key string, w *replayed, now time.Time) error {
	policy := w.record.Workload.Policy
	if policy == nil {
		return nil
	}
	if len(w.record.Readings) != len(policy.Signals) {
		return p.fault(fmt.Errorf("%s has %d readings for %d signals", key, len(w.record.Readings), len(policy.Signals)))
	}
	w.begin.From(&w.state, policy, w.record.View.Replicas, now)
	w.begin = engine.Continued
	observation := w.record.Observation()
	d := w.state.Decide(policy, &observation, now)
	got, err := encode(&d)
	if err != nil {
		return p.fault(err)
	}
	p.out.Decisions++
	if !bytes.Equal(got, w.decision) {
		return &Difference{File: p.name, Line: p.line, At: now, Key: key, Recorded: string(w.decision), Now: string(got)}
	}
	return nil
}
