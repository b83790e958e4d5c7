package hpa

import (
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	// SyncPeriod is the controller's --horizontal-pod-autoscaler-sync-period.
	SyncPeriod = 15 * time.Second
	// DownscaleStabilization is the window where a behavior names none.
	DownscaleStabilization = 300 * time.Second

	upLimitFactor  = 2.0
	upLimitMinimum = 4.0
)

// Behavior is spec.behavior with its defaults filled in (the API server does that).
type Behavior struct{ Up, Down scaling.Direction }

// Spec is a HorizontalPodAutoscaler. Min is at least 1: an HPA does not act on a target at zero before Kubernetes 1.37.
type Spec struct {
	Min, Max int32
	Behavior *Behavior // nil: double or 4 per sync up, the greatest of 300 s down, tolerance 10% both ways
}

// DefaultBehavior is what the API server makes of `behavior: {}`.
func DefaultBehavior() *Behavior {
	const quarter = 15 * time.Second
	return &Behavior{
		Up: scaling.Direction{Tolerance: 0.1, Rates: []scaling.RatePolicy{
			{Type: scaling.Pods, Value: 4, Period: quarter}, {Type: scaling.PercentRate, Value: 100, Period: quarter}}},
		Down: scaling.Direction{Tolerance: 0.1, StabilizationWindow: DownscaleStabilization, Rates: []scaling.RatePolicy{
			{Type: scaling.PercentRate, Value: 100, Period: quarter}}},
	}
}

// Follower is the behavior of an HPA that follows every step of a number decided elsewhere: no tolerance, no window, no rate.
func Follower() *Behavior {
	b := DefaultBehavior()
	b.Up = scaling.Direction{Rates: []scaling.RatePolicy{{Type: scaling.Pods, Value: 1000, Period: SyncPeriod}}}
	b.Down.Tolerance, b.Down.StabilizationWindow = 0, 0
	return b
}

// Tolerances are those of the HPA's spec.
func (s *Spec) Tolerances() Tolerances {
	if s.Behavior == nil {
		return DefaultTolerances
	}
	return Tolerances{Down: s.Behavior.Down.Tolerance, Up: s.Behavior.Up.Tolerance}
}

// Proposal is what one metric asks for; not Known where reading it failed.
type Proposal struct {
	Replicas int32
	Known    bool
}

// Verdict says how a sync ended.
type Verdict uint8

const (
	Scaled   Verdict = iota // the number is what the metrics and the rules make it
	Disabled                // the target is at zero: the HPA does nothing
	Bounded                 // spec.replicas lay outside the bounds, and metrics were not read
	Failed                  // metrics failed, and the replicas stay
)

type recommendation struct {
	at       time.Time
	replicas int32
}

type change struct {
	at       time.Time
	replicas int32
}

// Controller is the memory of one HPA between its syncs. The zero value is a controller that has not synced yet.
type Controller struct {
	recommendations []recommendation
	ups, downs      []change
}

// Sync is one pass of reconcileAutoscaler: current is spec.replicas, and the result is what to write there. Proposals are read
// only where the verdict is neither Disabled nor Bounded.
func (c *Controller) Sync(s *Spec, now time.Time, current int32, proposals []Proposal) (int32, Verdict) {
	if len(c.recommendations) == 0 {
		c.recommendations = append(c.recommendations, recommendation{now, current})
	}
	desired, verdict := current, Scaled
	switch {
	case current == 0:
		return 0, Disabled
	case current > s.Max:
		desired, verdict = s.Max, Bounded
	case current < s.Min:
		desired, verdict = s.Min, Bounded
	default:
		proposed, ok := combine(proposals, current)
		if !ok {
			return current, Failed
		}
		if s.Behavior == nil {
			desired = c.plain(s, now, current, proposed)
		} else {
			desired = c.behave(s, now, current, proposed)
		}
	}
	if s.Behavior != nil && desired != current {
		c.store(s.Behavior, now, desired-current)
	}
	return desired, verdict
}

// combine takes the greatest proposal; a metric that failed forbids a fall.
func combine(proposals []Proposal, current int32) (replicas int32, ok bool) {
	known := 0
	for _, p := range proposals {
		if p.Known {
			known++
			replicas = max(replicas, p.Replicas)
		}
	}
	if known == 0 || known < len(proposals) && replicas < current {
		return current, false
	}
	return replicas, true
}

