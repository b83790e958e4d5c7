package telemetry

import (
	"sync"
	"sync/atomic"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// board holds the newest readings by policy. Polls write it, ticks read it.
type board struct {
	entries atomic.Pointer[entries]
}

// entries finds an entry by the policy's address, which is hashed in a fraction of the time that two strings take. Workloads that
// share one compiled policy are told apart by their keys, in others. Those of the versions before stay in replaced for a while: the
// tick that is under way when a new one comes was handed the old one.
type entries struct {
	byPolicy map[*scaling.Policy]*entry
	others   map[scaling.Key]*entry
	replaced map[*scaling.Policy]*entry
}

func newEntries(n int) entries {
	return entries{make(map[*scaling.Policy]*entry, n), map[scaling.Key]*entry{}, map[*scaling.Policy]*entry{}}
}

func (s *entries) add(e *entry) {
	if s.byPolicy[e.policy] == nil {
		s.byPolicy[e.policy] = e
		return
	}
	s.others[e.key] = e
}

func (s *entries) find(w *scaling.Workload) *entry {
	e := s.byPolicy[w.Policy]
	if e == nil {
		if e = s.replaced[w.Policy]; e != nil && e.key != w.Key {
			return nil
		}
		return e
	}
	if e.key != w.Key {
		if e = s.others[w.Key]; e != nil && e.policy != w.Policy {
			return nil
		}
	}
	return e
}

// entry is one version of one policy. The lock is held for a copy of a few hundred bytes.
type entry struct {
	key    scaling.Key
	policy *scaling.Policy

	mu       sync.Mutex
	readings []scaling.Reading // as many as the policy has signals
	rests    []resting         // parallel; nil for a workload without a capacity group
}

var never = scaling.Reading{Reported: -1, Cause: scaling.CauseNever}

func (b *board) read(w *scaling.Workload, out []scaling.Reading) {
	e := b.entries.Load().find(w)
	if e == nil {
		for i := range out {
			out[i] = never
		}
		return
	}
	e.mu.Lock()
	n := copy(out, e.readings)
	e.mu.Unlock()
	for i := n; i < len(out); i++ {
		out[i] = never
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

// record takes in what a poll brought for signal i.
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
	if r.Cause == scaling.CauseUnreachable || r.Cause == scaling.CauseForbidden {
		return // nothing was learnt: the newest sample stands, with its own time, and goes stale by itself
	}
	last.Known, last.Coverage, last.Reported = false, r.Coverage, r.Reported
}
