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
			c.Reject(at.Key("name"), "another schedule has this name", "a unique name")
		}
		names[s.Name] = true
		window, ok := schedule.Compile(c.Collector, schedule.Text{Name: s.Name, Timezone: s.Timezone, Start: s.Start, End: s.End, From: s.From,
			Until: s.Until}, at)
		out := scaling.Schedule{Window: window, Min: -1, Max: -1, Lead: time.Duration(s.LeadTime)}
		c.scheduleBounds(s, at, &out)
		if out.Lead == 0 && out.Min >= 0 {
			out.Lead = c.groupLead()
		}
		if ok {
			c.policy.Schedules = append(c.policy.Schedules, out)
			c.scheduleAt = append(c.scheduleAt, i)
		}
	}
}

// maxLead is the maximum of leadTime.
const maxLead = 24 * time.Hour

// groupLead returns the lead time of the capacity group, limited to maxLead.
func (c *compiler) groupLead() time.Duration {
	g := c.Platform.Group(c.Spec.CapacityGroup)
	if g == nil {
		return 0
	}
	return min(time.Duration(g.LeadTime), maxLead)
}

// scheduleBounds checks that minReplicas and maxReplicas of a schedule do not contradict each other or the bounds of the policy.
func (c *compiler) scheduleBounds(s *spec.Schedule, p *decode.Path, out *scaling.Schedule) {
	if s.MinReplicas == nil && s.MaxReplicas == nil {
		c.Reject(p, "neither minReplicas nor maxReplicas is set, so the window has no effect", "minReplicas, maxReplicas or both")
	}
	if s.MinReplicas != nil {
		out.Min = *s.MinReplicas
		if out.Min > c.high {
			c.Reject(p.Key("minReplicas"), fmt.Sprintf("is above the policy's maxReplicas of %d", c.high), "at most maxReplicas")
		}
	}
	if s.MaxReplicas != nil {
		out.Max = *s.MaxReplicas
		if out.Max < c.low {
			c.Reject(p.Key("maxReplicas"), fmt.Sprintf("is below the policy's minReplicas of %d, which always applies", c.low),
				"at least minReplicas")
		}
	}
	if out.Min >= 0 && out.Max >= 0 && out.Min > out.Max {
		c.Reject(p.Key("maxReplicas"), "is below minReplicas of the same schedule", "at least its minReplicas")
	}
	if s.LeadTime > 0 && s.MinReplicas == nil {
		c.Reject(p.Key("leadTime"), "there is no minReplicas to raise early", "leadTime together with minReplicas")
	}
	if s.LeadTime > spec.Duration(maxLead) {
		c.Reject(p.Key("leadTime"), "is too long", "at most 24h")
	}
}

// overlaps rejects two schedules whose windows overlap in time if maxReplicas of one schedule is below minReplicas of the other. During the
// overlap, no number of replicas could satisfy both schedules.
func (c *compiler) overlaps() {
	type pair struct{ low, high int }
	var pairs []pair
	for i, a := range c.policy.Schedules {
		for j, b := range c.policy.Schedules {
			if i != j && a.Min >= 0 && b.Max >= 0 && a.Min > b.Max {
				pairs = append(pairs, pair{i, j})
			}
		}
	}
	for _, pair := range pairs {
		a, b := &c.policy.Schedules[pair.low], &c.policy.Schedules[pair.high]
		at, ok := c.Interner.overlap(&a.Window, &b.Window, schedule.MaxSteps/len(pairs))
		if !ok {
			continue
		}
		p := decode.Spec.Key("schedules").At(c.scheduleAt[pair.high]).Key("maxReplicas")
		c.Reject(p, fmt.Sprintf("is below minReplicas %d of schedule %s, and both windows are open at %s", a.Min, a.Window.Name,
			at.Format("Mon 2006-01-02 15:04 MST")),
			fmt.Sprintf("at least %d, or windows that do not overlap", a.Min))
	}
}
