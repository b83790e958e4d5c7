package engine

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Why a number is not served. A server maps ErrUnknown to "not found" and every other one to "unavailable", which makes an HPA hold.
var (
	ErrUnknown   = errors.New("no such policy")
	ErrUndecided = errors.New("not decided yet")
	ErrStale     = errors.New("the last decision is too old")
	ErrHeld      = errors.New("held by PlatformConfig mode: hold")
	ErrAdvisory  = errors.New("the policy is advisory: it decides but is not served")
)

// Served is the number that an entrance hands out.
type Served struct {
	Replicas int32
	Active   bool
	At       time.Time // when it was decided
}

// Record is one workload's outcome with everything it was decided from, for people and for the history.
type Record struct {
	Workload scaling.Workload
	View     View
	Decision scaling.Decision
	Before   int32 // the number before the change that this record tells of
	Readings []scaling.Reading
	Without  []Counterfactual
	At       time.Time // when it was decided
	Since    time.Time // since when the number stands
	Unseen   bool      // the cluster did not show the target at the last tick: nothing was decided in it
}

// Counterfactual is the number that the tick which made the last news would have given without one of the rules that took part.
type Counterfactual struct {
	Rule     scaling.Rule
	Index    int8
	Replicas int32
}

// Board holds the newest outcome of every workload. Readers never wait for a tick: each slot is locked for as long as it takes
// to copy a decision.
type Board struct {
	maxAge       time.Duration
	history      *History
	groupHistory groupHistory

	mu       sync.RWMutex
	slots    map[scaling.Key]*slot
	keys     []scaling.Key // sorted
	groups   []*groupSlot  // in the order of the PlatformConfig
	lastTick time.Time
}

type slot struct {
	// The engine's own: touched by the tick alone.
	state   scaling.Packed
	advice  Advice // of the nodes, from the tick before
	grouped bool   // decided with its capacity group

	unseen   bool         // small fields stand together: there are ten thousand slots
	began    Beginning    // of the last decision
	mode     scaling.Mode // as written now; workload has the one of the last decision
	before   int32
	mu       sync.Mutex        // guards all but what is the engine's own
	workload *scaling.Workload // a copy that nobody changes; records in the history share it
	view     View
	decision kept
	readings []scaling.Reading
	without  []Counterfactual // of the last tick that was news
	at       time.Time
	since    time.Time
}

// newSlot is a workload of which nothing is known yet: an operator's zero value would say "at most 0 replicas".
func newSlot(w *scaling.Workload) *slot {
	return &slot{workload: copied(w), view: View{MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator}}
}

// copied is a copy, because a pointer into the policies in force would keep all of them for as long as the history does.
func copied(w *scaling.Workload) *scaling.Workload {
	c := *w
	return &c
}

// kept is a scaling.Decision without the room for the reasons that it does not have, three quarters of it.
type kept struct {
	Replicas, Uncapped      int32
	Active, Degraded        bool
	Binding, Tied           scaling.Rule
	BindingIndex, TiedIndex int8
	Asks                    [scaling.MaxSignals]int32
	Status                  [scaling.MaxSignals]scaling.SignalStatus
	MayFall                 time.Time
	FallRule                scaling.Rule
	Reasons                 []scaling.Reason
}

// take keeps d, in the memory of the decision before.
func (k *kept) take(d *scaling.Decision) {
	*k = kept{
		Replicas: d.Replicas, Uncapped: d.Uncapped, Active: d.Active, Degraded: d.Degraded, Binding: d.Binding, Tied: d.Tied,
		BindingIndex: d.BindingIndex, TiedIndex: d.TiedIndex, Asks: d.Asks, Status: d.Status, MayFall: d.MayFall, FallRule: d.FallRule,
		Reasons: append(k.Reasons[:0], d.Reasons.All()...),
	}
}

