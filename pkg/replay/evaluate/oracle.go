package evaluate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
)

// clairvoyant carries out the schedules behind the bounds, where each workload has one.
func (t trial) clairvoyant(ctx context.Context, certificates []certificate, progress Progress) (out []Run, err error) {
	for _, plan := range []struct {
		of          func(*certificate) []simulator.Step
		name, words string
		most        int32 // replicas more than the schedule's, at most
	}{
		{func(c *certificate) []simulator.Step { return c.exact }, "clairvoyant", t.planned() + ", carried out in this world: it knows the trace", 0},
		{func(c *certificate) []simulator.Step { return c.safe }, "clairvoyant, careful", "a schedule in slots half as long, for a wait that is one such slot shorter, which real waits then keep; it knows the trace, not what spot takes", maxSpareReplicas},
	} {
		steps, planned := make([][]simulator.Step, len(t)), true
		for i := range t {
			steps[i] = plan.of(&certificates[i])
			planned = planned && len(steps[i]) > 0
		}
		if !planned {
			continue
		}
		oracle := Run{Name: plan.name, Variant: Clairvoyant, Words: plan.words}
		if err := t.carryOut(ctx, &oracle, steps, plan.most, progress); err != nil {
			return nil, err
		}
		out = append(out, oracle)
	}
	return out, nil
}

// mostSpare bounds how much a careful plan is given beyond its schedule, where the world takes nodes away and cuts off what still runs
// on a replica that ends.
const maxSpareReplicas = 6

// carryOut plays plans in the world. A workload that misses its SLO is given one replica more than its plan says, while it says any, and
// keeps each for one service time longer; then another, until all keep theirs. Where that is not enough either, the plans are played as
// they are.
func (t trial) carryOut(ctx context.Context, oracle *Run, steps [][]simulator.Step, most int32, progress Progress) error {
	spare := make([]int32, len(t))
	for first := (*Run)(nil); ; {
		run, by := *oracle, t.ours()
		for i := range t {
			by[i] = simulator.Planned(t[i].withSpare(steps[i], spare[i]))
		}
		if err := t.fill(ctx, &run, by, progress); err != nil {
			return err
		}
		if first == nil {
			first = &run
		}
		given := t.spare(spare)
		if run.MeetsSLO && given != "" {
			run.Words += "; " + given + ", without which the SLO is missed here"
		}
		more := false
		for i, l := range run.Loads() {
			if !l.MeetsSLO && spare[i] < most {
				spare[i]++
				more = true
			}
		}
		switch {
		case run.MeetsSLO:
			*oracle = run
			return nil
		case !more:
			*oracle = *first
			if given != "" {
				oracle.Words += "; not even " + given + " keep the SLO here"
			}
			return nil
		}
	}
}

// spared is a plan with some replicas more while it has any, within what the policy allows, each kept for as many service times longer.
func (c *Case) withSpare(steps []simulator.Step, more int32) []simulator.Step {
	if more == 0 {
		return steps
	}
	out := kept(steps, time.Duration(more)*c.longestService())
	for i := range out {
		if n := &out[i].Replicas; *n > 0 {
			*n = max(*n, min(*n+more, c.limits().MaxReplicas))
		}
	}
	return out
}

func (c *Case) longestService() (longest time.Duration) {
	for r := range c.Traffic.All() {
		longest = max(longest, c.Service.Takes(r))
	}
	return longest
}

// kept is a plan that gives up a replica so much later.
func kept(steps []simulator.Step, later time.Duration) (out []simulator.Step) {
	var instants []time.Duration
	for i, s := range steps {
		instants = append(instants, s.At)
		if i > 0 && s.Replicas < steps[i-1].Replicas {
			instants = append(instants, s.At+later)
		}
	}
	slices.Sort(instants)
	for _, at := range slices.Compact(instants) {
		wish := int32(0)
		for i, s := range steps {
			if ended := i+1 < len(steps) && steps[i+1].At+later <= at; s.At <= at && !ended {
				wish = max(wish, s.Replicas)
			}
		}
		if len(out) == 0 || out[len(out)-1].Replicas != wish {
			out = append(out, simulator.Step{At: at, Replicas: wish})
		}
	}
	return out
}

// spare is what plans were given, in words; empty where nothing was.
func (t trial) spare(given []int32) string {
	var parts []string
	for i, n := range given {
		of := ""
		if len(t) > 1 {
			of = " for " + t[i].Policy.Workload.Key.String()
		}
		switch {
		case n == 1:
			parts = append(parts, "one replica more"+of)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d replicas more%s", n, of))
		}
	}
	return strings.Join(parts, " and ")
}

// planned says which schedule the clairvoyant carries out.
func (t trial) planned() string {
	for i := range t {
		if t[i].typicalColdStart() != t[i].leastColdStart() {
			return "a schedule like the one behind the fluid bound, for cold starts as they usually are"
		}
	}
	return "the schedule behind the fluid bound"
}
