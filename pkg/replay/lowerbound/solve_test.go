package lowerbound

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// smallest returns the lowest cost over every schedule, or +Inf if no schedule keeps the SLO. It follows the definition of the model and
// shares no code with the solver: it serves units one by one from a queue.
func smallest(p Problem) float64 {
	best := math.Inf(1)
	schedule := make([]int32, len(p.Arrivals))
	var try func(i int)
	try = func(i int) {
		if i == len(schedule) {
			if cost, late, jobs, rest := byHand(p, schedule); float64(late) <= p.LateShare*float64(jobs)+1e-9 && !(p.ServeAll && rest > 0) {
				best = min(best, cost)
			}
			return
		}
		before := int32(p.InitialReplicas)
		if i > 0 {
			before = schedule[i-1]
		}
		for n := int32(0); n <= int32(p.MaxReplicas); n++ {
			if n > before && i < p.BootSlots {
				break
			}
			schedule[i] = n
			try(i + 1)
		}
	}
	try(0)
	return best
}

func byHand(p Problem, schedule []int32) (cost float64, late, jobs, rest int) {
	served := []int{0} // slot in which unit i was served; unit 0 does not exist
	arrival := []int{0}
	before := int32(p.InitialReplicas)
	for i, n := range schedule {
		for range p.Arrivals[i] {
			arrival = append(arrival, i+1)
		}
		for range p.UnitsPerReplicaSlot * int64(n) {
			if len(served) < len(arrival) {
				served = append(served, i+1)
			}
		}
		cost += float64(n)*p.ReplicaSlotCost + float64(max(0, n-before))*p.StartCost
		before = n
	}
	list := p.Jobs
	if list == nil {
		for u := 1; u < len(arrival); u++ {
			list = append(list, Job{End: int64(u), Due: int32(arrival[u] + p.WaitSlots)})
		}
	}
	for _, j := range list {
		unserved := int(j.End) >= len(served)
		switch {
		case unserved && (!p.OpenEnd || int(j.Due) <= len(schedule)):
			late++
		case !unserved && served[j.End] > int(j.Due):
			late++
		}
	}
	return cost, late, len(list), len(arrival) - len(served)
}

func randomProblem(r *rand.Rand) Problem {
	p := Problem{
		Arrivals:            make([]int64, 1+r.IntN(6)),
		UnitsPerReplicaSlot: 1 + r.Int64N(4),
		MaxReplicas:         1 + r.IntN(3),
		ReplicaSlotCost:     []float64{1, 0.3, 7}[r.IntN(3)],
		WaitSlots:           r.IntN(3),
		OpenEnd:             r.IntN(3) == 0,
		ServeAll:            r.IntN(4) == 0,
	}
	p.StartCost = p.ReplicaSlotCost * []float64{0, 0.5, 1, 2, 3.3}[r.IntN(5)]
	p.InitialReplicas = r.IntN(p.MaxReplicas + 1)
	if r.IntN(3) == 0 {
		p.BootSlots = r.IntN(3)
	}
	if r.IntN(3) > 0 {
		p.LateShare = []float64{0.05, 0.1, 0.29, 0.5, 1}[r.IntN(5)]
	}
	most := p.UnitsPerReplicaSlot * int64(p.MaxReplicas)
	for i := range p.Arrivals {
		if r.IntN(4) > 0 {
			p.Arrivals[i] = r.Int64N(most + 1)
		}
	}
	if r.IntN(3) == 0 {
		p.Jobs = randomJobs(r, p)
	}
	return p
}

// randomJobs divides the work of each slot into jobs. Some jobs have no work. Each job is due some slots after its arrival.
func randomJobs(r *rand.Rand, p Problem) []Job {
	jobs, end, due := []Job{}, int64(0), int32(1)
	for i, a := range p.Arrivals {
		due = max(due, int32(i+1+p.WaitSlots+r.IntN(2)))
		for limit := end + a; end < limit || r.IntN(4) == 0; {
			end = min(limit, end+r.Int64N(3))
			jobs = append(jobs, Job{End: end, Due: due})
		}
	}
	return jobs
}

// TestIntervalContainsTheOptimum compares the interval of Solve with the optimum, which brute force over all schedules finds.
func TestIntervalContainsTheOptimum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var solved, infeasible, hard, met int
	worst := 1.0
	for range 10_000 {
		p := randomProblem(r)
		optimum := smallest(p)
		i, err := Solve(p, Options{Tolerance: 1e-12})
		if math.IsInf(optimum, 1) != errors.Is(err, ErrInfeasible) {
			t.Fatalf("%+v: brute force found %v, Solve returned %v", p, optimum, err)
		}
		if err != nil {
			infeasible++
			continue
		}
		solved++
		if near := 1e-6 * (1 + optimum); i.LB > optimum+near || i.UB < optimum-near {
			t.Fatalf("%+v: [%v, %v] misses the optimum %v", p, i.LB, i.UB, optimum)
		}
		c, err := Evaluate(p, i.Schedule)
		if err != nil || math.Abs(c.Total-i.UB) > 1e-9 || c.Late != i.Late || i.Late > i.Allowed {
			t.Fatalf("%+v: the schedule %v of UB costs %+v (%v), the interval has %+v", p, i.Schedule, c, err, i)
		}
		if cost, late, _, _ := byHand(p, i.Schedule); math.Abs(cost-c.Total) > 1e-9 || int64(late) != c.Late {
			t.Fatalf("%+v: schedule %v: want cost %v and %d late, Evaluate returned %+v", p, i.Schedule, cost, late, c)
		}
		if i.Allowed == 0 {
			hard++
			if math.Abs(i.LB-optimum) > 1e-6*(1+optimum) || math.Abs(i.UB-optimum) > 1e-6*(1+optimum) || !i.Exact {
				t.Fatalf("%+v: no job may be late, so [%v, %v] should be exactly %v", p, i.LB, i.UB, optimum)
			}
		}
		if i.UB <= optimum+1e-6*(1+optimum) {
			met++
		}
		if optimum > 0 {
			worst = max(worst, i.UB/optimum)
		}
	}
	if hard < 1000 || solved-hard < 1000 || infeasible < 100 {
		t.Fatalf("the instances are one-sided: %d hard, %d priced, %d infeasible", hard, solved-hard, infeasible)
	}
	t.Logf("%d solved (%d hard), %d infeasible; UB is the optimum in %d, at worst %.2f times it", solved, hard, infeasible, met, worst)
}
