package main

import (
	"fmt"
	"time"
)

// The invariants. Each is checked at every step, except the last three, which are checked at the end of a run. They are checked from what
// autoscalers read, what the API server stores, what the watches delivered and what Prometheus returned.
const (
	evidenceForDecrease = "a target decreases only while each signal of the policy has a sample that is at most two minutes old"
	loadIsServed        = "a target does not decrease below what the newest sample of a signal needs"
	evidenceForIncrease = "a target increases only to what a sample, the policy or the observed replicas need"
	firstKeepsReplicas  = "a new leader does not lower the replicas that it finds before it has a sample"
	servedInBounds      = "a served target is within the bounds and the open schedules of the policy files that the replica has loaded"
	servedIdentity      = "a served target was decided for the scale target that the replica's watches show"
	servedFresh         = "a served target is at most a minute old, and mode hold serves none"
	oneServer           = "at most one replica serves at any time"
	oneRelease          = "while a release leads and overrides a NodePool, another one does not write it, and leads for at most half a minute"
	holderWrites        = "only the holder of the Lease writes"
	consentedFields     = "gpuscaler changes only the fields that the NodePool's annotation lists at that time, and its own annotations"
	overridesRecorded   = "a NodePool whose field gpuscaler changed has a record that contains the owner's present value"
	newerRecord         = "while a NodePool has a record of a newer version, gpuscaler only restores its owner's values, and keeps the record"
	editsStay           = "a field to which its owner gave a new value during an override is not changed for ten minutes"
	noStarvation        = "no limit of gpuscaler blocks a pending pod of a group for more than three minutes while a healthy replica leads"
	standbyTakesOver    = "a healthy replica leads and ticks within 25 seconds after the last leader ended"
	leaderLabeled       = "20 seconds after a healthy replica became the leader, its pod has the leader label, and no other pod has it"
	pushedInactive      = "KEDA receives that a workload is not active only while the sender serves the target 0"
	pushArrives         = "KEDA's stream is open at most 62 seconds after it can be, and transfers an activation within a second"
	streamsReturn       = "a second after a stream of KEDA is closed, its handler has returned"
	explained           = "each change of a target has a reason of its binding rule"
	noPartFails         = "no part of a tick fails"
	fewWrites           = "a replica writes a NodePool at most ten times a minute"
	quietNoWrites       = "without a change of the load or of an object, nothing is written to a NodePool in the last minute"
	convergence         = "nine minutes after the last fault, each target is what the load needs, and what a new controller decides"
	restoration         = "a minute after the last group is removed, each field of a NodePool has its owner's value, and gpuscaler owns none"
)

// violation is the first broken invariant of a run.
type violation struct{ invariant, text string }

// checker checks the invariants. It knows the objects of the API server, what the watches of each replica have delivered, and which samples
// Prometheus returned.
type checker struct {
	sim         *simulation
	violation   *violation
	writes      int
	transitions int

	samples    map[*replica]map[string]sample // the newest usable sample that each replica received, by workload and signal
	previous   map[string]previousTarget      // by replica and workload
	writeTimes map[string][]time.Time         // by NodePool
	blocked    map[string]time.Time           // since when a limit blocks a group; by group
	healthy    map[*replica]time.Time         // since when a replica is healthy
	contested  map[*replica]time.Time         // since when a process leads although another release overrides its NodePools
	led        time.Time                      // when a replica led and ticked last
}

func newChecker(s *simulation) *checker {
	return &checker{sim: s, samples: map[*replica]map[string]sample{}, previous: map[string]previousTarget{},
		writeTimes: map[string][]time.Time{}, blocked: map[string]time.Time{}, healthy: map[*replica]time.Time{},
		contested: map[*replica]time.Time{}}
}

// fail records the first violation.
func (c *checker) fail(invariant, format string, args ...any) {
	if c.violation == nil {
		c.violation = &violation{invariant, fmt.Sprintf("%.1fs: ", c.sim.now.Sub(c.sim.began).Seconds()) + fmt.Sprintf(format, args...)}
		c.sim.trace("violated: %s: %s", invariant, c.violation.text)
	}
}

// sample is a value of a signal that Prometheus returned.
type sample struct {
	at    time.Time
	value float64
}

// evidence records that a replica received a usable sample of a workload.
func (c *checker) evidence(r *replica, w *workload, signal string, value sample) {
	if c.samples[r] == nil {
		c.samples[r] = map[string]sample{}
	}
	c.samples[r][w.name+" "+signal] = value
}
