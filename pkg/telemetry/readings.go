package telemetry

import (
	"sync"
	"sync/atomic"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

// latestReadings contains the newest readings of all policies. Polls write them, and ticks read them.
type latestReadings struct {
	entries atomic.Pointer[entries]
}

// entries contains the readings of all workloads. Most readings are found by the address of the policy, because a pointer is faster to hash
// than a namespace and a name.
type entries struct {
	byPolicy map[*scaling.Policy]*entry
	byKey    map[scaling.Key]*entry     // entries of workloads whose compiled policy is already in byPolicy for another workload
	replaced map[*scaling.Policy]*entry // entries of earlier versions of policies, which a tick in progress may still read
}

func newEntries(n int) entries {
	return entries{make(map[*scaling.Policy]*entry, n), map[scaling.Key]*entry{}, map[*scaling.Policy]*entry{}}
}

func (s *entries) add(e *entry) {
	if s.byPolicy[e.policy] == nil {
		s.byPolicy[e.policy] = e
		return
	}
	s.byKey[e.key] = e
}

// find returns the readings of a workload for the version of its policy in w.Policy. It returns nil if there are none for this version.
func (s *entries) find(w *scaling.Workload) *entry {
	e := s.byPolicy[w.Policy]
	if e == nil {
		if e = s.replaced[w.Policy]; e != nil && e.key != w.Key {
			return nil
		}
		return e
	}
	if e.key != w.Key {
		if e = s.byKey[w.Key]; e != nil && e.policy != w.Policy {
			return nil
		}
	}
	return e
}

// entry contains the readings of one version of one policy. Its lock is held only while a few hundred bytes are copied.
type entry struct {
	key    scaling.Key
	policy *scaling.Policy

	mu       sync.Mutex
	readings []scaling.Reading // one for each signal of the policy, in the same order
	idle     []source.IdlePods // one for each signal, in the same order; nil for a workload without a capacity group
}

// neverRead is the reading of a signal before its first poll.
var neverRead = source.Missing(scaling.CauseNever)

// read copies the readings of a workload to out. It writes neverRead for a signal that has no reading.
func (l *latestReadings) read(w *scaling.Workload, out []scaling.Reading) {
	e := l.entries.Load().find(w)
	if e == nil {
		for i := range out {
			out[i] = neverRead
		}
		return
	}
	e.mu.Lock()
	n := copy(out, e.readings)
	e.mu.Unlock()
	for i := n; i < len(out); i++ {
		out[i] = neverRead
	}
}

func (e *entry) get(i int) scaling.Reading {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.readings[i]
}

func (e *entry) set(i int, r scaling.Reading) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readings[i] = r
}

// record stores the result of a poll for signal i. If the source did not respond or refused the request, the previous value is kept with
// the time of its sample, so it becomes stale after some time. After any other failure the reading is unknown.
func (e *entry) record(i int, r scaling.Reading) {
	e.mu.Lock()
	defer e.mu.Unlock()
	last := &e.readings[i]
	if r.Known {
		r.Failures, r.Cause = 0, scaling.CauseNone
		*last = r
		return
	}
	last.Failures++
	last.Cause = r.Cause
	if r.Cause.KeepsSample() {
		return
	}
	last.Known, last.Coverage, last.Reported = false, r.Coverage, r.Reported
}

// idlePods returns the IdlePods of signal i, to which its source adds the idle pods.
func (e *entry) idlePods(i int) *source.IdlePods {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.idle == nil {
		e.idle = make([]source.IdlePods, len(e.readings))
	}
	return &e.idle[i]
}