// whole is the decision that was taken.
func (k *kept) whole() scaling.Decision {
	return scaling.Decision{
		Replicas: k.Replicas, Uncapped: k.Uncapped, Active: k.Active, Degraded: k.Degraded, Binding: k.Binding, Tied: k.Tied,
		BindingIndex: k.BindingIndex, TiedIndex: k.TiedIndex, Asks: k.Asks, Status: k.Status, MayFall: k.MayFall, FallRule: k.FallRule,
		Reasons: scaling.ReasonsOf(k.Reasons),
	}
}

func newBoard(maxAge time.Duration) *Board {
	return &Board{maxAge: maxAge, history: newHistory(), slots: map[scaling.Key]*slot{}}
}

// adopt keeps the slots of workloads that go on, opens one for each new workload and forgets the others. It returns the slots
// parallel to current, in into's memory.
func (b *Board) adopt(current []scaling.Workload, into []*slot) []*slot {
	slots := make(map[scaling.Key]*slot, len(current))
	keys := make([]scaling.Key, 0, len(current))
	for i := range current {
		w := &current[i]
		s := b.slots[w.Key]
		if s == nil {
			s = newSlot(w)
		}
		s.setMode(w.Mode)
		into, slots[w.Key], keys = append(into, s), s, append(keys, w.Key)
	}
	slices.SortFunc(keys, compareKeys)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slots, b.keys = slots, keys
	return into
}

func (s *slot) setMode(m scaling.Mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = m
}

func compareKeys(a, b scaling.Key) int {
	if a.Namespace != b.Namespace {
		if a.Namespace < b.Namespace {
			return -1
		}
		return 1
	}
	switch {
	case a.Name < b.Name:
		return -1
	case a.Name > b.Name:
		return 1
	}
	return 0
}

func (b *Board) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slots, b.keys, b.groups, b.lastTick = map[scaling.Key]*slot{}, nil, nil, time.Time{}
}

func (b *Board) tick(now time.Time) {
	b.mu.Lock()
	b.lastTick = now
	b.mu.Unlock()
	b.history.forget(now, func(k scaling.Key) bool { return b.slot(k) != nil })
}

// LastTick is when the engine last finished a tick; zero before the first. The health of the process follows from it.
func (b *Board) LastTick() time.Time {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.lastTick
}

// History is the record of transitions of the last 24 hours.
func (b *Board) History() *History { return b.history }

func (b *Board) slot(k scaling.Key) *slot {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.slots[k]
}

// Lookup returns the number to serve for a policy, or why there is none. It allocates nothing and does no I/O.
func (b *Board) Lookup(k scaling.Key, now time.Time) (Served, error) {
	s := b.slot(k)
	if s == nil {
		if b.LastTick().IsZero() {
			return Served{}, ErrUndecided // a standby, or a leader before its first tick, knows no names yet
		}
		return Served{}, ErrUnknown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.at.IsZero():
		return Served{}, ErrUndecided
	case s.mode == scaling.Hold || s.workload.Mode == scaling.Hold:
		return Served{}, ErrHeld
	case s.mode == scaling.Advisory || s.workload.Mode == scaling.Advisory:
		return Served{}, ErrAdvisory
	case now.Sub(s.at) > b.maxAge:
		return Served{}, ErrStale
	}
	return Served{Replicas: s.decision.Replicas, Active: s.decision.Active, At: s.at}, nil
}

