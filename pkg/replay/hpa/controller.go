package hpa

import (
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

const (
	// SyncPeriod is the default of --horizontal-pod-autoscaler-sync-period of kube-controller-manager.
	SyncPeriod = 15 * time.Second
	// DownscaleStabilization is the default stabilization window for scale-down.
	DownscaleStabilization = 300 * time.Second

	upLimitFactor  = 2.0
	upLimitMinimum = 4.0
)

// Behavior is spec.behavior with the defaults that the API server sets.
type Behavior struct{ Up, Down scaling.Direction }

// Spec is the spec of a HorizontalPodAutoscaler. Min is at least 1: an HPA does not scale a target from zero before Kubernetes
// 1.37.
type Spec struct {
	Min, Max int32
	Behavior *Behavior // nil: a sync scales up to at most twice the replicas, or to 4 if that is more; scale-down window 300 s; tolerance 10%
}

// DefaultBehavior returns the result of `behavior: {}` after the defaults of the API server.
func DefaultBehavior() *Behavior {
	const quarter = 15 * time.Second
	return &Behavior{
		Up: scaling.Direction{Tolerance: 0.1, Rates: []scaling.RatePolicy{
			{Type: scaling.Pods, Value: 4, Period: quarter}, {Type: scaling.PercentRate, Value: 100, Period: quarter}}},
		Down: scaling.Direction{Tolerance: 0.1, StabilizationWindow: DownscaleStabilization, Rates: []scaling.RatePolicy{
			{Type: scaling.PercentRate, Value: 100, Period: quarter}}},
	}
}

// Follower returns the behavior of an HPA that follows every change of a target computed elsewhere: no tolerance, no window, no
// rate limit.
func Follower() *Behavior {
	b := DefaultBehavior()
	b.Up = scaling.Direction{Rates: []scaling.RatePolicy{{Type: scaling.Pods, Value: 1000, Period: SyncPeriod}}}
	b.Down.Tolerance, b.Down.StabilizationWindow = 0, 0
	return b
}

// Tolerances returns the tolerances of the behavior, or the defaults.
func (s *Spec) Tolerances() Tolerances {
	if s.Behavior == nil {
		return DefaultTolerances
	}
	return Tolerances{Down: s.Behavior.Down.Tolerance, Up: s.Behavior.Up.Tolerance}
}

// Proposal is the recommendation of one metric. Known is false if reading the metric failed.
type Proposal struct {
	Replicas int32
	Known    bool
}

// Verdict is the result of a sync.
type Verdict uint8

// Values of Verdict.
const (
	Scaled   Verdict = iota // the replicas were computed from the metrics and the behavior
	Disabled                // spec.replicas is zero, so the HPA is disabled
	Bounded                 // spec.replicas was outside the bounds and was set to a bound; metrics were not read
	Failed                  // metrics failed; the replicas do not change
)

type recommendation struct {
	at       time.Time
	replicas int32
}

type change struct {
	at       time.Time
	replicas int32
}

// Controller is the state of one HPA between syncs. The zero value is a controller before its first sync.
type Controller struct {
	recommendations []recommendation
	ups, downs      []change
}

// Sync computes one pass of Kubernetes' reconcileAutoscaler: current is spec.replicas, and the result is its new value. Proposals are
// ignored if the verdict is Disabled or Bounded.
func (c *Controller) Sync(s *Spec, now time.Time, current int32, proposals []Proposal) (int32, Verdict) {
	if len(c.recommendations) == 0 {
		c.recommendations = append(c.recommendations, recommendation{now, current})
	}
	var desired int32
	verdict := Scaled
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

// combine returns the highest proposal. ok is false if all metrics failed, or if some metrics failed and the other metrics propose a
// scale-down. In these cases the replicas do not change.
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

// plain returns the replicas of an HPA without behavior: the highest recommendation of the last five minutes, limited by the minimum, the
// maximum and the scale-up limit of one sync.
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

// behave returns the replicas of an HPA with behavior: it applies first the stabilization windows, then the rate limits.
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

// start returns the replicas at the start of the period that ends now: the current replicas without the changes of that period.
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

// store records a change of the replicas for the rate limits. It overwrites a change that is older than the periods of all rate limits.
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
