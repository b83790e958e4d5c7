package objective

import (
	"math"
	"time"
)

// Model is what was learned about one workload. It is not safe for concurrent use.
type Model struct {
	saved saved
	t     Tuning
	spare spare // the free serving slots that random arrivals need, computed from saved
}

// signedInt and signedFloat are numbers that can be negative. All other numbers in the type saved are at least 0.
type (
	signedInt   int64
	signedFloat float64
)

// saved is the part of a Model that AppendBinary writes. It contains only numbers and arrays.
type saved struct {
	O        Objective
	L        Limits
	Last     signedInt // time of the last Observe, nanoseconds since 1970
	SlotAt   signedInt // time of the last complete time slot, seconds since 1970
	Pending  float64   // work that arrived since the last complete time slot
	Time     float64   // seconds since the last complete time slot
	Slot     float64   // length of a time slot in seconds
	Observed float64   // total time, in seconds, in which the load was known
	Measured bool      // arrivals were measured since the model was created
	Base     float64   // latency without a queue, in seconds
	Inflow   float64   // mean of the measured arrivals over about ten minutes, in work per second
	// Outflow is a mean, over about ten minutes, of the arrivals that are computed from the throughput and the growth of the queue. If Inflow
	// differs from it by more than a factor of two, the measured arrivals are wrong.
	Outflow  float64
	Capacity capacity
	Cold     coldStarts
	F        features
	B        bank

	Queued   float64
	Before   float64   // value of Queued in the sample before the last one
	QueuedAt signedInt // time of the last sample of the queue, nanoseconds since 1970
	// growth of the queue between the last two samples, in work per second; negative if the queue became shorter
	Growth   signedFloat
	ServedAt signedInt // time of the last sample of the throughput, nanoseconds since 1970
	Ready    int32
	ReadyAt  signedInt // time since which Ready is unchanged, nanoseconds since 1970
	Starting int32
	Planned  int32 // replicas of the last plan
	Known    bool  // the load was known in the last Observe
	Slow     bool  // in the last Observe, the time between two tokens exceeded the limit of the objective
	Back     backlog

	// Version 2 of the encoding does not contain the next field, and version 3 contains other numbers in its place. The field is 0 in a model
	// that was read from these versions.
	Lag lag
	// Versions before 5 of the encoding do not contain the next field.
	Ahead lead
	// Versions before 6 of the encoding do not contain the next fields.
	Ages     ages
	Attained attained
}

// New returns a Model without any measurement.
func New() *Model { return NewTuned(DefaultTuning()) }

// NewTuned returns a Model with constants other than DefaultTuning. Benchmarks use it to measure the effect of a constant.
func NewTuned(t Tuning) *Model { return &Model{t: t} }

// Clone returns a copy that shares no memory with the model.
func (m *Model) Clone() *Model {
	c := *m
	return &c
}

// maxValue is the greatest measured value that is accepted.
const maxValue = 1e12

// maxGap is the longest time between two ticks, in seconds, for which the load is assumed to be constant. The model ignores a longer time
// between two ticks.
const maxGap = 300

func usable(v Value) bool { return v.Known && v.V >= 0 && v.V <= maxValue }

// Observe adds the evidence of one tick. It does not keep the slices of e.
func (m *Model) Observe(now time.Time, e *Evidence) {
	s := &m.saved
	elapsed := float64(now.UnixNano()-int64(s.Last)) / 1e9
	continuous := s.Last != 0 && elapsed > 0 && elapsed <= maxGap
	s.Last = signedInt(now.UnixNano())
	m.newVersion(e.Version)
	for i := range e.ColdStarts {
		s.measureColdStart(&e.ColdStarts[i])
	}
	newQueue := m.readQueue(now, e)
	m.measureCapacity(now, e)
	rate, known := m.arrivals(e, elapsed, continuous)
	work := float64(rate * elapsed)
	if known && continuous && usable(e.Arrivals) {
		work = m.sharpened(work, elapsed, newQueue)
	}
	if ready := min(max(e.Ready, 0), maxReplicas); ready != s.Ready || s.ReadyAt == 0 || int64(s.ReadyAt) > now.UnixNano() {
		s.Ready, s.ReadyAt = ready, signedInt(now.UnixNano())
	}
	s.Known, s.Starting = known, int32(min(len(e.Starting), maxReplicas))
	s.Slow = s.O.Kind == InterTokenLatency && usable(e.Latency) && e.Latency.V > s.O.Limit.Seconds()
	if !known || !continuous {
		s.Ages.Recent.Count, s.Ages.Hidden = 0, 0 // the hidden work may have arrived while the load was not measured
		return
	}
	m.measureAges(now, e, elapsed)
	m.measureBase(e, elapsed)
	m.measureLoad(now, e, rate, elapsed)
	s.Observed += elapsed
	s.Pending += work
	s.Time += elapsed
	m.closeSlots(now, e.Late, rate)
}

