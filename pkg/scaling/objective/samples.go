package objective

import (
	"math"
	"slices"
	"time"
)

// samples contains the last 32 measurements of one quantity, and the number of all measurements.
type samples struct {
	Value [32]float32
	Count int64
}

func (s *samples) add(v float64) {
	s.Value[s.Count%int64(len(s.Value))] = float32(v)
	s.Count++
}

// summary returns the quantiles of the stored measurements.
func (s *samples) summary() Distribution {
	n := int(min(s.Count, int64(len(s.Value))))
	if n == 0 {
		return Distribution{}
	}
	sorted := s.Value
	slices.Sort(sorted[:n])
	at := func(percent int) float64 { return float64(sorted[min(n*percent/100, n-1)]) }
	return Distribution{P10: at(10), P50: at(50), P90: at(90), P95: at(95), Count: s.Count}
}

// coldStarts contains what is known about cold starts, in seconds. A cold start is the time from the decision until the replica is ready.
type coldStarts struct {
	Total samples
	Phase [Phases]phaseSamples
	Lead  float64 // 90th percentile of Total; 0: not known
}

// phaseSamples contains the last measurements of one phase of the cold start. Eight are sufficient, because they are only displayed.
type phaseSamples struct {
	Value [8]float32
	Count int64
}

func (s *phaseSamples) add(v float64) {
	s.Value[s.Count%int64(len(s.Value))] = float32(v)
	s.Count++
}

func (s *phaseSamples) summary() Distribution {
	all := samples{Count: min(s.Count, int64(len(s.Value)))}
	copy(all.Value[:], s.Value[:])
	d := all.summary()
	d.Count = s.Count
	return d
}

// maxColdStart is the greatest value that is recorded for a cold start. A longer cold start is recorded with this value, so that a replica
// that was pending for days does not affect the plans for a long time.
const maxColdStart = time.Hour

func (c *coldStarts) measure(s *ColdStart) {
	if s.Total <= 0 {
		return
	}
	c.Total.add(min(s.Total, maxColdStart).Seconds())
	for i, d := range s.Phase {
		if d > 0 {
			c.Phase[i].add(min(d, maxColdStart).Seconds())
		}
	}
	c.Lead = c.Total.summary().P90
}

// lead contains what version 5 of the encoding added to coldStarts.
type lead struct {
	Node  phaseSamples // seconds from the decision until the pod was assigned to a node
	Early float64      // 95th percentile of coldStarts.Total, in seconds; 0: not known
}

// LeadTime returns the cold start that the objective states, or else the 95th percentile of the observed cold starts. It is 0 if neither is
// known. Schedules and capacity groups use it, because they know the time at which the replicas are needed. Plans use the 90th percentile:
// they are computed again in each tick, and the rest of the risk is part of the late budget.
func (m *Model) LeadTime(o *Objective) time.Duration {
	if o.ColdStart > 0 {
		return min(o.ColdStart, maxColdStart)
	}
	return time.Duration(math.Ceil(m.saved.Ahead.Early)) * time.Second
}

// measureColdStart adds a cold start.
func (s *saved) measureColdStart(c *ColdStart) {
	s.Cold.measure(c)
	if c.Node > 0 {
		s.Ahead.Node.add(min(c.Node, maxColdStart).Seconds())
	}
	s.Ahead.Early = s.Cold.Total.summary().P95
}
