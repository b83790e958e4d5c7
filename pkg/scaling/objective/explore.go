package objective

import (
	"math"
	"time"
)

// budgetLeft reports whether at least half of the late budget is left: the work that was late so far is at most half of what the SLO
// permits.
func (m *Model) budgetLeft() bool {
	b := &m.saved.B
	return b.Actual.late() <= m.saved.O.allowed()*(b.Work+b.NewWork)/2
}

// exploreSeconds is the minimum time in seconds in which no work waited, before plans assume a greater capacity.
const exploreSeconds = 240

// explore makes plans assume a greater capacity of a replica after some time in which no work waited. Each step is large enough to remove
// one replica. When work waits, the capacity is measured, and the steps end. If the assumed capacity is too great, work is late for about
// one cold start. Therefore, explore takes no step in the following cases:
//   - a cold start takes longer than half of the time for which all work may be late within the SLO's window
//   - the expected late work of the step is more than half of the work that may be late in the time observed so far
//   - more than half of the late budget is used
func (m *Model) explore(now time.Time, e *Evidence) {
	s := &m.saved
	c := &s.Capacity
	slow := usable(e.Latency) && e.Latency.V > s.O.Limit.Seconds()/2
	if !usable(e.Queued) || e.Queued.V > 0 || slow || c.QuietAt < s.ReadyAt {
		c.QuietAt, c.Recent = signedInt(now.UnixNano()), 0
		return
	}
	x := m.plant()
	lead := float64(x.cold) * x.slot
	if e.Ready < 2 || c.Saturated.Count+c.Full.Count > 0 || float64(now.UnixNano()-int64(c.QuietAt))/1e9 < max(exploreSeconds, 2*lead) {
		return
	}
	window := s.O.window()
	budget := x.allowed * min(window.Seconds(), s.Observed) / 2
	if lead > x.allowed*window.Seconds()/2 || m.expectedLate(&x, e.Ready) > budget || !m.budgetLeft() {
		return
	}
	if bound := c.bound(m.perInFlight()); bound > 0 {
		n := float64(e.Ready)
		c.Tried = min(max(c.Tried, c.Recent*n/(n-1)), math.Max(2*bound, c.Tried))
	}
	c.QuietAt, c.Recent = signedInt(now.UnixNano()), 0
}

// expectedLate returns for how many seconds all work is expected to be late if one of the ready replicas is removed. The remaining replicas
// serve at least the load that they served so far. In the worst case, the load of the removed replica waits until a new replica is ready
// and has served the queue. The more replicas there are, the smaller is this load, and the later the wait exceeds the limit.
//
// The worst case is multiplied by the probability that the remaining replicas have too few serving slots. The number of their serving slots
// is unknown. It is assumed to be equally likely in each doubling from the greatest work in flight so far to mostSlots.
func (m *Model) expectedLate(x *plant, ready int32) float64 {
	left := float64(ready - 1)
	late := float64((1+m.t.Drain)*float64(x.cold)*x.slot) - float64(left*x.limit)
	doublings := 1.0
	for n := max(m.saved.Capacity.Peak, 1); n < mostSlots/2; n *= 2 {
		doublings++
	}
	return max(late/left/doublings, 0)
}

// mostSlots is the greatest number of requests that a replica is expected to process at the same time. With an eighth and with eight times
// this value, the results of 32 simulations of the benchmark (make bench-decisions) are the same.
const mostSlots = 256
