package engine

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// Each error of Lookup is a reason why a target is not served. A server answers "not found" for ErrUnknown and "unavailable" for every
// other error. An HPA then keeps its replicas.
var (
	ErrUnknown   = errors.New("no such policy")
	ErrUndecided = errors.New("not decided yet")
	ErrStale     = errors.New("the last decision is too old")
	ErrFuture    = errors.New("the last decision is from the future: the clock stepped back")
	ErrUnseen    = errors.New("the scale target does not exist in the cluster")
	ErrReplaced  = errors.New("the scale target was replaced: no decision for the new one yet")
	ErrHeld      = errors.New("PlatformConfig has mode: hold, which serves no target")
	ErrAdvisory  = errors.New("the policy is advisory: its target is computed but not served")
)

// Served is the target that the external metrics API and the KEDA scaler return.
type Served struct {
	Replicas int32
	Active   bool
	At       time.Time // time of the decision
}

// RefusedError is the error of Lookup for a scale target that exists but cannot be scaled. Why is the reason.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return e.Why }

// Is returns true for ErrUnseen. Callers then treat a refused scale target like a missing one, because no decision is made for either.
func (e *RefusedError) Is(target error) bool { return target == ErrUnseen }

// Decisions returns the targets to serve. DecisionStore implements it.
type Decisions interface {
	// Lookup returns the target to serve at the time now, or one of the errors ErrUnknown to ErrAdvisory.
	Lookup(k scaling.Key, now time.Time) (Served, error)
}

// LookupNow calls Lookup with the time that the function clock returns. A DecisionStore calls clock while it holds the workload's lock. If
// the time were read before the lock is acquired, a tick could store a newer decision in between, and Lookup would return ErrFuture.
func LookupNow(d Decisions, k scaling.Key, clock func() time.Time) (Served, error) {
	if b, is := d.(*DecisionStore); is {
		return b.lookup(k, clock)
	}
	return d.Lookup(k, clock())
}

// Identities is implemented by a Cluster that can return the UID of a scale target at any time, also between two ticks.
type Identities interface {
	// TargetUID returns the UID of a workload's scale target from memory; ok is false if the target does not exist.
	TargetUID(w *scaling.Workload) (uid string, ok bool)
}

// Record is the newest decision for a workload with all of its inputs. Explanations, metrics and the history use it.
type Record struct {
	Workload scaling.Workload
	View     View
	Decision scaling.Decision
	Before   int32 // the target before the change that this record describes
	Readings []scaling.Reading
	Without  []Counterfactual
	// Learned is a summary of what gpuscaler learned about the workload for its objective. The summary is at most learnedInterval old. It is
	// nil if the policy has no objective.
	Learned *objective.Learned
	At      time.Time // time of the decision
	Since   time.Time // time since which the target has its value
	Unseen  bool      // the last tick did not find the scale target in the cluster, so it made no decision
	Refusal string    // why an existing scale target cannot be scaled; otherwise empty
	// Superseded is true if the policy or the scale target was replaced after the decision.
	Superseded bool
}

// Observation returns the inputs of the record's decision.
func (r *Record) Observation() scaling.Observation { return observe(r.View, r.Readings) }

// Counterfactual is the target that a decision would have had without one of its rules.
type Counterfactual struct {
	Rule     scaling.Rule
	Index    int8
	Replicas int32
}

// DecisionStore contains the newest decision of every workload. A reader does not wait for a tick to end, because each entry is locked only
// while a decision is copied.
type DecisionStore struct {
	maxAge       time.Duration
	identities   Identities // if nil, only a tick detects that a scale target was replaced
	history      *History
	groupHistory history.Log[string, GroupRecord] // changes of the capacity groups, by name

	mu       sync.RWMutex
	entries  map[scaling.Key]*workloadEntry
	keys     []scaling.Key // sorted
	groups   []*groupEntry // in the order of the PlatformConfig
	teams    []*teamEntry  // sorted by the position of each team's first policy
	lastTick time.Time
}

