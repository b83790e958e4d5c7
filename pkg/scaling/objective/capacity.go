package objective

import (
	"math"
	"time"
)

// capacity is what is known about the work per second that a replica serves.
//
// While work waits, the throughput of a replica is its capacity. If no work has waited yet, two lower bounds of the capacity are known: the
// greatest throughput of a replica, and its greatest work in flight divided by the mean service time. By Little's law, the mean service
// time is the mean work in flight divided by the mean throughput. Because the true capacity can be greater than these bounds, it is
// explored in steps: after a time in which no work waited, plans assume a capacity with which one replica less would have served the load
// of that time.
type capacity struct {
	Saturated samples // throughput of a replica while work waited
	Full      samples // work in flight in a replica while work waited
	Value     float64 // the capacity that plans use; 0: not known
	Proven    float64 // greatest throughput of a replica
	Peak      float64 // greatest work in flight per replica that two consecutive samples reached
	Tried     float64 // greatest capacity that plans have assumed to explore it; 0: none
	Version   uint64

	InFlight   float64   // weighted mean of the work in flight per replica
	Served     float64   // mean throughput per replica, with the same weights as InFlight
	Weight     float64   // sum of the weights, in seconds
	Before     float64   // work in flight per replica in the last sample
	InFlightAt signedInt // time of the last sample of the work in flight
	Through    float64   // throughput of the whole workload, as a moving average of two minutes
	Recent     float64   // greatest load per replica since QuietAt
	QuietAt    signedInt // time since which no work has waited and the number of replicas has not changed
}

// newVersion compares the version of the server with the known version. If it is another version, newVersion deletes the measurements of
// the previous version and returns true. Plans use the old capacity until the new version is measured.
func (c *capacity) newVersion(version uint64) bool {
	if version == 0 || version == c.Version {
		return false
	}
	*c = capacity{Value: c.Value, Tried: c.Value, Version: version, Through: c.Through}
	return true
}

// measure adds a measured throughput of one replica. If the replicas were saturated, the throughput is the capacity; otherwise it is a
// lower bound. rate is the throughput per unit of work in flight.
func (c *capacity) measure(throughput float64, saturated bool, rate float64) {
	switch {
	case throughput <= 0:
		return
	case saturated:
		c.Saturated.add(throughput)
	default:
		c.prove(throughput)
	}
	c.update(rate)
}

// prove raises Proven, the lower bound of the capacity, to a measured throughput. One sample can raise it at most by a factor of two.
func (c *capacity) prove(throughput float64) {
	if c.Proven > 0 {
		throughput = min(throughput, 2*c.Proven)
	}
	c.Proven = max(c.Proven, throughput)
}

// perInFlight returns the throughput of a replica per unit of work in flight, which is the inverse of the mean service time, or 0 if it is
// not known. It is computed from the means of the type capacity. If the means of the type active give a greater value, even after it is
// divided by activeMargin, that value is returned, but only while at least half of the late budget is left. If more of the budget is used,
// the smaller value is returned, which leads to more replicas.
func (m *Model) perInFlight() float64 {
	c, active := &m.saved.Capacity, &m.saved.Active
	if c.Weight < minWeight || c.InFlight <= 0 {
		return 0
	}
	rate := c.Served / c.InFlight
	if active.Time >= minActive && active.InFlight > 0 && m.budgetLeft() {
		rate = max(rate, active.Served/active.InFlight/activeMargin/max(0.01/m.saved.O.allowed(), 1))
	}
	return rate
}

// active contains the mean work in flight and the mean throughput of a replica, each with the same weight for all samples in which there
// was work.
//
// In the means of the type capacity, samples with much work in flight have most of the weight. If a replica has few requests, these are the
// samples in which a request happens to be in flight. The throughput of these samples is a rate over a minute. With one request a minute,
// the service time therefore seems to be a minute, even if it is a second. The means of the type active do not have this error. But they
// also include times with little load, in which servers that batch requests are faster.
type active struct {
	InFlight float64
	Served   float64
	Time     float64 // sum of the times in which there was work, in seconds, at most maxActive
}

