package compile

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
	"github.com/gpuscaler/gpuscaler/pkg/policy/schedule"
	"github.com/gpuscaler/gpuscaler/pkg/policy/spec"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func (c *compiler) schedules() {
	p := decode.Spec.Key("schedules")
	if len(c.Spec.Schedules) > scaling.MaxSchedules {
		c.Reject(p, fmt.Sprintf("has %d entries", len(c.Spec.Schedules)), fmt.Sprintf("at most %d", scaling.MaxSchedules))
		return
	}
	names := map[string]bool{}
	c.policy.Schedules = make([]scaling.Schedule, 0, len(c.Spec.Schedules))
	for i := range c.Spec.Schedules {
		s := &c.Spec.Schedules[i]
		at := p.At(i)
		if names[s.Name] {
			c.Reject(at.Key("name"), "another schedule has this name", "a name of its own")
		}
		names[s.Name] = true
		window, ok := schedule.Compile(c.Collector, schedule.Text{Name: s.Name, Timezone: s.Timezone, Start: s.Start, End: s.End, From: s.From, Until: s.Until}, at)
		out := scaling.Schedule{Window: window, Min: -1, Max: -1, Lead: time.Duration(s.LeadTime)}
		c.floorAndCeiling(s, at, &out)
		if out.Lead == 0 && out.Min >= 0 {
			out.Lead = c.groupLead()
		}
		if ok {
			c.policy.Schedules = append(c.policy.Schedules, out)
			c.scheduleAt = append(c.scheduleAt, i)
		}
	}
}

// maxLead is the longest that a floor is raised early.
const maxLead = 24 * time.Hour

// groupLead is the time that the capacity group's nodes take from nothing to a ready replica.
func (c *compiler) groupLead() time.Duration {
	g := c.Platform.Group(c.Spec.CapacityGroup)
	if g == nil {
		return 0
	}
	return min(time.Duration(g.LeadTime), maxLead)
}

// floorAndCeiling checks a schedule's own numbers against each other and against the policy's.
func (c *compiler) floorAndCeiling(s *spec.Schedule, p *decode.Path, out *scaling.Schedule) {
	if s.MinReplicas == nil && s.MaxReplicas == nil {
		c.Reject(p, "neither minReplicas nor maxReplicas: the window does nothing", "a floor, a ceiling or both")
	}
	if s.MinReplicas != nil {
		out.Min = *s.MinReplicas
		if out.Min > c.high {
			c.Reject(p.Key("minReplicas"), fmt.Sprintf("the floor is above the policy's maxReplicas of %d", c.high), "at most maxReplicas")
		}
	}
	if s.MaxReplicas != nil {
		out.Max = *s.MaxReplicas
		if out.Max < c.low {
			c.Reject(p.Key("maxReplicas"), fmt.Sprintf("the ceiling is under the policy's minReplicas of %d, which always counts", c.low), "at least minReplicas")
		}
	}
	if out.Min >= 0 && out.Max >= 0 && out.Min > out.Max {
		c.Reject(p.Key("maxReplicas"), "the ceiling is under the floor of the same schedule", "at least its minReplicas")
	}
	if s.LeadTime > 0 && s.MinReplicas == nil {
		c.Reject(p.Key("leadTime"), "there is no floor to raise early", "leadTime beside minReplicas")
	}
	if s.LeadTime > spec.Duration(maxLead) {
		c.Reject(p.Key("leadTime"), "is too long", "at most 24h")
	}
}

// overlaps refuses a ceiling under another schedule's floor where both windows are open at once: one of the two would be broken
// each time, and nobody could say which was meant.
func (c *compiler) overlaps() {
	type pair struct{ floor, ceiling int }
	var pairs []pair
	for i, a := range c.policy.Schedules {
		for j, b := range c.policy.Schedules {
			if i != j && a.Min >= 0 && b.Max >= 0 && a.Min > b.Max {
				pairs = append(pairs, pair{i, j})
			}
		}
	}
	for _, pair := range pairs {
		a, b := &c.policy.Schedules[pair.floor], &c.policy.Schedules[pair.ceiling]
		at, ok := c.Interner.overlap(&a.Window, &b.Window, schedule.MostSteps/len(pairs))
		if !ok {
			continue
		}
		p := decode.Spec.Key("schedules").At(c.scheduleAt[pair.ceiling]).Key("maxReplicas")
		c.Reject(p, fmt.Sprintf("the ceiling is under the floor of %d of schedule %s, and both are open at %s", a.Min, a.Window.Name, at.Format("Mon 2006-01-02 15:04 MST")),
			fmt.Sprintf("at least %d, or windows that do not overlap", a.Min))
	}
}