// sinceSample returns the seconds between the time of the last sample and the time of a sample. isNew is false if the sample is the last
// sample or an older one. Exception: a sample that is more than maxGap seconds older is new, because the clock was set back. If the clock
// was set back by less than that, samples are ignored until their time is after the last sample, which takes at most maxGap seconds.
func sinceSample(at, last signedInt) (elapsed float64, isNew bool) {
	elapsed = float64(at-last) / 1e9
	return elapsed, elapsed > 0 || elapsed < -maxGap
}

// readQueue stores a new sample of the queue, and reports whether there was one. If the queue is unknown, its growth is unknown too.
func (m *Model) readQueue(now time.Time, e *Evidence) (isNew bool) {
	s := &m.saved
	if !usable(e.Queued) {
		s.Lag, s.Growth, s.Ages.Since = lag{}, 0, 0
		return false
	}
	at := signedInt(e.Queued.At.UnixNano())
	if e.Queued.At.IsZero() {
		at = signedInt(now.UnixNano())
	}
	elapsed, isNew := sinceSample(at, s.QueuedAt)
	if isNew {
		before := s.Growth
		if s.Growth = 0; elapsed > 0 && elapsed <= maxGap {
			s.Growth = signedFloat((e.Queued.V - s.Queued) / elapsed)
		}
		s.Before, s.Queued, s.QueuedAt = s.Queued, e.Queued.V, at
		if s.Queued <= 0 {
			s.Ages.Since = 0
		} else if s.Ages.Since == 0 || s.Ages.Since > at {
			s.Ages.Since = at
		}
		s.Lag.add(e, m.credible(before), elapsed)
	}
	return isNew
}

// maxServed limits what a replica can have served between two samples of the queue, as a multiple of the known capacity. If the queue
// becomes shorter by more than that, the work was deleted and not served. If this occurs in two consecutive samples, the replicas are
// faster than the known capacity.
const maxServed = 2

// credible returns the part of the queue's growth that can be explained by work that was served. before is the growth in the previous
// sample.
func (m *Model) credible(before signedFloat) signedFloat {
	s := &m.saved
	if s.Lag.Time == 0 && s.Growth < 0 && before == 0 {
		return 0 // The queue was unknown until now, so work may have been deleted since the last sample.
	}
	most := signedFloat(maxServed * s.Capacity.Value * float64(s.Ready))
	if most == 0 {
		return s.Growth
	}
	return max(s.Growth, min(before, -most))
}

