package objective

import (
	"math"
	"time"
)

// capacity is what is known about the work per second that a replica serves.
//
// While work waits, it is measured. Otherwise there are two lower bounds: the greatest throughput, and the greatest work in flight divided
// by the mean time of service. By Little's law, that time is the mean work in flight divided by the mean throughput. From there, it is
// explored: after a span without a wait, the capacity is tried at which one replica less would have served the load of that span.
type capacity struct {
	Saturated samples // throughput of a replica while work waited
	Full      samples // work in flight in a replica while work waited
	Value     float64 // that plans use; 0: not known
	Proven    float64 // greatest throughput of a replica
	Peak      float64 // greatest work in flight in a replica, in two consecutive samples
	Tried     float64 // greatest capacity that was tried; 0: none
	Version   uint64

	InFlight   float64   // weighted mean of the work in flight in a replica
	Served     float64   // mean throughput of a replica, with the same weights
	Weight     float64   // their sum, seconds
	Before     float64   // work in flight in a replica, in the sample before
	InFlightAt signedInt // time of that sample
	Through    float64   // mean throughput of two minutes, for the workload
	Recent     float64   // greatest load of a replica since QuietAt
	QuietAt    signedInt // since when no work has waited and the number of replicas has not changed
}

// newVersion forgets the measurements of another version. The value is used until there is a measurement.
func (c *capacity) newVersion(version uint64) {
	if version != 0 && version != c.Version {
		*c = capacity{Value: c.Value, Tried: c.Value, Version: version, Through: c.Through}
	}
}

// measure adds the throughput of a replica. It is the capacity if the replicas were saturated, and otherwise a lower bound.
func (c *capacity) measure(throughput float64, saturated bool) {
	switch {
	case throughput <= 0:
		return
	case saturated:
		c.Saturated.add(throughput)
	default:
		c.prove(throughput)
	}
	c.update()
}

// prove raises the lower bound, at most by a factor of two for each sample.
func (c *capacity) prove(throughput float64) {
	if c.Proven > 0 {
		throughput = min(throughput, 2*c.Proven)
	}
	c.Proven = max(c.Proven, throughput)
}

// perInFlight returns the throughput for each unit of work in flight, which is 1 / the mean time of service; 0: not known.
func (c *capacity) perInFlight() float64 {
	if c.Weight < minWeight || c.InFlight <= 0 {
		return 0
	}
	return c.Served / c.InFlight
}

// bound returns the greatest load that a replica is known to serve.
func (c *capacity) bound() float64 { return max(c.Proven, c.Peak*c.perInFlight()) }

// update computes the value from the measurements.
func (c *capacity) update() {
	rate := c.perInFlight()
	switch {
	case c.Full.Count > 0 && rate > 0:
		slots := c.Full.summary().P50
		c.Value = rate * max(slots-float64(headroom*math.Sqrt(slots)), slots/2)
	case c.Saturated.Count > 0:
		c.Value = c.Saturated.summary().P50
	default:
		c.Value = max(c.bound(), c.Tried)
	}
}

// summary returns what is known. Until work waited, P10 is the greatest load that a replica has served, P50 is the capacity that is tried,
// and nothing is known about greater quantiles.
func (c *capacity) summary() Distribution {
	if rate := c.perInFlight(); c.Full.Count > 0 && rate > 0 {
		d := c.Full.summary()
		return Distribution{P10: d.P10 * rate, P50: d.P50 * rate, P90: d.P90 * rate, P95: d.P95 * rate, Count: d.Count}
	}
	if c.Saturated.Count > 0 {
		return c.Saturated.summary()
	}
	return Distribution{P10: min(c.bound(), c.Value), P50: c.Value}
}

// headroom is the part of the concurrency of a replica that plans do not use, in square roots of that concurrency: requests take
// differently long and arrive in bursts that a rate over a minute does not show. The more requests a replica processes at once, the less
// that matters. With 0 a diurnal day of the replay costs 8% less and has 99.2% on time, not 99.99%, and its first 6 hours miss 99%.
const headroom = 0.3

// minWeight is the time, in seconds of load near the greatest, after which the mean time of service is used.
const minWeight = 60

// maxWeight is the time over which the mean time of service is a mean.
const maxWeight = 1800

