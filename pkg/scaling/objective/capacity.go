package objective

import "time"

// capacity contains what was measured about the capacity of a replica: the work per second that a replica can serve.
//
// While work waits, the throughput of a replica is its capacity. If no work has waited so far, only two lower bounds of the capacity are
// known: the greatest throughput of a replica, and its greatest work in flight divided by the mean service time. By Little's law, the mean
// service time is the mean work in flight divided by the mean throughput. The true capacity can be greater than both bounds. Therefore it
// is explored in steps: after some time in which no work waited, plans assume a capacity with which one replica less would have served the
// load of that time.
type capacity struct {
	Saturated samples // throughput of a replica while work waited
	Full      samples // work in flight in a replica while work waited
	Value     float64 // the capacity with which plans compute replicas; 0: not known
	Proven    float64 // greatest throughput of a replica
	Peak      float64 // greatest work in flight per replica that two consecutive samples contain
	Tried     float64 // greatest capacity that plans have assumed in a step of exploration; 0: none
	Version   uint64

	InFlight   float64   // weighted mean of the work in flight per replica
	Served     float64   // mean throughput per replica, with the same weights as InFlight
	Weight     float64   // sum of the weights, in seconds
	Before     float64   // work in flight per replica in the last sample
	InFlightAt signedInt // time of the last sample of the work in flight, nanoseconds since 1970
	Through    float64   // throughput of the whole workload, as a moving average of two minutes
	Recent     float64   // greatest load per replica since QuietAt
	QuietAt    signedInt // time since which no work waits and the number of replicas is unchanged, nanoseconds since 1970
}

// rolloutWeight is the maximum of capacity.Weight, in seconds, after a change of the server's version. The measurements of the previous
// version then have the weight of one minute of load. With a value of 600, a version with half the capacity is detected after 20 minutes
// instead of 7.
const rolloutWeight = 60

// firstWeight is the maximum of capacity.Weight, in seconds, when a replica is saturated for the first time within the first firstSeconds
// of observation. It is also the maximum weight of one sample after that. In other cases, the maximum weight of a sample is 300 s, which is
// necessary to measure a service time when requests are rare. At the start, however, the moving averages are not settled: with 300 s, the
// capacity was 8% to 17% too great after 20 minutes of a recorded hour with four replicas.
const (
	firstWeight  = 60
	firstSeconds = 600
)

// newVersion deletes the measurements of the previous version of the server if the version changed. It keeps the mean service time and the
// usual work in flight of a saturated replica. They have little weight until the new version is measured, but without them plans would have
// no free serving slots during this time.
func (m *Model) newVersion(version uint64) {
	s := &m.saved
	old := &s.Capacity
	if version == 0 || version == old.Version {
		return
	}
	c := capacity{Value: old.Value, Tried: old.Value, Version: version, Through: old.Through}
	if old.Full.Count > 0 {
		c.Full.add(old.Full.summary().P50)
		c.InFlight, c.Served, c.InFlightAt, c.Weight = old.InFlight, old.Served, old.InFlightAt, min(old.Weight, rolloutWeight)
	}
	s.Capacity, s.Lag = c, lag{}
}

// measure adds a measured throughput of one replica, in work per second. If the replicas were saturated, which means that work waited, the
// throughput is the capacity. Otherwise it is a lower bound. rate is the throughput per unit of work in flight.
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

// prove raises Proven, the lower bound of the capacity, to a measured throughput. One sample raises it at most by a factor of two, because
// the sample can be wrong.
func (c *capacity) prove(throughput float64) {
	if c.Proven > 0 {
		throughput = min(throughput, 2*c.Proven)
	}
	c.Proven = max(c.Proven, throughput)
}

// perInFlight returns the throughput of a replica per unit of work in flight, which is the inverse of the mean service time. It returns 0
// if the service time is not known. If no replica was saturated so far, the result is smaller by a safety margin, which is greater if there
// were few requests (fewRequests).
func (m *Model) perInFlight() float64 {
	c := &m.saved.Capacity
	inFlight := c.InFlight
	if c.Full.Count == 0 {
		// Samples miss short requests. A mean of less than one request during lagSeconds can therefore not be distinguished from 0.
		inFlight = max(inFlight, lagSeconds/max(c.Weight, 1))
	}
	if c.Weight < minWeight || inFlight <= 0 {
		return 0
	}
	rate := c.Served / inFlight
	if c.Full.Count == 0 {
		limit := max(0.01/m.saved.O.allowed(), 1)
		if !m.budgetLeft() {
			limit *= fewRequests
		}
		rate /= min(1+1/inFlight, limit)
	}
	return rate
}

