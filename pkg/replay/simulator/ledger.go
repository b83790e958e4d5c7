package simulator

import (
	"strconv"
	"time"
)

// Cause says why a GPU was paid for at some instant.
type Cause uint8

const (
	Serving       Cause = iota // the share of its slots that requests are in
	Headroom                   // idle slots of replicas that the signals ask for
	Cooldown                   // above what the signals ask for: a window, a rate or a cooldown has not passed
	ScheduleFloor              // above what the signals ask for: a schedule or a forecast wants it
	Minimum                    // above what the signals ask for: the least replicas of the policy, or a static fleet
	Held                       // above what the signals ask for: inputs are missing, a veto, or a person
	Following                  // above the target: whoever follows it has not acted yet
	Loading                    // image pull and model load
	Draining                   // idle slots of a replica that ends and serves its last requests
	Launching                  // nodes that start, until their GPUs can be used
	Empty                      // nodes without any replica
	Fragmentation              // free GPUs of nodes with replicas
	Terminating                // nodes on their way out, without replicas
	numCauses
)

var causeNames = [numCauses]string{"serving", "headroom", "cooldown", "scheduleFloor", "minimum", "held", "following", "loading",
	"draining", "launching", "empty", "fragmentation", "terminating"}

// String is the word used in reports.
func (c Cause) String() string { return causeNames[c] }

// Ledger is GPU time by cause. The parts sum to the GPU time that was paid for.
type Ledger [numCauses]time.Duration

// Sum is the GPU time of all causes.
func (l *Ledger) Sum() (total time.Duration) {
	for _, d := range l {
		total += d
	}
	return total
}

// MarshalJSON writes the seconds of each cause, by its word.
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

// Idle is all that served nobody.
func (l *Ledger) Idle() time.Duration { return l.Sum() - l[Serving] }

// account integrates a load's GPU time. Amounts are slot-microseconds of one GPU, whole numbers, so that nothing is lost to rounding.
type account struct {
	parts [numCauses]int64
	since time.Duration

	// Integrals for the metrics, in microseconds.
	readyTime, runningTime, busyTime int64
}

// touch books the time since the last change of the load's numbers. It must be called before each of them changes.
func (l *load) touch() {
	dt := (l.w.now - l.since).Microseconds()
	if dt == 0 {
		return
	}
	l.since = l.w.now
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

// ledger is the account in GPU time. What division loses goes to the greatest part's remainder, so that the sum stays whole.
func (l *load) ledger() (out Ledger) {
	slots := int64(l.service.Slots)
	var whole, left int64
	for c, part := range l.parts {
		out[c] = time.Duration(part/slots) * time.Microsecond
		whole += part
		left += part / slots
	}
	out[Headroom] += time.Duration(whole/slots-left) * time.Microsecond
	return out
}