// plain is the path of an HPA without behavior.
func (c *Controller) plain(s *Spec, now time.Time, current, proposed int32) int32 {
	best, old := proposed, -1
	cutoff := now.Add(-DownscaleStabilization)
	for i, r := range c.recommendations {
		if r.at.Before(cutoff) {
			old = i
		} else {
			best = max(best, r.replicas)
		}
	}
	c.record(old, recommendation{now, proposed})
	limit := min(s.Max, int32(math.Max(upLimitFactor*float64(current), upLimitMinimum)))
	if best < s.Min {
		return s.Min
	}
	return min(best, limit)
}

func (c *Controller) record(old int, r recommendation) {
	if old >= 0 {
		c.recommendations[old] = r
	} else {
		c.recommendations = append(c.recommendations, r)
	}
}

// behave is the path of an HPA with behavior: windows first, rates after.
func (c *Controller) behave(s *Spec, now time.Time, current, proposed int32) int32 {
	up, down, old := proposed, proposed, -1
	upCutoff, downCutoff := now.Add(-s.Behavior.Up.StabilizationWindow), now.Add(-s.Behavior.Down.StabilizationWindow)
	for i, r := range c.recommendations {
		if r.at.After(upCutoff) {
			up = min(up, r.replicas)
		}
		if r.at.After(downCutoff) {
			down = max(down, r.replicas)
		}
		if r.at.Before(upCutoff) && r.at.Before(downCutoff) {
			old = i
		}
	}
	c.record(old, recommendation{now, proposed})
	n := min(max(current, up), down)
	switch {
	case n > current:
		return min(n, s.Max, max(c.upLimit(&s.Behavior.Up, now, current), current))
	case n < current:
		return max(n, s.Min, min(c.downLimit(&s.Behavior.Down, now, current), current))
	}
	return n
}

// start is the replicas at the beginning of a period, from the changes within it.
func (c *Controller) start(now time.Time, period time.Duration, current int32) int32 {
	cutoff := now.Add(-period)
	for _, e := range c.ups {
		if e.at.After(cutoff) {
			current -= e.replicas
		}
	}
	for _, e := range c.downs {
		if e.at.After(cutoff) {
			current += e.replicas
		}
	}
	return current
}

func (c *Controller) upLimit(d *scaling.Direction, now time.Time, current int32) int32 {
	if d.Select == scaling.Disabled {
		return current
	}
	result := int32(math.MinInt32)
	if d.Select == scaling.SelectMin {
		result = math.MaxInt32
	}
	for _, r := range d.Rates {
		start := c.start(now, r.Period, current)
		proposed := start + r.Value
		if r.Type == scaling.PercentRate {
			proposed = int32(math.Ceil(float64(start) * (1 + float64(r.Value)/100)))
		}
		if d.Select == scaling.SelectMin {
			result = min(result, proposed)
		} else {
			result = max(result, proposed)
		}
	}
	return result
}

func (c *Controller) downLimit(d *scaling.Direction, now time.Time, current int32) int32 {
	if d.Select == scaling.Disabled {
		return current
	}
	result := int32(math.MaxInt32)
	if d.Select == scaling.SelectMin {
		result = math.MinInt32
	}
	for _, r := range d.Rates {
		start := c.start(now, r.Period, current)
		proposed := start - r.Value
		if r.Type == scaling.PercentRate {
			proposed = int32(float64(start) * (1 - float64(r.Value)/100))
		}
		if d.Select == scaling.SelectMin {
			result = max(result, proposed)
		} else {
			result = min(result, proposed)
		}
	}
	return result
}

// store remembers a change for the rates, in the place of one that no period reaches any more.
func (c *Controller) store(b *Behavior, now time.Time, by int32) {
	events, rates := &c.ups, b.Up.Rates
	if by < 0 {
		events, rates, by = &c.downs, b.Down.Rates, -by
	}
	var longest time.Duration
	for _, r := range rates {
		longest = max(longest, r.Period)
	}
	cutoff, old := now.Add(-longest), -1
	for i, e := range *events {
		if e.at.Before(cutoff) {
			old = i
		}
	}
	if old >= 0 {
		(*events)[old] = change{now, by}
	} else {
		*events = append(*events, change{now, by})
	}
}