// measureCapacity adds a sample of the throughput. The number of replicas must be the same as in the previous tick. A queue while the GPUs
// are idle is no saturation: the server is stuck, or the queue is not for it.
//
// The throughput is usually a mean of the last minute, so that the replicas must be the same for a minute. The first samples count at once.
func (m *Model) measureCapacity(now time.Time, e *Evidence) {
	s := &m.saved
	if e.Ready <= 0 || e.Ready != s.Ready {
		return
	}
	waited := s.Before > 0 && usable(e.Queued) && e.Queued.V > 0
	if !usable(e.Served) {
		onlyQueue := !usable(e.Arrivals) && !usable(e.InFlight)
		if waited && s.Growth < 0 && onlyQueue && s.Capacity.Saturated.Count == 0 {
			s.Capacity.measure(float64(-s.Growth)/float64(e.Ready), false) // the replicas serve at least what the queue shrinks
		}
		return
	}
	at := signedInt(e.Served.At.UnixNano())
	if at == s.ServedAt {
		return
	}
	s.ServedAt = at
	throughput := e.Served.V / float64(e.Ready)
	steady := m.steady(now) || s.Capacity.Saturated.Count < 3
	saturated := waited && !idle(e)
	if limit := s.O.Limit.Seconds(); s.O.Kind == InterTokenLatency && usable(e.Latency) && e.Latency.V > limit {
		// More work at the same time would be too slow: the replica serves less within the limit.
		throughput, saturated = throughput*max(limit/e.Latency.V, 0.5), true
	}
	if steady || !saturated {
		s.Capacity.measure(throughput, saturated)
	}
}

// idle reports whether the GPUs are known to be idle.
func idle(e *Evidence) bool { return usable(e.Busy) && e.Busy.V < 0.5 }

// steady reports whether the number of ready replicas has not changed for a minute, so that a rate over a minute is of these replicas.
func (m *Model) steady(now time.Time) bool {
	return now.UnixNano()-int64(m.saved.ReadyAt) >= int64(time.Minute)
}

// measureLoad learns from the load of the ready replicas, which need not be saturated. rate is the work that arrives per second.
func (m *Model) measureLoad(now time.Time, e *Evidence, rate, elapsed float64) {
	s := &m.saved
	c := &s.Capacity
	if usable(e.Served) {
		rate = e.Served.V
	} else {
		rate = max(rate-float64(s.Growth), 0)
	}
	w := max(elapsed/(elapsed+120), elapsed/(elapsed+s.Observed)) // the plain mean until there is enough history
	c.Through += float64(w * (rate - c.Through))
	if e.Ready <= 0 || e.Ready != s.Ready || !m.steady(now) {
		return
	}
	if usable(e.InFlight) {
		m.measureInFlight(now, e, rate)
	}
	if usable(e.Arrivals) && now.UnixNano()-int64(s.ReadyAt) >= int64(4*time.Minute) {
		load := c.Through / float64(e.Ready)
		c.Recent = max(c.Recent, load)
		c.prove(load)
	}
	m.explore(now, e)
	c.update()
}

// measureInFlight adds a sample of the work in flight. The samples near the greatest have most weight in the mean time of service, because
// servers that batch requests need longer for each one under load.
func (m *Model) measureInFlight(now time.Time, e *Evidence, throughput float64) {
	s := &m.saved
	c := &s.Capacity
	at := signedInt(e.InFlight.At.UnixNano())
	if e.InFlight.At.IsZero() {
		at = signedInt(now.UnixNano())
	}
	elapsed := min(float64(at-c.InFlightAt)/1e9, maxGap)
	if elapsed <= 0 {
		return
	}
	n := e.InFlight.V / float64(e.Ready)
	twice := min(n, c.Before)
	if c.Peak > 0 {
		twice = min(twice, 2*c.Peak)
	}
	c.Before, c.InFlightAt, c.Peak = n, at, max(c.Peak, twice)
	if s.Before > 0 && usable(e.Queued) && e.Queued.V > 0 && !idle(e) && n >= c.Peak/2 && n > 0 {
		c.Full.add(n)
	}
	c.Recent = max(c.Recent, twice*c.perInFlight())
	part := min(n/max(c.Peak, n, 1e-9), 1)
	w := elapsed * float64(part*part)
	c.Weight = min(c.Weight+w, maxWeight)
	if c.Weight > 0 {
		c.InFlight += float64(w / c.Weight * (n - c.InFlight))
		c.Served += float64(w / c.Weight * (throughput/float64(e.Ready) - c.Served))
	}
}

// exploreSeconds is the least time for which the load of a replica must have been served without a wait before more is tried.
const exploreSeconds = 240

// explore tries a greater capacity after a span without a wait. Each step is as large as needed to remove one replica. It ends when work
// waits, because the capacity is measured then. A step that was too large makes work late for about a cold start, so that none is taken
// where a cold start is longer than half of the late budget of the window, or while more than half of the late budget is used.
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
	if lead > x.allowed*window.Seconds()/2 || s.B.Actual.late() > x.allowed*(s.B.Work+s.B.NewWork)/2 {
		return
	}
	if bound := c.bound(); bound > 0 {
		n := float64(e.Ready)
		c.Tried = min(max(c.Tried, c.Recent*n/(n-1)), math.Max(2*bound, c.Tried))
	}
	c.QuietAt, c.Recent = signedInt(now.UnixNano()), 0
}