// Decision returns a copy of a workload's newest decision, without its readings and counterfactuals; ok is false before the first.
func (b *Board) Decision(k scaling.Key) (d scaling.Decision, ok bool) {
	s := b.slot(k)
	if s == nil {
		return d, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.decision.whole(), !s.at.IsZero()
}

// Record returns a copy of a workload's newest outcome; ok is false for an unknown policy. A record with a zero At was never decided.
func (b *Board) Record(k scaling.Key) (r Record, ok bool) {
	s := b.slot(k)
	if s == nil {
		return Record{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record(), true
}

// Glance copies a workload's newest outcome into r, in the memory of r.Readings, and leaves the counterfactuals out: for who looks at
// all workloads often. ok is false for an unknown policy.
func (b *Board) Glance(k scaling.Key, r *Record) (ok bool) {
	s := b.slot(k)
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	*r = Record{
		Workload: *s.workload, View: s.view, Decision: s.decision.whole(), Before: s.before,
		Readings: append(r.Readings[:0], s.readings...), At: s.at, Since: s.since, Unseen: s.unseen,
	}
	return true
}

// Keys returns the policies on the board, sorted. The slice is shared and never written.
func (b *Board) Keys() []scaling.Key {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.keys
}

// told is the part of an outcome whose change is news to a person.
//
// The binding rule is not: which of two rules holds a number that stays changes a hundred times a day.
type told struct {
	replicas         int32
	active, degraded bool
	mode             scaling.Mode
	operator         scaling.Operator
}

func (s *slot) told() told {
	d := &s.decision
	return told{d.Replicas, d.Active, d.Degraded, s.workload.Mode, s.view.Operator}
}

// thought is a decision that is not published yet, and what it was made from.
type thought struct {
	view     View
	readings []scaling.Reading
	decision scaling.Decision
	prior    scaling.Packed // before the tick
	began    Beginning
	made     bool
}

// think runs the brain on the thought's view and readings; awake is memory for the state.
func (s *slot) think(w *scaling.Workload, now time.Time, t *thought, awake *scaling.State) {
	s.state.Unpack(awake)
	t.began = s.beginning(w, &t.view, now)
	t.began.From(awake, w.Policy, t.view.Replicas, now)
	t.prior.Pack(awake)
	observation := observe(t.view, t.readings)
	t.decision = awake.Decide(w.Policy, &observation, now)
	s.state.Pack(awake)
	t.made = true
}

// publish puts a decision on the board. Where it is news it returns a record of it.
func (s *slot) publish(w *scaling.Workload, t *thought, now time.Time) (news Record, first, isNews bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, first := s.told(), s.at.IsZero()
	if first {
		before.replicas = t.view.Replicas
	}
	if first || before.replicas != t.decision.Replicas {
		s.before, s.since = before.replicas, now
	}
	if len(s.readings) != len(t.readings) {
		s.readings = make([]scaling.Reading, len(t.readings))
	}
	copy(s.readings, t.readings)
	if *s.workload != *w {
		s.workload = copied(w)
	}
	s.decision.take(&t.decision)
	s.view, s.at, s.unseen, s.began = t.view, now, false, t.began
	if !first && before == s.told() {
		return Record{}, false, false
	}
	s.without = s.counterfactuals(&t.prior)
	news = s.record()
	news.Before = before.replicas
	return news, first, true
}

// miss notes a tick in which the cluster did not show the target.
func (s *slot) miss(w *scaling.Workload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unseen = true
	if s.at.IsZero() {
		s.workload = copied(w) // a decision is explained by the policy that made it; before the first there is only the newest
	}
}

func (s *slot) record() Record {
	return Record{
		Workload: *s.workload, View: s.view, Decision: s.decision.whole(), Before: s.before,
		Readings: slices.Clone(s.readings), Without: s.without, At: s.at, Since: s.since, Unseen: s.unseen,
	}
}

// counterfactuals asks the brain again, once for each rule that took part, leaving that rule out; before is the state before the tick.
func (s *slot) counterfactuals(before *scaling.Packed) []Counterfactual {
	var from scaling.State
	before.Unpack(&from)
	reasons := s.decision.Reasons
	out := make([]Counterfactual, len(reasons))
	for i, r := range reasons {
		n := scaling.Without(s.workload.Policy, observe(s.view, s.readings), from, s.at, r.Rule, r.Index)
		out[i] = Counterfactual{Rule: r.Rule, Index: r.Index, Replicas: n}
	}
	return out
}