// Limits for the type active.
const (
	minActive = 600  // the means are used after this many seconds with work
	maxActive = 7200 // time constant of the means in seconds; only seconds with work are counted
	// the longest time, in seconds, that one sample represents: the throughput is usually a rate over the last minute, so the time before
	// that minute is not known
	maxSample = 60
	// the throughput of a sample is limited to this multiple of the mean throughput, so that a wrong metric has a limited effect
	maxRise = 100
	// activeMargin is a safety factor: the service time is assumed to be this many times as long as the means of the type active show,
	// because servers that batch requests are faster under little load, and because requests do not arrive evenly. With this value, all of
	// 72 cells with few requests (make bench-decisions) meet the SLO. With half of it, 71 cells do. With twice the value, the family
	// trickle costs 1.18 times the smallest fixed fleet, instead of 1.03 times.
	// Above a percentile of 99, the factor increases with the inverse of the share of work that may be late: late work is then so rare that
	// the capacity is not corrected in time. If the factor were 2 at 99.9%, 46 instead of 48 cells of the families lonely and trickle would
	// meet the SLO.
	activeMargin = 2
)

func (a *active) add(inFlight, served, elapsed float64) {
	if inFlight <= 0 && served <= 0 {
		return
	}
	elapsed = min(elapsed, maxSample)
	if a.Time = min(a.Time+elapsed, maxActive); a.Time > 0 {
		a.InFlight += float64(elapsed / a.Time * (inFlight - a.InFlight))
		a.Served += float64(elapsed / a.Time * (limited(served, a.Served) - a.Served))
	}
}

// bound returns the greatest load that a replica is known to serve. rate is the throughput per unit of work in flight.
func (c *capacity) bound(rate float64) float64 { return max(c.Proven, c.Peak*rate) }

// update sets Value from the measurements.
func (c *capacity) update(rate float64) {
	switch {
	case c.Full.Count > 0 && rate > 0:
		slots := c.Full.summary().P50
		c.Value = rate * max(slots-float64(headroom*math.Sqrt(slots)), slots/2)
	case c.Saturated.Count > 0:
		c.Value = c.Saturated.summary().P50
	default:
		c.Value = max(c.bound(rate), c.Tried)
	}
}

// summary returns the known distribution of the capacity. Before any work has waited, P10 is the greatest load that a replica has served,
// P50 is the capacity that plans assume, and P90 and P95 are 0.
func (c *capacity) summary(rate float64) Distribution {
	if c.Full.Count > 0 && rate > 0 {
		d := c.Full.summary()
		return Distribution{P10: d.P10 * rate, P50: d.P50 * rate, P90: d.P90 * rate, P95: d.P95 * rate, Count: d.Count}
	}
	if c.Saturated.Count > 0 {
		return c.Saturated.summary()
	}
	return Distribution{P10: min(c.bound(rate), c.Value), P50: c.Value}
}

// headroom is the number of concurrent requests that plans leave free in each replica, as a multiple of the square root of its concurrency.
// It is necessary because requests differ in duration, and arrive in bursts that a rate over a minute does not show. Both effects are
// smaller if a replica processes many requests at once. Without headroom, a simulated day with a diurnal load costs 8% less, but only 99.2%
// instead of 99.99% of the work is on time, and its first 6 hours are below 99%.
const headroom = 0.3

// minWeight is the minimum of capacity.Weight, in seconds. Below it, the mean service time is not used.
const minWeight = 60

// maxWeight is the maximum of capacity.Weight, in seconds. The mean service time is therefore a mean over about this time.
const maxWeight = 1800

