package objective

import (
	"math"
	"time"
)

// Model is what was learned about one workload. It is not safe for concurrent use.
type Model struct {
	saved saved
	t     Tuning

	// The following is learned again within seconds.
	o       Objective
	l       Limits
	s       signals
	queued  float64
	before  float64 // queued of the previous tick
	ready   int32
	started int32 // starting replicas
	last    int32 // replicas of the last plan
	known   bool  // this tick has evidence of the load
	back    backlog
	late    Value
	served  time.Time // of the last sample of the throughput
}

// saved is the part of a Model that AppendBinary writes. It has numbers and arrays only.
type saved struct {
	Last     int64   // time of the last Observe, nanoseconds since 1970
	Pending  float64 // work since the last complete slot
	Time     float64 // seconds since the last complete slot
	Slot     float64 // seconds of a slot
	Observed float64 // seconds with evidence
	Measured bool    // arrivals were measured since the model was created
	Base     float64 // latency without queue, seconds
	Inflow   float64 // slow mean of the measured arrivals
	Outflow  float64 // slow mean of the arrivals according to queue and throughput
	Capacity capacity
	Cold     coldStarts
	F        features
	B        bank
}

// New returns a Model that knows nothing.
func New() *Model { return NewTuned(DefaultTuning()) }

// NewTuned returns a Model with other constants, for measurements of what they cost.
func NewTuned(t Tuning) *Model { return &Model{t: t} }

// Clone returns an independent copy.
func (m *Model) Clone() *Model {
	c := *m
	return &c
}

// maxValue is the greatest measured value that is accepted.
const maxValue = 1e12

// maxGap is the longest time, in seconds, between two ticks over which the load counts as constant. After a longer gap the time between the
// ticks is not observed.
const maxGap = 300

func usable(v Value) bool { return v.Known && v.V >= 0 && v.V <= maxValue }

// Observe adds the evidence of a tick. It does not keep the slices of e.
func (m *Model) Observe(now time.Time, e *Evidence) {
	s := &m.saved
	elapsed := float64(now.UnixNano()-s.Last) / 1e9
	continuous := s.Last != 0 && elapsed > 0 && elapsed <= maxGap
	s.Last = now.UnixNano()
	s.Capacity.newVersion(e.Version)
	for i := range e.ColdStarts {
		s.Cold.measure(&e.ColdStarts[i])
	}
	m.before = m.queued
	if usable(e.Queued) {
		m.queued = e.Queued.V
	}
	m.late = e.Late
	m.measureCapacity(e)
	rate, known := m.arrivals(e, elapsed, continuous)
	m.known = known
	m.ready, m.started = min(max(e.Ready, 0), maxReplicas), int32(min(len(e.Starting), maxReplicas))
	if !known || !continuous {
		return
	}
	s.Observed += elapsed
	s.Pending += float64(rate * elapsed)
	s.Time += elapsed
	m.closeSlots(now)
}

// arrivals returns the work that arrived per second, and false if that is not known. Without a measurement, it follows from the queue and
// the throughput. If both are known and differ by more than a factor of two for long, the measurement has another unit or is wrong.
func (m *Model) arrivals(e *Evidence, elapsed float64, continuous bool) (rate float64, known bool) {
	s := &m.saved
	inferred, exact := m.inferred(e, elapsed, continuous)
	if !usable(e.Arrivals) {
		return inferred, exact || usable(e.Queued) && !s.Measured
	}
	s.Measured = true
	rate = e.Arrivals.V
	if exact {
		w := elapsed / (elapsed + 600)
		s.Inflow += float64(w * (rate - s.Inflow))
		s.Outflow += float64(w * (inferred - s.Outflow))
		if s.Observed > 1800 && s.Outflow > 0 && (s.Inflow > 2*s.Outflow || s.Inflow < s.Outflow/2) {
			return inferred, true
		}
	}
	return rate, true
}

// inferred returns the arrivals that explain the change of the queue. They are exact if queue and throughput are measured.
func (m *Model) inferred(e *Evidence, elapsed float64, continuous bool) (rate float64, exact bool) {
	if !usable(e.Queued) || !continuous {
		return m.saved.F.Level[0], false
	}
	growth := (m.queued - m.before) / elapsed
	if usable(e.Served) {
		return max(e.Served.V+growth, 0), true
	}
	all := float64(m.ready) * m.saved.Capacity.Value
	switch {
	case m.before > 0 || m.queued > 0:
		return max(all+growth, 0), false
	case usable(e.Busy):
		return all * min(e.Busy.V, 1), false
	default:
		// The replicas serve all work, so that the load is between none and all that they can serve.
		return all / 2, false
	}
}