func newDecisionStore(maxAge time.Duration, c Cluster) *DecisionStore {
	identities, _ := c.(Identities)
	return &DecisionStore{maxAge: maxAge, identities: identities, history: &History{}, entries: map[scaling.Key]*workloadEntry{}}
}

// adopt makes the store contain one entry for each current workload. It keeps the entries of existing workloads, adds entries for new
// workloads and removes the entries of removed workloads. It appends the entries to the slice into, in the order of the workloads, and
// returns that slice.
func (b *DecisionStore) adopt(current []scaling.Workload, into []*workloadEntry) []*workloadEntry {
	entries := make(map[scaling.Key]*workloadEntry, len(current))
	keys := make([]scaling.Key, 0, len(current))
	for i := range current {
		w := &current[i]
		s := b.entries[w.Key]
		if s == nil {
			s = newWorkloadEntry(w)
		}
		s.adopt(w)
		into, entries[w.Key], keys = append(into, s), s, append(keys, w.Key)
	}
	slices.SortFunc(keys, scaling.Key.Compare)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries, b.keys = entries, keys
	return into
}

func (b *DecisionStore) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries, b.keys, b.groups, b.teams, b.lastTick = map[scaling.Key]*workloadEntry{}, nil, nil, nil, time.Time{}
}

func (b *DecisionStore) tick(now time.Time) {
	b.mu.Lock()
	back := now.Before(b.lastTick)
	b.lastTick = now
	b.mu.Unlock()
	if back {
		b.expire(now)
	}
	b.history.log.Forget(now, func(k scaling.Key) bool { return b.entry(k) != nil })
}

// expire marks the decisions whose time is in the future, which happens if the clock was set back. Their real age is unknown, so a marked
// decision is never served again, even when the clock reaches its time.
func (b *DecisionStore) expire(now time.Time) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, s := range b.entries {
		s.expire(now)
	}
}

// LastTick returns when the engine last finished a tick; zero before the first. The liveness probe uses it.
func (b *DecisionStore) LastTick() time.Time {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.lastTick
}

// History returns the transitions of the last 24 hours.
func (b *DecisionStore) History() *History { return b.history }

func (b *DecisionStore) entry(k scaling.Key) *workloadEntry {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.entries[k]
}

// Lookup returns the target to serve for a policy at the time now, or an error with the reason why no target is served. It allocates no
// memory and does no I/O.
func (b *DecisionStore) Lookup(k scaling.Key, now time.Time) (Served, error) {
	return b.lookup(k, func() time.Time { return now })
}

func (b *DecisionStore) lookup(k scaling.Key, clock func() time.Time) (Served, error) {
	s := b.entry(k)
	if s == nil {
		if b.LastTick().IsZero() {
			return Served{}, ErrUndecided // no tick since this process started or became the leader: the store has no policies
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

// Decision returns a copy of a workload's newest decision, without readings and counterfactuals; ok is false before the first decision.
func (b *DecisionStore) Decision(k scaling.Key) (d scaling.Decision, ok bool) {
	s := b.entry(k)
	if s == nil {
		return d, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.decision.unpack(), !s.at.IsZero()
}

// Record returns a copy of a workload's record. ok is false for an unknown policy. If At is zero, no decision was made so far.
func (b *DecisionStore) Record(k scaling.Key) (r Record, ok bool) {
	s := b.entry(k)
	if s == nil {
		return Record{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record(), true
}

// CopyRecord copies a workload's record to r and reuses the memory of r.Readings. It omits the counterfactuals. Callers that often read all
// workloads use it. ok is false for an unknown policy.
func (b *DecisionStore) CopyRecord(k scaling.Key, r *Record) (ok bool) {
	s := b.entry(k)
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	*r = Record{
		Workload: *s.workload, View: s.view.unpack(), Decision: s.decision.unpack(), Before: s.before,
		Readings: append(r.Readings[:0], s.readings...), At: s.at, Since: s.since, Unseen: s.unseen, Refusal: s.refusal,
		Superseded: s.superseded(), Learned: s.learned(),
	}
	return true
}

// Keys returns the policies in the store, sorted. The slice is shared; do not change it.
func (b *DecisionStore) Keys() []scaling.Key {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.keys
}
