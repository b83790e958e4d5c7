package policy

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The defaults of behavior are those of an HPA, on purpose: who moves from an HPA finds the same curve, and who reads the
// policy can look the words up. They are ours to apply, because the HPA that follows us is told to follow at once.
const (
	defaultTolerance              = 0.1
	defaultDownWindow             = 300 * time.Second
	defaultRatePeriod             = 15 * time.Second
	maxStabilizationSeconds       = 3600
	maxRatePeriodSeconds          = 1800
	maxRates                      = 4
	defaultPanicThreshold         = 2.0 // twice what is ready: a burst that waiting would make worse (Knative's 200%)
	defaultPanicWindow            = 60 * time.Second
	defaultCooldown               = 5 * time.Minute // KEDA's
	defaultFailureThreshold       = 3
	defaultMinReplicas            = 1
	defaultStaticFallback         = "static" // KEDA's own default
	mostReplicas            int32 = 100_000  // beyond any cluster; keeps sums of replicas far from the end of an int32
)

func (c *compiler) behavior(b *BehaviorSpec, p *yamlPath) {
	if b == nil {
		b = &BehaviorSpec{}
	}
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
	c.direction(&c.policy.ScaleUp, b.ScaleUp, p.key("scaleUp"))
	c.direction(&c.policy.ScaleDown, b.ScaleDown, p.key("scaleDown"))
	c.panicking(b.Panic, p.key("panic"))
}

func (c *compiler) direction(d *scaling.Direction, s *DirectionSpec, p *yamlPath) {
	if s == nil {
		return
	}
	if w := s.StabilizationWindowSeconds; w != nil {
		if *w > maxStabilizationSeconds {
			c.bad(p.key("stabilizationWindowSeconds"), "is too long", "at most 3600, as in an HPA")
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
		c.bad(p.key("policies"), fmt.Sprintf("has %d entries", len(s.Policies)), "1 to 4; selectPolicy: Disabled forbids a direction")
		return
	}
	d.Rates = nil
	for i, rate := range s.Policies {
		d.Rates = append(d.Rates, c.rate(rate, p.key("policies").at(i)))
	}
}

func (c *compiler) rate(s RateSpec, p *yamlPath) scaling.RatePolicy {
	out := scaling.RatePolicy{Value: 1, Period: time.Second}
	if s.Type == "Percent" {
		out.Type = scaling.PercentRate
	}
	if s.Value != nil {
		if *s.Value < 1 || *s.Value > mostReplicas {
			c.bad(p.key("value"), "is out of range", "1 or more; selectPolicy: Disabled forbids a direction")
		}
		out.Value = min(max(*s.Value, 1), mostReplicas)
	}
	if s.PeriodSeconds != nil {
		if *s.PeriodSeconds < 1 || *s.PeriodSeconds > maxRatePeriodSeconds {
			c.bad(p.key("periodSeconds"), "is out of range", "1 to 1800, as in an HPA")
		}
		out.Period = time.Duration(min(max(*s.PeriodSeconds, 1), maxRatePeriodSeconds)) * time.Second
	}
	return out
}

func (c *compiler) panicking(s *PanicSpec, p *yamlPath) {
	if s == nil {
		return
	}
	c.policy.Panic = scaling.Panic{Threshold: defaultPanicThreshold, Window: defaultPanicWindow}
	if s.Threshold != nil {
		if *s.Threshold <= 1 {
			c.bad(p.key("threshold"), "would panic at rest", "more than 100%")
		}
		c.policy.Panic.Threshold = float64(*s.Threshold)
	}
	if s.Window != nil {
		if *s.Window < Duration(time.Second) || *s.Window > Duration(time.Hour) {
			c.bad(p.key("window"), "is out of range", "1s to 1h")
		}
		c.policy.Panic.Window = time.Duration(*s.Window)
	}
}

var fallbackBehaviors = map[string]scaling.FallbackBehavior{
	"static": scaling.FallbackStatic, "currentReplicas": scaling.FallbackCurrentReplicas,
	"currentReplicasIfHigher": scaling.FallbackCurrentReplicasIfHigher, "currentReplicasIfLower": scaling.FallbackCurrentReplicasIfLower,
}

func (c *compiler) fallback(s *FallbackSpec, p *yamlPath) {
	if s == nil {
		return
	}
	f := &c.policy.Fallback
	f.Behavior = fallbackBehaviors[orDefault(s.Behavior, defaultStaticFallback)]
	f.FailureThreshold = defaultFailureThreshold
	if s.FailureThreshold != nil {
		f.FailureThreshold = *s.FailureThreshold
	}
	switch {
	case s.Replicas != nil && *s.Replicas > mostReplicas:
		c.bad(p.key("replicas"), "is out of range", "at most 100000")
	case s.Replicas != nil:
		f.Replicas = *s.Replicas
	case f.Behavior == scaling.FallbackStatic || f.Behavior == scaling.FallbackCurrentReplicasIfLower:
		c.bad(p.key("replicas"), "is missing", "the number that behavior "+orDefault(s.Behavior, defaultStaticFallback)+" falls back to")
	}
}

func orDefault(s, preset string) string {
	if s == "" {
		return preset
	}
	return s
}
