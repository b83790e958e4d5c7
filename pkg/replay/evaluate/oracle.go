package evaluate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
)

// carefulWords is the description of the careful clairvoyant run in reports.
const carefulWords = "a schedule with half the slot length for a wait that is one such slot shorter, so that real waits meet the SLO; " +
	"it knows the trace, but not the spot losses"

// clairvoyant runs the schedules of both kinds in certificate, exact and safe, and returns the runs. If a workload has no schedule of one
// kind, there is no run of this kind.
func (t trial) clairvoyant(ctx context.Context, certificates []certificate, progress Progress) (out []Run, err error) {
	for _, plan := range []struct {
		of          func(*certificate) []baseline.Step
		name, words string
		most        int32 // maximum number of replicas added to the schedule
	}{
		{func(c *certificate) []baseline.Step { return c.exact }, "clairvoyant", t.planned() + ", run in this simulator: it knows the trace", 0},
		{func(c *certificate) []baseline.Step { return c.safe }, "clairvoyant, careful", carefulWords, maxSpareReplicas},
	} {
		steps, planned := make([][]baseline.Step, len(t)), true
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

// maxSpareReplicas is the maximum number of replicas that carryOut adds to a careful schedule (see carefulWords). The schedule can need
// them because the simulator interrupts spot nodes, and because the termination grace period of a removed replica can end
// before its requests are finished. These requests are then queued again.
const maxSpareReplicas = 6

// carryOut simulates the plans (steps) of all workloads and stores the run in oracle. If a workload misses its SLO, one replica is added to
// its plan whenever the plan has at least one replica, and its scale-downs are delayed by the longest service time. This repeats until all
// workloads meet their SLO. At most the given number of replicas (most) is added to a plan. If these are not enough, carryOut stores the
// run of the unchanged plans.
func (t trial) carryOut(ctx context.Context, oracle *Run, steps [][]baseline.Step, most int32, progress Progress) error {
	spare := make([]int32, len(t))
	for first := (*Run)(nil); ; {
		run, by := *oracle, t.ours()
		for i := range t {
			by[i] = baseline.Planned(t[i].withSpare(steps[i], spare[i]))
		}
		if err := t.fill(ctx, &run, by, progress); err != nil {
			return err
		}
		if first == nil {
			first = &run
		}
		given := t.spare(spare)
		if run.MeetsSLO && given != "" {
			run.Words += "; with " + given + ", because the SLO is missed otherwise"
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
				oracle.Words += "; even with " + given + " the SLO is missed"
			}
			return nil
		}
	}
}

// withSpare returns the plan with `more` additional replicas whenever it has at least one replica, up to maxReplicas. It delays each
// scale-down by `more` times the longest service time.
func (c *Case) withSpare(steps []baseline.Step, more int32) []baseline.Step {
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

// kept returns a copy of the schedule in which each scale-down is delayed by the given time.
func kept(steps []baseline.Step, later time.Duration) (out []baseline.Step) {
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
			out = append(out, baseline.Step{At: at, Replicas: wish})
		}
	}
	return out
}

// spare returns text that lists the replicas that were added to each schedule, or "" if none were added.
func (t trial) spare(given []int32) string {
	var parts []string
	for i, n := range given {
		of := ""
		if len(t) > 1 {
			of = " for " + t[i].Policy.Workload.Key.String()
		}
		switch {
		case n == 1:
			parts = append(parts, "one more replica"+of)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d more replicas%s", n, of))
		}
	}
	return strings.Join(parts, " and ")
}

// planned returns the part of the description of the clairvoyant run that names its schedule.
func (t trial) planned() string {
	for i := range t {
		if t[i].typicalColdStart() != t[i].leastColdStart() {
			return "a schedule like the one behind the fluid bound, for typical cold starts"
		}
	}
	return "the schedule behind the fluid bound"
}
