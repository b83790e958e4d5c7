package objective

import (
	"math"
	"time"
)

// budgetLeft reports whether at least half of the late budget is left.
func (m *Model) budgetLeft() bool {
	b := &m.saved.B
	return b.Actual.late() <= m.saved.O.allowed()*(b.Work+b.NewWork)/2
}

// exploreSeconds is the minimum time in seconds without a wait before a greater capacity is tried.
const exploreSeconds = 240

// explore makes plans assume a greater capacity after a time in which no work waited. Each step is large enough to remove one replica. The
// steps end when work waits, because the capacity is then measured. If the assumed capacity is too great, work is late for about one cold
// start. explore therefore takes no step in the following cases:
//   - a cold start is longer than half of the time for which all work may be late in the window,
//   - the expected late work of the step is more than half of the work that may be late in the time observed so far,
//   - more than half of the late budget is used.
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
	window := s.O.Window
	if window <= 0 {
		window = DefaultWindow
	}
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

// expectedLate returns for how many seconds all work is expected to be late if one of the ready replicas is removed. The other replicas
// serve at least the load that they served so far. In the worst case, the load of the removed replica waits until a new replica is ready
// and has served it. With more replicas, this load is smaller, so it takes longer until the wait exceeds the limit.
//
// The worst case is multiplied by the probability that the other replicas have too few serving slots. Their number of serving slots is not
// known. It is assumed to be equally likely to lie in each doubling between the greatest work in flight so far and mostSlots.
func (m *Model) expectedLate(x *plant, ready int32) float64 {
	left := float64(ready - 1)
	late := float64((1+m.t.Drain)*float64(x.cold)*x.slot) - float64(left*x.limit)
	doublings := 1.0
	for n := max(m.saved.Capacity.Peak, 1); n < mostSlots/2; n *= 2 {
		doublings++
	}
	return max(late/left/doublings, 0)
}

// mostSlots is the greatest number of requests that a replica is expected to process at once. With an eighth and with eight times this
// value, the results of 32 cells of the families lonely, rare, visits and steady (make bench-decisions) are the same.
const mostSlots = 256