// arrivals returns the work that arrives per second. known is false if it can be neither measured nor computed. If the arrivals are not
// measured, they are computed from the queue and the throughput. If the measured and the computed arrivals differ by more than a factor of
// two over about ten minutes, the measured arrivals are wrong or have another unit, and the computed arrivals are used.
func (m *Model) arrivals(e *Evidence, elapsed float64, continuous bool) (rate float64, known bool) {
	s := &m.saved
	inferred, exact := m.inferred(e, continuous)
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

// inferred computes the arrivals, in work per second, from the change of the queue. exact is true if both the queue and the throughput are
// measured.
func (m *Model) inferred(e *Evidence, continuous bool) (rate float64, exact bool) {
	s := &m.saved
	if !usable(e.Queued) || !continuous {
		return s.F.Level[0], false
	}
	if usable(e.Served) {
		return max(e.Served.V+float64(s.Growth), 0), true
	}
	all := float64(float64(s.Ready) * s.Capacity.Value)
	switch {
	case s.Before > 0 || s.Queued > 0:
		return max(all+float64(s.Growth), 0), false
	case usable(e.Busy):
		return all * min(e.Busy.V, 1), false
	default:
		// No work waits, so the load is between 0 and the capacity of all replicas. Assume half of this capacity.
		return all / 2, false
	}
}

// measureBase learns Base, the latency without a queue. More replicas do not reduce this part of the time to the first token.
func (m *Model) measureBase(e *Evidence, elapsed float64) {
	if s := &m.saved; usable(e.Latency) && usable(e.Queued) && e.Queued.V == 0 && s.Before == 0 {
		s.Base += float64(min(elapsed/(elapsed+600), 1) * (min(e.Latency.V, maxColdStart.Seconds()) - s.Base))
	}
}

// closeSlots adds the work of complete time slots to the features of the load and to the simulated fleets of the rules. load is the
// measured load in work per second.
func (m *Model) closeSlots(now time.Time, measured Value, load float64) {
	s := &m.saved
	if s.O.Limit <= 0 {
		s.Pending, s.Time = 0, 0 // the objective is unknown before the first plan
		return
	}
	x := m.plant()
	// another objective can have time slots of another length, for which the history cannot be used
	if s.Slot != x.slot {
		s.Slot, s.F, s.B, s.Pending, s.Time, s.Ages.Recent = x.slot, features{}, bank{}, 0, 0, recent{}
		return
	}
	n := int(s.Time/x.slot + 1e-9)
	if n == 0 {
		return
	}
	work, late := s.Pending*x.slot/s.Time, -1.0
	if usable(measured) {
		late = min(measured.V, 1)
	}
	s.SlotAt = signedInt(max(now.Unix(), 0))
	for range n {
		s.F.add(work, &x, int64(s.SlotAt))
		s.Ages.Recent.add(s.Queued, load, s.Ready)
		s.Ages.Spread.add(&s.Ages.Recent, s.Ages.Span, x.slot)
		if x.capacity > 0 {
			signals := s.F.signals(&x, int64(s.SlotAt))
			s.Attained.add(s.B.step(&s.F, &signals, &x, s.Ages.queued(x.slot), late), work, x.slot/s.O.window().Seconds())
		}
		s.Back.age()
	}
	// The remainder can be slightly negative, because the products are rounded.
	s.Pending, s.Time = max(s.Pending-float64(work*float64(n)), 0), max(s.Time-float64(float64(n)*x.slot), 0)
}

// initialColdStart is the cold start, in seconds, that is assumed until a cold start is observed. It is enough for a node launch, the pull
// of a large image and a model load.
const initialColdStart = 300

// slotSeconds is the minimum length of a time slot, in seconds. The model divides time into slots of equal length. If the allowed wait is
// longer than one minute, a slot is a twelfth of the allowed wait.
const slotSeconds = 5

// plant returns the learned properties of the replicas, from which plans are computed and fleets are simulated.
func (m *Model) plant() plant {
	s, o := &m.saved, &m.saved.O
	lead, perReplica := s.Cold.Lead, s.Capacity.Value
	if lead <= 0 {
		lead = initialColdStart
	}
	if o.ColdStart > 0 {
		lead = min(o.ColdStart, maxColdStart).Seconds()
	}
	doubt := m.doubt()
	perReplica /= doubt
	if o.Capacity > 0 {
		perReplica, doubt = min(o.Capacity, maxValue), 1
	}
	wait := o.Limit.Seconds()
	switch o.Kind {
	case TimeToFirstToken:
		wait = max(wait-s.Base, wait/4) // the time to the first token is at least Base, so a request may wait for the remaining part of the limit
	case InterTokenLatency:
		wait = 2 * slotSeconds
	case Deadline:
		wait /= 2 // half of the limit is for processing the job, and half for waiting
	}
	slot := max(slotSeconds, math.Ceil(wait/12))
	x := plant{slot: slot, wait: int(wait / slot), cold: max(int(math.Ceil(lead/slot)), 1), age: s.Ages.slots(slot), capacity: perReplica,
		least: s.L.Min, most: s.L.Max, allowed: o.allowed(), t: m.t, limit: wait, requests: s.Capacity.Weight > 0,
		spread: float64(m.t.Spread * s.Ages.Spread.Index)}
	if rate := m.perInFlight(); rate > 0 && s.Capacity.Full.Count > 0 {
		x.service, x.concurrency = doubt/rate, perReplica*doubt/rate
		m.spare.compute(x.limit/x.service, x.allowed)
		x.spare = &m.spare
	}
	return x
}

// doubt returns the factor by which the computed number of serving slots is multiplied because few requests were observed. The mean number
// of busy serving slots is the product of the load and the service time. The relative standard error of each of these means is about the
// inverse of the square root of the number of requests, and the error of their product is 1.4 times as great. The result includes two of
// these errors. Without the factor, the SLO is met in the first hours of 4 instead of 16 of 40 simulations of the benchmark (make
// bench-decisions, family steady), at 0.98 of the cost.
func (m *Model) doubt() float64 {
	if m.saved.Capacity.Weight <= 0 || m.saved.Capacity.Full.Count == 0 {
		return 1
	}
	return 1 + 2*math.Sqrt(2/max(m.saved.B.Work+m.saved.B.NewWork, 1))
}
