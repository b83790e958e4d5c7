package baseline

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

// Static returns the factory of an actuator that sets a fixed number of replicas, as for a fleet without an autoscaler.
func Static(n int32) autoscaler.Factory {
	return func() autoscaler.Actuator { return static(n) }
}

type static int32

func (n static) Act(*autoscaler.Scene) autoscaler.Move {
	return autoscaler.Move{Replicas: int32(n), Again: time.Hour, Idle: ledger.Minimum}
}

// Step is one change of the number of desired replicas at a given time.
type Step struct {
	At       time.Duration // time since the start
	Replicas int32
}

// Planned returns the factory of an actuator that sets the replicas to given numbers at given times, such as the schedule behind a lower
// bound. The steps are in order of At.
func Planned(steps []Step) autoscaler.Factory {
	return func() autoscaler.Actuator { return &planned{steps: steps} }
}

// PlanOf returns the changes of desired replicas that lead to the ready replicas of a schedule. The schedule has the number of ready
// replicas for each time slot of length slot. The desired replicas increase one cold start (the parameter lead) before a replica must be
// ready. A replica that the schedule does not need is kept if the schedule needs a replica again before a new replica could be ready.
func PlanOf(schedule []int32, slot, lead time.Duration) []Step {
	var steps []Step
	ahead := int((lead + slot - 1) / slot)
	for t := -ahead; t < len(schedule); t++ {
		from, to := max(t, 0), min(t+ahead, len(schedule)-1)
		// The time is exactly one cold start before the slot t+ahead begins.
		at := time.Duration(t)*slot + time.Duration(ahead)*slot - lead
		n := slices.Max(schedule[from : to+1])
		if at = max(at, 0); len(steps) > 0 && steps[len(steps)-1].At == at {
			steps[len(steps)-1].Replicas = n
		} else if len(steps) == 0 || steps[len(steps)-1].Replicas != n {
			steps = append(steps, Step{At: at, Replicas: n})
		}
	}
	return steps
}

type planned struct{ steps []Step }

func (p *planned) Act(s *autoscaler.Scene) autoscaler.Move {
	m := autoscaler.Move{Replicas: s.Spec, Asked: s.Spec, Again: time.Hour}
	now := s.Elapsed
	for len(p.steps) > 0 && p.steps[0].At <= now {
		m.Replicas, m.Asked = p.steps[0].Replicas, p.steps[0].Replicas
		p.steps = p.steps[1:]
	}
	if len(p.steps) > 0 {
		m.Again = p.steps[0].At - now
	}
	return m
}
