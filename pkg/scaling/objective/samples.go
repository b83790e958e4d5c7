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

// summary returns the quantiles of the stored measurements, which are at most the last 32.
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

// coldStarts contains what was measured about cold starts, in seconds. A cold start is the time from the decision until the replica is
// ready.
type coldStarts struct {
	Total samples
	Phase [Phases]phaseSamples
	Lead  float64 // 90th percentile of Total; 0: unknown
}

// phaseSamples contains the last eight measurements of one phase of the cold start. More are not necessary, because they are only
// displayed.
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

// maxColdStart is the greatest cold start that is recorded. A longer cold start is recorded with this value, so that a replica that was
// pending for days does not affect plans for a long time.
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

// lead contains the fields that version 5 of the encoding added to coldStarts.
type lead struct {
	Node  phaseSamples // seconds from the decision until the pod was assigned to a node
	Early float64      // 95th percentile of coldStarts.Total, in seconds; 0: unknown
}

// LeadTime returns the cold start that the objective contains. If it contains none, LeadTime returns the 95th percentile of the observed
// cold starts, or 0 if none was observed. Schedules and capacity groups use it, because they need the replicas at a known time. Plans use
// the 90th percentile instead, because they are computed again in each tick, and because the late budget includes the risk of longer cold
// starts.
func (m *Model) LeadTime(o *Objective) time.Duration {
	if o.ColdStart > 0 {
		return min(o.ColdStart, maxColdStart)
	}
	return time.Duration(math.Ceil(m.saved.Ahead.Early)) * time.Second
}

// measureColdStart adds the measurements of a completed cold start.
func (s *saved) measureColdStart(c *ColdStart) {
	s.Cold.measure(c)
	if c.Node > 0 {
		s.Ahead.Node.add(min(c.Node, maxColdStart).Seconds())
	}
	s.Ahead.Early = s.Cold.Total.summary().P95
}