// fewRequests limits the margin for few requests. If less than half of the late budget is left, plans assume that a request takes up to
// this many times the measured service time, because servers that batch requests are faster under little load, and because requests do not
// arrive evenly. The value was chosen with 120 simulations of the benchmark (make bench-decisions): with a value of 1, the SLO is met in 3
// fewer of them; with a value of 4, in the same number. For SLOs above 99%, the maximum is greater, in proportion to the inverse of the
// share of work that may be late. Late work is then so rare that it does not correct the capacity in time.
const fewRequests = 2

// lag contains moving averages of the growth of the queue and of the work in flight of all replicas. The arrivals are usually measured as a
// rate over the last minute, so they are half a minute old on average. The moving averages have the same mean age, so that Little's law
// combines numbers of the same time. With newer numbers, the computed capacity is up to 30% too great if the load has bursts.
type lag struct {
	Time     float64 // seconds since the first sample; at most lagSeconds plus the last interval
	InFlight float64
	Growth   signedFloat
}

// lagSeconds is the mean age, in seconds, of a rate over one minute. If a data source computes rates over another time, the capacity is
// wrong only while the load changes.
const lagSeconds = 30

// add adds the newest samples. It starts new averages after a time without samples, because the growth of 0 is then not a measurement.
func (l *lag) add(e *Evidence, growth signedFloat, elapsed float64) {
	if elapsed <= 0 || elapsed > maxGap {
		*l = lag{}
		return
	}
	l.Time = min(l.Time+elapsed, lagSeconds+elapsed)
	w := elapsed / l.Time
	l.Growth += signedFloat(w * float64(growth-l.Growth))
	if usable(e.InFlight) {
		l.InFlight += float64(w * (e.InFlight.V - l.InFlight))
	}
}

// bound returns a lower bound of the load that a replica can serve, in work per second. rate is the throughput per unit of work in flight.
func (c *capacity) bound(rate float64) float64 { return max(c.Proven, max(c.Peak, 1)*rate) }

// update computes Value from the measurements. rate is the throughput per unit of work in flight.
func (c *capacity) update(rate float64) {
	switch {
	case c.Full.Count > 0 && rate > 0:
		c.Value = rate * c.Full.summary().P50
	case c.Saturated.Count > 0:
		c.Value = c.Saturated.summary().P50
	default:
		c.Value = max(c.bound(rate), c.Tried)
	}
}

// summary returns the distribution of the measured capacity. Before any work has waited, P10 is the greatest load that a replica has
// served, P50 is the capacity that plans assume, and P90 and P95 are 0.
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

// minWeight is the minimum of capacity.Weight, in seconds, for which the mean service time is used. It has little effect in 160 simulations
// of the benchmark (make bench-decisions): with a tenth or twelve times this value, the SLO is met in the same number of simulations, and
// the cost differs by less than 1%.
const minWeight = 5

// maxWeight is the maximum of capacity.Weight, in seconds. The mean service time is therefore a mean over about half an hour.
const maxWeight = 1800

// measureCapacity adds a sample of the throughput. The replicas were saturated if work waited during the whole time of which the sample is
// the mean. A queue does not count as saturation while the GPUs are idle, because then the server does not respond or the queue belongs to
// another server.
func (m *Model) measureCapacity(now time.Time, e *Evidence) {
	s := &m.saved
	if e.Ready <= 0 {
		return
	}
	waited := s.Before > 0 && usable(e.Queued) && e.Queued.V > 0
	if !usable(e.Served) {
		onlyQueue := !usable(e.Arrivals) && !usable(e.InFlight)
		if waited && s.Growth < 0 && onlyQueue && e.Ready == s.Ready && s.Capacity.Saturated.Count == 0 {
			// the queue becomes shorter, so the replicas serve at least the work by which it becomes shorter
			s.Capacity.measure(float64(-s.Growth)/float64(e.Ready), false, m.perInFlight())
		}
		return
	}
	at := signedInt(e.Served.At.UnixNano())
	if at == s.ServedAt {
		return
	}
	s.ServedAt = at
	throughput, steady := m.throughput(now, e)
	saturated := waited && s.Ages.waited(&e.Served) && !idle(e)
	if limit := s.O.Limit.Seconds(); s.O.Kind == InterTokenLatency && usable(e.Latency) && e.Latency.V > limit {
		// The time between two tokens exceeds the limit. To meet the limit, a replica can serve only a part of its current throughput.
		throughput, saturated = throughput*max(limit/e.Latency.V, 0.5), true
	}
	if steady || !saturated {
		s.Capacity.measure(throughput, saturated, m.perInFlight())
	}
}