// measureCapacity adds a sample of the throughput. The number of replicas must be the same as in the previous tick. A queue while the GPUs
// are idle is no saturation: the server is stuck, or the queue is not for it.
func (m *Model) measureCapacity(e *Evidence) {
	c := &m.saved.Capacity
	if e.Ready <= 0 || e.Ready != m.ready {
		return
	}
	if !usable(e.Served) {
		if usable(e.Queued) && m.before > 0 && e.Queued.V > 0 && e.Queued.V < m.before && c.Saturated.Count == 0 {
			m.measureDrain(e)
		}
		return
	}
	if e.Served.At.Equal(m.served) {
		return
	}
	m.served = e.Served.At
	throughput := e.Served.V / float64(e.Ready)
	saturated := m.before > 0 && usable(e.Queued) && e.Queued.V > 0 && !(usable(e.Busy) && e.Busy.V < 0.5)
	if m.o.Kind == InterTokenLatency && usable(e.Latency) && e.Latency.V > m.o.Limit.Seconds() {
		// More work at the same time would be too slow: the replica serves less within the limit.
		throughput, saturated = throughput*max(m.o.Limit.Seconds()/e.Latency.V, 0.5), true
	}
	c.measure(throughput, saturated)
}

// measureDrain uses the decrease of the queue as a lower bound of the capacity if neither arrivals nor throughput are measured.
func (m *Model) measureDrain(e *Evidence) {
	if elapsed := e.Queued.At.Sub(m.served).Seconds(); !m.served.IsZero() && elapsed >= 1 && elapsed <= maxGap {
		m.saved.Capacity.measure((m.before-e.Queued.V)/elapsed/float64(e.Ready), false)
	}
	m.served = e.Queued.At
}

// closeSlots adds the work of the slots that are complete.
func (m *Model) closeSlots(now time.Time) {
	s := &m.saved
	if m.o.Limit <= 0 {
		s.Pending, s.Time = 0, 0 // the objective is not known before the first plan
		return
	}
	x := m.plant()
	if s.Slot != x.slot { // another objective: the history has another resolution
		s.Slot, s.F, s.B, s.Pending, s.Time = x.slot, features{}, bank{}, 0, 0
		return
	}
	n := int(s.Time/x.slot + 1e-9)
	if n == 0 {
		return
	}
	work := s.Pending * x.slot / s.Time
	for range n {
		s.F.add(work, &x, now.Unix())
		m.s = s.F.signals(&x, now.Unix())
		if x.capacity > 0 {
			late := -1.0
			if usable(m.late) {
				late = min(m.late.V, 1)
			}
			s.B.step(&s.F, &m.s, &x, m.queued, late)
		}
		m.back.age()
	}
	s.Pending, s.Time = s.Pending-float64(work*float64(n)), s.Time-float64(float64(n)*x.slot)
}

// initialColdStart is the cold start, in seconds, until one was observed: a node launch with a large image and a model load.
const initialColdStart = 300

// slotSeconds is the length of a slot for waits of a minute and less. A longer wait has twelve slots.
const slotSeconds = 5

// plant returns what is known about the replicas.
func (m *Model) plant() plant {
	s, o := &m.saved, &m.o
	lead, perReplica := s.Cold.Lead, s.Capacity.Value
	if lead <= 0 {
		lead = initialColdStart
	}
	if o.ColdStart > 0 {
		lead = min(o.ColdStart, maxColdStart).Seconds()
	}
	if o.Capacity > 0 {
		perReplica = min(o.Capacity, maxValue)
	}
	wait := o.Limit.Seconds()
	switch o.Kind {
	case TimeToFirstToken:
		wait = max(wait-s.Base, wait/4) // without a queue, the first token needs Base
	case InterTokenLatency:
		wait = 2 * slotSeconds
	case Deadline:
		wait /= 2 // the other half is for the work itself
	}
	slot := max(slotSeconds, math.Ceil(wait/12))
	return plant{slot: slot, wait: int(wait / slot), cold: max(int(math.Ceil(lead/slot)), 1), capacity: perReplica,
		least: m.l.Min, most: m.l.Max, allowed: max(1-o.Percentile/100, 1e-6), t: m.t}
}
