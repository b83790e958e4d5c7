package telemetry

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var _ engine.Idlers = (*Poller)(nil)

// resting is which ready pods one signal saw doing nothing: a value of exactly 0, which no pod in use has.
type resting struct {
	asked bool // the signal is one of pods, and was combined
	at    time.Time
	pods  []string
}

// atRest notes who did nothing in the reading that was just combined, for workloads of a capacity group: nobody else asks.
func (r *roster) atRest(k *work, s *slot, at time.Time) {
	if s.entry == nil || k.w.Group == "" {
		return
	}
	var pods []string
	for i := k.rowsLo; i < k.rowsHi; i++ {
		if p := &r.rows[i]; p.counted && p.pod.Ready && p.value == 0 {
			pods = append(pods, p.pod.Name)
		}
	}
	s.entry.mu.Lock()
	defer s.entry.mu.Unlock()
	if s.entry.rests == nil {
		s.entry.rests = make([]resting, len(s.entry.readings))
	}
	s.entry.rests[s.index] = resting{true, at, pods}
}

// Idle tells whether every signal of pods saw a pod doing nothing, lately. What is not known is not idle.
func (p *Poller) Idle(w *scaling.Workload, pod string, now time.Time) bool {
	e := p.board.entries.Load().find(w)
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	idle := false
	for i := range e.rests {
		r := &e.rests[i]
		if !r.asked {
			continue
		}
		if !slices.Contains(r.pods, pod) || i >= len(w.Policy.Signals) || now.Sub(r.at) > w.Policy.Signals[i].MaxAge {
			return false
		}
		idle = true
	}
	return idle
}
