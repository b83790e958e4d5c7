package telemetry

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

var _ engine.IdlePods = (*Poller)(nil)

// Idle reports whether a pod is idle. A pod is idle if every signal that is measured per pod has the value 0 for it in the latest reading,
// and none of these readings is stale. A pod without a value for one of these signals is not idle. Idle returns false for a workload
// without a capacity group.
func (p *Poller) Idle(w *scaling.Workload, pod string, now time.Time) bool {
	e := p.latest.entries.Load().find(w)
	if e == nil {
		return false
	}
	e.mu.Lock()
	signals := e.idle
	e.mu.Unlock()
	idle := false
	for i := range signals {
		pods, at, ok := signals[i].Latest()
		if !ok {
			continue // the source of this signal does not return a value for each pod
		}
		if !slices.Contains(pods, pod) || i >= len(w.Policy.Signals) || now.Sub(at) > w.Policy.Signals[i].MaxAge {
			return false
		}
		idle = true
	}
	return idle
}