// measureCapacity adds a sample of the throughput. The number of replicas must be the same as in the previous tick. A queue while the GPUs
// are idle does not count as saturation, because then the server hangs or the queue is not for this server.
//
// The throughput is usually a mean of the last minute. A sample of saturated replicas is therefore used only if the number of replicas has
// not changed for a minute. The first three samples are used without this condition.
func (m *Model) measureCapacity(now time.Time, e *Evidence) {
	s := &m.saved
	if e.Ready <= 0 || e.Ready != s.Ready {
		return
	}
	waited := s.Before > 0 && usable(e.Queued) && e.Queued.V > 0
	if !usable(e.Served) {
		onlyQueue := !usable(e.Arrivals) && !usable(e.InFlight)
		if waited && s.Growth < 0 && onlyQueue && s.Capacity.Saturated.Count == 0 {
			// the queue shrinks, so the replicas serve at least the work by which it shrinks
			s.Capacity.measure(float64(-s.Growth)/float64(e.Ready), false, m.perInFlight())
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
		// The time between two tokens exceeds the limit. To meet the limit, a replica can serve only a part of its current throughput.
		throughput, saturated = throughput*max(limit/e.Latency.V, 0.5), true
	}
	if steady || !saturated {
		s.Capacity.measure(throughput, saturated, m.perInFlight())
	}
}

// idle reports whether the GPUs are known to be idle.
func idle(e *Evidence) bool { return usable(e.Busy) && e.Busy.V < 0.5 }

// steady reports whether the number of ready replicas has not changed for a minute. A rate over a minute then describes these replicas.
func (m *Model) steady(now time.Time) bool {
	return now.UnixNano()-int64(m.saved.ReadyAt) >= int64(time.Minute)
}

// measureLoad learns a lower bound of the capacity from the load of the ready replicas, which are not necessarily saturated. rate is the
// work that arrives per second; it is used if the throughput is not measured.
func (m *Model) measureLoad(now time.Time, e *Evidence, rate, elapsed float64) {
	s := &m.saved
	c := &s.Capacity
	if usable(e.Served) {
		rate = e.Served.V
	} else {
		rate = max(rate-float64(s.Growth), 0)
	}
	w := max(elapsed/(elapsed+120), elapsed/(elapsed+s.Observed)) // a plain mean while the history is short
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
	c.update(m.perInFlight())
}

// measureInFlight adds a sample of the work in flight. In the mean service time, samples near the greatest work in flight have the most
// weight, because servers that batch requests need longer for each request under load.
func (m *Model) measureInFlight(now time.Time, e *Evidence, throughput float64) {
	s := &m.saved
	c := &s.Capacity
	at := signedInt(e.InFlight.At.UnixNano())
	if e.InFlight.At.IsZero() {
		at = signedInt(now.UnixNano())
	}
	elapsed, isNew := sinceSample(at, c.InFlightAt)
	if !isNew {
		return
	}
	elapsed = min(max(elapsed, 0), maxGap)
	n := e.InFlight.V / float64(e.Ready)
	twice := min(n, c.Before)
	if c.Peak > 0 {
		twice = min(twice, 2*c.Peak)
	}
	c.Before, c.InFlightAt, c.Peak = n, at, max(c.Peak, twice)
	if s.Before > 0 && usable(e.Queued) && e.Queued.V > 0 && !idle(e) && n >= c.Peak/2 && n > 0 {
		c.Full.add(n)
	}
	c.Recent = max(c.Recent, twice*m.perInFlight())
	part := min(n/max(c.Peak, n, 1e-9), 1)
	w := elapsed * float64(part*part)
	c.Weight = min(c.Weight+w, maxWeight)
	served := throughput / float64(e.Ready)
	if c.Weight > 0 {
		c.InFlight += float64(w / c.Weight * (n - c.InFlight))
		c.Served += float64(w / c.Weight * (limited(served, c.Served) - c.Served))
	}
	s.Active.add(n, served, elapsed)
}

// limited returns the throughput of a sample. If the mean throughput is known, the result is at most maxRise times the mean throughput.
func limited(served, mean float64) float64 {
	if mean > 0 {
		return min(served, maxRise*mean)
	}
	return served
}

// budgetLeft reports whether at least half of the late budget is left.
func (m *Model) budgetLeft() bool {
	b := &m.saved.B
	return b.Actual.late() <= m.saved.O.allowed()*(b.Work+b.NewWork)/2
}

// exploreSeconds is the minimum time in seconds without a wait before a greater capacity is tried.
const exploreSeconds = 240

// explore makes plans assume a greater capacity after a time in which no work waited. Each step is large enough to remove one replica. The
// steps end when work waits, because the capacity is then measured. If the assumed capacity is too great, work is late for about one cold
// start. explore therefore takes no step if a cold start is longer than half of the time for which all work may be late in the window, or
// if more than half of the late budget is used.
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
	if lead > x.allowed*window.Seconds()/2 || !m.budgetLeft() {
		return
	}
	if bound := c.bound(m.perInFlight()); bound > 0 {
		n := float64(e.Ready)
		c.Tried = min(max(c.Tried, c.Recent*n/(n-1)), math.Max(2*bound, c.Tried))
	}
	c.QuietAt, c.Recent = signedInt(now.UnixNano()), 0
}
