package objective

import (
	"math"
	"time"
)

// Model is what was learned about one workload. It is not safe for concurrent use.
type Model struct {
	s state
}

// state is the whole memory of a Model. It has no pointer, so that a copy is independent.
type state struct {
	last     time.Time // of the last Observe
	queued   float64
	load     float64 // work per second
	known    bool    // queued or load were known in the last Observe
	capacity float64
	ready    int32
	starting int32
	peak     float64 // replicas that were needed recently
	peakAt   time.Time
	cold     time.Duration
}

// New returns a Model that knows nothing.
func New() *Model { return &Model{} }

// Clone returns an independent copy.
func (m *Model) Clone() *Model {
	c := *m
	return &c
}

// initialColdStart is the cold start until one was observed.
const initialColdStart = 5 * time.Minute

// Observe adds the evidence of a tick.
func (m *Model) Observe(now time.Time, e *Evidence) {
	s := &m.s
	s.last, s.ready, s.starting = now, max(e.Ready, 0), int32(min(len(e.Starting), math.MaxInt32))
	s.known = usable(e.Arrivals) || usable(e.Queued)
	if usable(e.Queued) {
		s.queued = e.Queued.V
	}
	if usable(e.Arrivals) {
		s.load = e.Arrivals.V
	}
	if usable(e.Served) && usable(e.Queued) && s.ready > 0 && e.Queued.V > 0 {
		s.capacity = e.Served.V / float64(s.ready)
	}
	for _, c := range e.ColdStarts {
		if c.Total > 0 {
			s.cold = max(c.Total, s.cold)
		}
	}
}

func usable(v Value) bool { return v.Known && v.V >= 0 && v.V <= maxValue }

// maxValue is the greatest measured value that is accepted.
const maxValue = 1e12

// Plan computes the replicas.
func (m *Model) Plan(now time.Time, o Objective, l Limits) Plan {
	s := &m.s
	cold := s.cold
	if cold == 0 {
		cold = initialColdStart
	}
	if o.ColdStart > 0 {
		cold = o.ColdStart
	}
	capacity := s.capacity
	if o.Capacity > 0 {
		capacity = o.Capacity
	}
	p := Plan{Load: s.load, Queued: s.queued, Capacity: capacity, ColdStart: cold, Safe: TooLittleData}
	current := s.ready + s.starting
	need := current
	switch {
	case !s.known:
		p.Safe = EvidenceMissing
	case capacity <= 0:
		p.Safe = CapacityUnknown
		if s.queued > 0 && s.starting == 0 {
			need = max(2*current, 1)
		}
	default:
		work := s.load + s.queued/max(o.Limit.Seconds(), 1)
		need = int32(min(math.Ceil(work/capacity), float64(l.Max)))
		if float64(need) >= s.peak || now.Sub(s.peakAt) > 4*cold {
			s.peak, s.peakAt = float64(need), now
		}
		need = int32(s.peak)
	}
	p.Replicas, p.Added[TermSafe] = need, need
	return p.limited(l)
}

func (p Plan) limited(l Limits) Plan {
	n := max(min(p.Replicas, l.Max), l.Min)
	p.Added[TermLimits] += n - p.Replicas
	p.Replicas = n
	return p
}

// Learned returns what the model knows.
func (m *Model) Learned() Learned {
	return Learned{Capacity: Distribution{P50: m.s.capacity}, ColdStart: Distribution{P50: m.s.cold.Seconds()}, Load: m.s.load}
}