// throughput returns the throughput of a replica in a sample, or 0 if it is not known. steady reports whether the number of replicas during
// the time of which the sample is the mean is known. If the window of the sample is not known, it is usually a minute; the first three
// samples are then used in any case.
func (m *Model) throughput(now time.Time, e *Evidence) (perReplica float64, steady bool) {
	s := &m.saved
	if ready := s.Ages.Recent.ready(&e.Served, now, s.Slot); ready > 0 {
		return e.Served.V / ready, true
	}
	if e.Ready != s.Ready {
		return 0, false
	}
	unchanged := now.UnixNano()-int64(s.ReadyAt) >= int64(max(e.Served.Window, time.Minute))
	return e.Served.V / float64(e.Ready), unchanged || e.Served.Window == 0 && s.Capacity.Saturated.Count < 3
}

// idle reports whether the GPUs are known to be idle.
func idle(e *Evidence) bool { return usable(e.Busy) && e.Busy.V < 0.5 }

// steady reports whether the number of ready replicas has been the same for a minute. A rate over one minute then describes these replicas.
func (m *Model) steady(now time.Time) bool {
	return now.UnixNano()-int64(m.saved.ReadyAt) >= int64(time.Minute)
}

// measureLoad learns a lower bound of the capacity from the load of the ready replicas, which may not be saturated. rate is the work that
// arrives per second. It is used if the throughput is not measured.
func (m *Model) measureLoad(now time.Time, e *Evidence, rate, elapsed float64) {
	s := &m.saved
	c := &s.Capacity
	if usable(e.Served) {
		rate = e.Served.V
	} else {
		rate = max(rate-float64(s.Lag.Growth), 0)
	}
	w := max(elapsed/(elapsed+120), elapsed/(elapsed+s.Observed)) // while the history is short, all samples have the same weight
	c.Through += float64(w * (rate - c.Through))
	if e.Ready <= 0 || e.Ready != s.Ready || !m.steady(now) {
		return
	}
	if usable(e.InFlight) && s.Lag.Time > 0 {
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

// measureInFlight adds a sample of the work in flight. In the mean service time, the samples of the times with the most load have the most
// weight, because servers that batch requests need longer for each request under load. The weight of a sample depends on the load of the
// last ten minutes and not on the sample. Otherwise, samples that are great by chance would have more weight, and the service time would be
// too long.
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
	n, inFlight := e.InFlight.V/float64(e.Ready), s.Lag.InFlight/float64(e.Ready)
	twice := min(n, c.Before)
	if c.Peak > 0 {
		twice = min(twice, 2*c.Peak)
	}
	c.Before, c.InFlightAt, c.Peak = n, at, max(c.Peak, twice)
	if s.Before > 0 && usable(e.Queued) && e.Queued.V > 0 && !idle(e) && n >= c.Peak/2 && n > 0 {
		if c.Full.Count == 0 && s.Observed < firstSeconds {
			c.Weight = min(c.Weight, firstWeight)
		}
		c.Full.add(n)
	}
	c.Recent = max(c.Recent, twice*m.perInFlight())
	load := s.F.Level[2] / float64(e.Ready)
	part := load / max(c.Proven, load, 1e-9) // 0 before any work arrived
	w := elapsed * float64(part*part)
	if c.Full.Count > 0 {
		w = min(w, firstWeight)
	}
	c.Weight = min(c.Weight+w, maxWeight)
	if c.Weight > 0 {
		c.InFlight += float64(w / c.Weight * (inFlight - c.InFlight))
		c.Served += float64(w / c.Weight * (limited(throughput/float64(e.Ready), c.Served) - c.Served))
	}
}

// maxRise limits the throughput in a sample to this multiple of the mean throughput, so that a wrong metric has a limited effect.
const maxRise = 100

// limited returns the throughput in a sample, limited to maxRise times the mean throughput if the mean is known.
func limited(served, mean float64) float64 {
	if mean > 0 {
		return min(served, maxRise*mean)
	}
	return served
}
