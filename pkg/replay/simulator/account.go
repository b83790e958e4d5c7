package simulator

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

// account integrates the GPU time of a load (a simulated workload) over time. The unit is one slot of one GPU for one microsecond. Integers
// prevent rounding errors.
type account struct {
	parts [ledger.Causes]int64

	// Number of ready replicas, running requests and busy replicas, integrated over time in microseconds. The simulated metrics are computed
	// from them.
	readyTime, runningTime, busyTime int64
}

// touch adds the time since its last call to the sums of the load, such as replica time and request time. It must be called before each
// change of the load's counters.
func (l *load) touch() {
	dt := (l.w.queue.Now - l.touched).Microseconds()
	if dt == 0 {
		return
	}
	l.touched = l.w.queue.Now
	ready, slots := int64(l.ready), int64(l.service.Slots)
	running := int64(l.running)
	l.readyTime += ready * dt
	l.runningTime += running * dt
	l.busyTime += int64(l.busy) * dt

	dt *= int64(l.gpus)
	l.parts[ledger.Serving] += (running + int64(l.drainRunning)) * dt
	l.parts[ledger.Draining] += (int64(l.draining)*slots - int64(l.drainRunning)) * dt
	l.parts[ledger.Loading] += int64(l.loading) * slots * dt

	idle := ready*slots - running
	following := min(idle, max(0, ready-int64(l.target))*slots)
	surplus := min(idle-following, max(0, min(ready, int64(l.target))-int64(l.needed))*slots)
	l.parts[ledger.Following] += following * dt
	l.parts[l.idle] += surplus * dt
	l.parts[ledger.Headroom] += (idle - following - surplus) * dt
}

// ledger returns the account as GPU time by cause: each part divided by slots, the number of slots of a replica. The remainders of these
// divisions are added to Headroom, so that the sum is exact.
func (a *account) ledger(slots int64) (out ledger.Ledger) {
	var whole, left int64
	for c, part := range a.parts {
		out[c] = time.Duration(part/slots) * time.Microsecond
		whole += part
		left += part / slots
	}
	out[ledger.Headroom] += time.Duration(whole/slots-left) * time.Microsecond
	return out
}
