package engine

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Why a target is not served. A server maps ErrUnknown to "not found" and every other one to "unavailable", which makes an HPA keep its
// replicas.
var (
	ErrUnknown   = errors.New("no such policy")
	ErrUndecided = errors.New("not decided yet")
	ErrStale     = errors.New("the last decision is too old")
	ErrFuture    = errors.New("the last decision is from the future: the clock stepped back")
	ErrUnseen    = errors.New("the scale target does not exist in the cluster")
	ErrReplaced  = errors.New("the scale target was replaced: no decision for the new one yet")
	ErrHeld      = errors.New("held by PlatformConfig mode: hold")
	ErrAdvisory  = errors.New("the policy is advisory: it decides but is not served")
)

// Served is the target that the external metrics API and the KEDA scaler return.
type Served struct {
	Replicas int32
	Active   bool
	At       time.Time // when it was decided
}

// RefusedError is ErrUnseen of a scale target that exists and cannot be scaled.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

// Is reports that nothing is decided for the target, as for one that does not exist.
func (e *RefusedError) Is(target error) bool { return target == ErrUnseen }

// Decisions returns the targets to serve. DecisionStore implements it.
type Decisions interface {
	// Lookup returns the target to serve at now, or one of the errors that say why there is none.
	Lookup(k scaling.Key, now time.Time) (Served, error)
}

// LookupNow is Lookup at the time that the clock reads. On a DecisionStore the clock is read under the lock of the workload, so that no tick comes in
// between: its decision would be younger than the clock's value, which means otherwise that the clock stepped back.
func LookupNow(d Decisions, k scaling.Key, clock func() time.Time) (Served, error) {
	if b, is := d.(*DecisionStore); is {
		return b.lookup(k, clock)
	}
	return d.Lookup(k, clock())
}

// Identities is a Cluster that knows at any time, also between two ticks, which object is the scale target at present.
type Identities interface {
	// TargetUID returns the UID of a workload's scale target from memory; ok is false while the target does not exist.
	TargetUID(w *scaling.Workload) (uid string, ok bool)
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
	Refusal  string    // why it did not, where the target exists
	// Superseded reports that the decision was made under another version of the policy, or for another scale target, than is in force.
	Superseded bool
}

// Counterfactual is the number that the tick which made the last news would have given without one of the rules that took part.
type Counterfactual struct {
	Rule     scaling.Rule
	Index    int8
	Replicas int32
}

// DecisionStore holds the newest outcome of every workload. Readers never wait for a tick: each slot is locked for as long as it takes
// to copy a decision.
type DecisionStore struct {
	maxAge       time.Duration
	identities   Identities // nil: only a tick sees that the scale target was replaced
	history      *History
	groupHistory groupHistory

	mu       sync.RWMutex
	slots    map[scaling.Key]*slot
	keys     []scaling.Key // sorted
	groups   []*groupSlot  // in the order of the PlatformConfig
	teams    []*teamSlot   // in the order of their first policies
	lastTick time.Time
}

func newDecisionStore(maxAge time.Duration, c Cluster) *DecisionStore {
	identities, _ := c.(Identities)
	return &DecisionStore{maxAge: maxAge, identities: identities, history: newHistory(), slots: map[scaling.Key]*slot{}}
}

// adopt keeps the slots of workloads that go on, opens one for each new workload and forgets the others. It returns the slots
// parallel to current, in into's memory.
func (b *DecisionStore) adopt(current []scaling.Workload, into []*slot) []*slot {
	slots := make(map[scaling.Key]*slot, len(current))
	keys := make([]scaling.Key, 0, len(current))
	for i := range current {
		w := &current[i]
		s := b.slots[w.Key]
		if s == nil {
			s = newSlot(w)
		}
		s.adopt(w)
		into, slots[w.Key], keys = append(into, s), s, append(keys, w.Key)
	}
	slices.SortFunc(keys, compareKeys)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slots, b.keys = slots, keys
	return into
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

func (b *DecisionStore) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slots, b.keys, b.groups, b.teams, b.lastTick = map[scaling.Key]*slot{}, nil, nil, nil, time.Time{}
}

func (b *DecisionStore) tick(now time.Time) {
	b.mu.Lock()
	back := now.Before(b.lastTick)
	b.lastTick = now
	b.mu.Unlock()
	if back {
		b.expire(now)
	}
	b.history.forget(now, func(k scaling.Key) bool { return b.slot(k) != nil })
}

// expire marks the decisions of a time that is not reached yet, after the clock stepped back: their age is unknown, and it stays unknown
// when the clock reads the same again.
func (b *DecisionStore) expire(now time.Time) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range b.slots {
		s.expire(now)
	}
}

// LastTick is when the engine last finished a tick; zero before the first. The health of the process follows from it.
func (b *DecisionStore) LastTick() time.Time {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.lastTick
}

// History is the record of transitions of the last 24 hours.
func (b *DecisionStore) History() *History { return b.history }

func (b *DecisionStore) slot(k scaling.Key) *slot {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.slots[k]
}

// Lookup returns the target to serve for a policy at now, or why there is none. It allocates nothing and does no I/O.
func (b *DecisionStore) Lookup(k scaling.Key, now time.Time) (Served, error) {
	return b.lookup(k, func() time.Time { return now })
}

func (b *DecisionStore) lookup(k scaling.Key, clock func() time.Time) (Served, error) {
	s := b.slot(k)
	if s == nil {
		if b.LastTick().IsZero() {
			return Served{}, ErrUndecided // a standby, or a leader before its first tick, has no policies yet
		}
		return Served{}, ErrUnknown
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unserved(clock(), b.maxAge); err != nil {
		return Served{}, err
	}
	if b.identities != nil {
		switch uid, ok := b.identities.TargetUID(s.inForce); {
		case !ok:
			return Served{}, ErrUnseen
		case uid != s.view.UID:
			return Served{}, ErrReplaced
		}
	}
	n := s.bounded()
	return Served{Replicas: n, Active: s.decision.Active || n > s.decision.Replicas, At: s.at}, nil
}

// Decision returns a copy of a workload's newest decision, without its readings and counterfactuals; ok is false before the first.
func (b *DecisionStore) Decision(k scaling.Key) (d scaling.Decision, ok bool) {
	s := b.slot(k)
	if s == nil {
		return d, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.decision.whole(), !s.at.IsZero()
}

// Record returns a copy of a workload's newest outcome; ok is false for an unknown policy. A record with a zero At was never decided.
func (b *DecisionStore) Record(k scaling.Key) (r Record, ok bool) {
	s := b.slot(k)
	if s == nil {
		return Record{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record(), true
}

// CopyRecord copies a workload's newest outcome into r, in the memory of r.Readings, and leaves the counterfactuals out: for who looks at
// all workloads often. ok is false for an unknown policy.
func (b *DecisionStore) CopyRecord(k scaling.Key, r *Record) (ok bool) {
	s := b.slot(k)
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	*r = Record{
		Workload: *s.workload, View: s.view, Decision: s.decision.whole(), Before: s.before,
		Readings: append(r.Readings[:0], s.readings...), At: s.at, Since: s.since, Unseen: s.unseen, Refusal: s.refusal, Superseded: s.superseded(),
	}
	return true
}

// Keys returns the policies on the board, sorted. The slice is shared and never written.
func (b *DecisionStore) Keys() []scaling.Key {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.keys
}
