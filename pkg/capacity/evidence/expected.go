package evidence

import (
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

const (
	// BurstWindow and minBurst define a burst: at least minBurst nodes were lost within BurstWindow. More losses usually follow a burst.
	BurstWindow = 5 * time.Minute
	minBurst    = 2
	// RateWindow is the time over which the rate of losses is computed. A single loss in this time is not enough for a rate.
	RateWindow = time.Hour
	// interruptionSpan is the duration of one interruption. When a provider needs capacity, it takes several nodes within seconds. Losses
	// that are less than interruptionSpan apart count as one interruption.
	interruptionSpan = 30 * time.Second
	// deviations is the number of standard deviations by which the expected losses exceed their mean. If losses are normally distributed,
	// they exceed this number in one of forty cold starts.
	deviations = 2
)

// Rounding is the tolerance for rounding errors when fractions are added.
const Rounding = 1e-6

// Losses contains the nodes that were lost in the last hour. The zero value contains no loss.
type Losses struct {
	counted counter
	at      [statemachine.MaxEvidence]int64
	burst   int // losses within BurstWindow
	squares int // sum over all interruptions of the squared number of lost nodes
}

// Add adds the losses of one NodePool.
func (s *Losses) Add(losses []Loss, now int64) {
	for i := range losses {
		l, n := &losses[i], s.counted.count
		if !Within(l.At, now-RateWindow.Milliseconds(), now) || !s.counted.add(l.UID) {
			continue
		}
		s.at[n] = statemachine.Stamp(l.At)
		s.squares++
		for _, other := range s.at[:n] {
			if max(other-s.at[n], s.at[n]-other) < interruptionSpan.Milliseconds() {
				s.squares += 2
			}
		}
		if Within(l.At, now-BurstWindow.Milliseconds(), now) {
			s.burst++
		}
	}
}

// Expected returns the number of nodes that the provider is expected to take during one cold start, which lasts leadTime. It returns 0 if
// fewer than minBurst nodes were lost in the last hour. Otherwise the result is the mean number of losses in leadTime, computed from the
// last hour, plus two standard deviations of a compound Poisson process, in which an interruption of n nodes adds n squared to the
// variance. In a burst, the result is at least the number of nodes lost in the burst.
func (s *Losses) Expected(leadTime time.Duration) int32 {
	lost := s.counted.count
	if lost < minBurst {
		return 0
	}
	share := float64(max(leadTime, BurstWindow)) / float64(RateWindow)
	mean := float64(float64(lost) * share)
	n := int32(math.Round(mean + float64(deviations*math.Sqrt(float64(s.squares)*share))))
	if s.burst >= minBurst {
		n = max(n, int32(s.burst))
	}
	return n
}

// Exposure counts the ready replicas and pods on spot nodes without an interruption notice. The provider can take these nodes at any time.
type Exposure struct {
	Pods   int64   // ready pods of the group's workloads, including pods of the reserve
	Needed int32   // number of the ready replicas that are necessary for the demand
	Nodes  float64 // number of spot nodes with ready pods, including unmanaged pods; a node counts in part if other pods also use its units
}

// ReplicasLostWith returns how many replicas are expected to be lost if the provider takes the given number of nodes. The result is at most
// half of the exposed replicas that are necessary for the demand. This bounds the cost if the provider takes all spot nodes.
func (e *Exposure) ReplicasLostWith(nodes int32) int32 {
	if e.Nodes <= 0 || e.Needed == 0 {
		return 0
	}
	share := float64(float64(nodes) / e.Nodes)
	// each lost pod counts as a lost replica, because each pod may belong to a different replica
	n := math.Ceil(float64(share*float64(e.Pods)) - Rounding)
	return int32(min(n, float64((e.Needed+1)/2)))
}
