package lowerbound

import "fmt"

// Cost is the result of Evaluate: the cost of a schedule, and the work that is late or not served at the end. The package documentation
// describes the fluid slot model.
type Cost struct {
	Total        float64 // cost in the currency of the problem, before Problem.Rebate is subtracted
	ReplicaSlots int64
	Starts       int64
	Late         int64 // number of late jobs
	Backlog      int64 // units of work that are not served at the end
	MostBacklog  int64
}

// Evaluate simulates a schedule, which contains the number of ready replicas in each slot, and returns its cost.
func Evaluate(p Problem, schedule []int32) (Cost, error) {
	tl, err := newTimeline(&p)
	if err != nil {
		return Cost{}, err
	}
	if len(schedule) != tl.slots {
		return Cost{}, fmt.Errorf("bound: a schedule of %d slots for a problem of %d", len(schedule), tl.slots)
	}
	before := int32(p.InitialReplicas)
	for i, n := range schedule {
		if n < 0 || int(n) > p.MaxReplicas {
			return Cost{}, fmt.Errorf("bound: slot %d: %d replicas, outside 0..%d", i+1, n, p.MaxReplicas)
		}
		if n > before && i < p.BootSlots {
			return Cost{}, fmt.Errorf("bound: slot %d: a replica ready there was launched before time 0", i+1)
		}
		before = n
	}
	return play(&p, tl, schedule, nil), nil
}

// play returns the same result as Evaluate but does not check the schedule. If backlog is not nil, play sets backlog[t-1] to the backlog at
// the end of slot t.
func play(p *Problem, tl *timeline, schedule []int32, backlog []int64) Cost {
	var c Cost
	before, q := int32(p.InitialReplicas), int64(0)
	for i, n := range schedule {
		q = max(0, q+p.Arrivals[i]-p.UnitsPerReplicaSlot*int64(n))
		c.ReplicaSlots += int64(n)
		c.Starts += int64(max(0, n-before))
		c.Late += tl.late(i+1, tl.arrived[i+1]-q)
		c.MostBacklog = max(c.MostBacklog, q)
		if backlog != nil {
			backlog[i] = q
		}
		before = n
	}
	c.Backlog = q
	c.Total = p.ReplicaSlotCost*float64(c.ReplicaSlots) + p.StartCost*float64(c.Starts)
	return c
}

// bestEffort returns the schedule with the fewest late jobs, at any cost. Jobs are served in order, so more replicas never make a job
// later.
func bestEffort(p *Problem) []int32 {
	schedule := make([]int32, len(p.Arrivals))
	for i := range schedule {
		schedule[i] = int32(p.MaxReplicas)
		if i < p.BootSlots {
			schedule[i] = int32(p.InitialReplicas)
		}
	}
	return schedule
}
