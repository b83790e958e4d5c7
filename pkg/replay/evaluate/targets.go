package evaluate

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
)

// targetWarnings returns a warning for each signal whose target per replica is more than one replica can serve. With such a target, the
// signal requests another replica only when requests already wait.
func (c *Case) targetWarnings() (warnings []string) {
	served, _ := c.perReplica(c.Traffic.Duration)
	slots := float64(max(1, c.Service.Slots))
	for i := range c.limits().Signals {
		s := &c.limits().Signals[i]
		meaning := measure.Of(c.Policy, i, c.Measures)
		limit, what, how := 0.0, "", " serves concurrently"
		switch meaning.Measure {
		case measure.InSystem:
			limit, what = slots, "requests in flight"
		case measure.Running:
			limit, what = slots, "running requests"
		case measure.Arrivals:
			limit, what, how = served*meaning.Units, "requests per second", " serves on this traffic"
			if meaning.Units != 1 {
				what = "units"
			}
		}
		if limit > 0 && s.Target > limit {
			warnings = append(warnings, fmt.Sprintf(
				"signal %s: its target of %s %s per replica is more than the %.3g that a replica%s, so it adds replicas only when requests wait",
				s.Name, number(s.Target), what, limit, how))
		}
	}
	return warnings
}
