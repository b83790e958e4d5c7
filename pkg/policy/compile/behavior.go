package compile

import (
	"cmp"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The defaults of behavior equal the defaults of an HPA, so that a workload scales in the same way after its HPA is replaced by a policy.
// gpuscaler applies behavior when it computes the target. The HPA that reads the target is configured to apply it immediately.
const (
	defaultTolerance        = 0.1
	defaultDownWindow       = 300 * time.Second
	defaultRatePeriod       = 15 * time.Second
	maxStabilizationSeconds = 3600
	maxRatePeriodSeconds    = 1800
	maxRates                = 4
	defaultPanicThreshold   = 2.0 // twice the ready replicas, as in Knative (200%)
	defaultPanicWindow      = 60 * time.Second
	defaultCooldown         = 5 * time.Minute // as in KEDA
	defaultFailureThreshold = 3
	defaultMinReplicas      = 1
	defaultStaticFallback   = "static" // as in KEDA
)

func (c *compiler) behavior(b *spec.Behavior, p *decode.Path) {
	c.policy.ScaleUp = scaling.Direction{
		Tolerance: defaultTolerance,
		Rates: []scaling.RatePolicy{
			{Type: scaling.PercentRate, Value: 100, Period: defaultRatePeriod},
			{Type: scaling.Pods, Value: 4, Period: defaultRatePeriod},
		},
	}
	c.policy.ScaleDown = scaling.Direction{
		Tolerance: defaultTolerance, StabilizationWindow: defaultDownWindow,
		Rates: []scaling.RatePolicy{{Type: scaling.PercentRate, Value: 100, Period: defaultRatePeriod}},
	}
	c.limits(b, p)
}

// limits applies the fields of behavior that are set. A policy with an objective has no default windows, tolerances and rates, because the
// objective determines how fast the target may change.
func (c *compiler) limits(b *spec.Behavior, p *decode.Path) {
	if b == nil {
		return
	}
	c.direction(&c.policy.ScaleUp, b.ScaleUp, p.Key("scaleUp"))
	c.direction(&c.policy.ScaleDown, b.ScaleDown, p.Key("scaleDown"))
	c.panicMode(b.Panic, p.Key("panic"))
}

func (c *compiler) direction(d *scaling.Direction, s *spec.Direction, p *decode.Path) {
	if s == nil {
		return
	}
	if w := s.StabilizationWindowSeconds; w != nil {
		if *w > maxStabilizationSeconds {
			c.Reject(p.Key("stabilizationWindowSeconds"), "is too long", "at most 3600, as in an HPA")
		}
		d.StabilizationWindow = time.Duration(min(*w, maxStabilizationSeconds)) * time.Second
	}
	if s.Tolerance != nil {
		d.Tolerance = float64(*s.Tolerance)
	}
	switch s.SelectPolicy {
	case "Min":
		d.Select = scaling.SelectMin
	case "Disabled":
		d.Select = scaling.Disabled
	}
	if s.Policies == nil {
		return
	}
	if len(s.Policies) == 0 || len(s.Policies) > maxRates {
		c.Reject(p.Key("policies"), fmt.Sprintf("has %d entries", len(s.Policies)), "1 to 4; selectPolicy: Disabled disables a direction")
		return
	}
	d.Rates = nil
	for i, rate := range s.Policies {
		d.Rates = append(d.Rates, c.rate(rate, p.Key("policies").At(i)))
	}
}

func (c *compiler) rate(s spec.Rate, p *decode.Path) scaling.RatePolicy {
	out := scaling.RatePolicy{Value: 1, Period: time.Second}
	if s.Type == "Percent" {
		out.Type = scaling.PercentRate
	}
	if s.Value != nil {
		if *s.Value < 1 || *s.Value > policy.ReplicaLimit {
			c.Reject(p.Key("value"), "is out of range", "1 or more; selectPolicy: Disabled disables a direction")
		}
		out.Value = min(max(*s.Value, 1), policy.ReplicaLimit)
	}
	if s.PeriodSeconds != nil {
		if *s.PeriodSeconds < 1 || *s.PeriodSeconds > maxRatePeriodSeconds {
			c.Reject(p.Key("periodSeconds"), "is out of range", "1 to 1800, as in an HPA")
		}
		out.Period = time.Duration(min(max(*s.PeriodSeconds, 1), maxRatePeriodSeconds)) * time.Second
	}
	return out
}

func (c *compiler) panicMode(s *spec.Panic, p *decode.Path) {
	if s == nil {
		return
	}
	c.policy.Panic = scaling.Panic{Threshold: defaultPanicThreshold, Window: defaultPanicWindow}
	if s.Threshold != nil {
		if *s.Threshold <= 1 {
			c.Reject(p.Key("threshold"), "is reached without a burst", "more than 100%")
		}
		c.policy.Panic.Threshold = float64(*s.Threshold)
	}
	if s.Window != nil {
		if *s.Window < spec.Duration(time.Second) || *s.Window > spec.Duration(time.Hour) {
			c.Reject(p.Key("window"), "is out of range", "1s to 1h")
		}
		c.policy.Panic.Window = time.Duration(*s.Window)
	}
}

var fallbackBehaviors = map[string]scaling.FallbackBehavior{
	"static": scaling.FallbackStatic, "currentReplicas": scaling.FallbackCurrentReplicas,
	"currentReplicasIfHigher": scaling.FallbackCurrentReplicasIfHigher, "currentReplicasIfLower": scaling.FallbackCurrentReplicasIfLower,
}

func (c *compiler) fallback(s *spec.Fallback, p *decode.Path) {
	if s == nil {
		return
	}
	f := &c.policy.Fallback
	f.Behavior = fallbackBehaviors[cmp.Or(s.Behavior, defaultStaticFallback)]
	f.FailureThreshold = defaultFailureThreshold
	if s.FailureThreshold != nil {
		f.FailureThreshold = *s.FailureThreshold
	}
	switch {
	case s.Replicas != nil && *s.Replicas > policy.ReplicaLimit:
		c.Reject(p.Key("replicas"), "is out of range", "at most 100000")
	case s.Replicas != nil:
		f.Replicas = *s.Replicas
	case f.Behavior == scaling.FallbackStatic || f.Behavior == scaling.FallbackCurrentReplicasIfLower:
		c.Reject(p.Key("replicas"), "is missing", "the number of replicas of fallback behavior "+cmp.Or(s.Behavior, defaultStaticFallback))
	}
}
