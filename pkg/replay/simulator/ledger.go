package simulator

import (
	"strconv"
	"time"
)

// Cause is the reason for which a GPU is paid at a point in time.
type Cause uint8

// Values of Cause.
const (
	Serving       Cause = iota // the share of slots with requests
	Headroom                   // idle slots of replicas that the signals request
	Cooldown                   // replicas above what the signals request: a window, a rate limit or a cooldown has not passed
	ScheduleFloor              // replicas above what the signals request: a schedule or a forecast keeps them
	Minimum                    // replicas above what the signals request: minReplicas, or a static fleet
	Held                       // replicas above what the signals request: missing data, another rule, or an operator's override keeps them
	Following                  // replicas above the target: the actuator has not reacted yet
	Loading                    // image pull and model load
	Draining                   // idle slots of terminating replicas that finish their requests
	Launching                  // starting nodes, until their GPUs are usable
	Empty                      // nodes without any replica
	Fragmentation              // free GPUs of nodes with replicas
	Terminating                // terminating nodes, without replicas
	numCauses
)

var causeNames = [numCauses]string{"serving", "headroom", "cooldown", "scheduleFloor", "minimum", "held", "following", "loading",
	"draining", "launching", "empty", "fragmentation", "terminating"}

// String returns the name used in reports.
func (c Cause) String() string { return causeNames[c] }

// Ledger is GPU time by cause. The sum is the paid GPU time.
type Ledger [numCauses]time.Duration

// Sum returns the GPU time of all causes.
func (l *Ledger) Sum() (total time.Duration) {
	for _, d := range l {
		total += d
	}
	return total
}

// MarshalJSON writes the seconds of each cause, by its name.
func (l Ledger) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for c, d := range l {
		if c > 0 {
			out = append(out, ',')
		}
		out = append(out, '"')
		out = append(out, causeNames[c]...)
		out = append(out, '"', ':')
		out = strconv.AppendFloat(out, d.Seconds(), 'f', -1, 64)
	}
	return append(out, '}'), nil
}

// Idle returns the GPU time that did not serve requests.
func (l *Ledger) Idle() time.Duration { return l.Sum() - l[Serving] }

// account integrates the GPU time of a load. The unit is one slot of one GPU for one microsecond. The values are integers, so that nothing
// is lost by rounding.
type account struct {
	parts [numCauses]int64

	// Number of ready replicas, running requests and busy replicas, integrated over time in microseconds. The simulated metrics are computed
	// from them.
	readyTime, runningTime, busyTime int64
}

// touch adds the time since the last change to the account. It must be called before each change of the load's counters.
func (l *load) touch() {
	dt := (l.w.now - l.touched).Microseconds()
	if dt == 0 {
		return
	}
	l.touched = l.w.now
	ready, slots := int64(l.ready), int64(l.service.Slots)
	running := int64(l.running)
	l.readyTime += ready * dt
	l.runningTime += running * dt
	l.busyTime += int64(l.busy) * dt

	dt *= int64(l.gpus)
	l.parts[Serving] += (running + int64(l.drainRunning)) * dt
	l.parts[Draining] += (int64(l.draining)*slots - int64(l.drainRunning)) * dt
	l.parts[Loading] += int64(l.loading) * slots * dt

	idle := ready*slots - running
	following := min(idle, max(0, ready-int64(l.target))*slots)
	surplus := min(idle-following, max(0, min(ready, int64(l.target))-int64(l.asked))*slots)
	l.parts[Following] += following * dt
	l.parts[l.idle] += surplus * dt
	l.parts[Headroom] += (idle - following - surplus) * dt
}

// ledger returns the account in GPU time. The remainder of the divisions is added to Headroom, so that the sum is exact.
func (a *account) ledger(slots int64) (out Ledger) {
	var whole, left int64
	for c, part := range a.parts {
		out[c] = time.Duration(part/slots) * time.Microsecond
		whole += part
		left += part / slots
	}
	out[Headroom] += time.Duration(whole/slots-left) * time.Microsecond
	return out
}
