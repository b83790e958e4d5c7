package lowerbound

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"
)

// Job is the unit in which lateness is counted, for example a request. A job is on time if all of its work is served by the slot Due.
type Job struct {
	End int64 // the work of this job and of all jobs before it, in units
	Due int32 // the slot, counted from 1, at the end of which the job must be served; can be after the last slot
}

// Problem is one instance of the fluid slot model (see the package documentation for the formulas).
type Problem struct {
	TimeSlot            time.Duration // length of a slot, for reports
	Arrivals            []int64       // units of work in each slot, >= 0
	UnitsPerReplicaSlot int64         // g: units that one ready replica serves in a slot, >= 1
	MaxReplicas         int           // N >= 1: maximum number of ready replicas
	// n_0: number of replicas that are ready at the beginning, without a start cost; the runs that the bound is compared with must begin with
	// the same number
	InitialReplicas int
	ReplicaSlotCost float64 // c > 0: price of a ready replica for a slot, in any currency
	// beta >= 0: price of a start, in the same currency: ReplicaSlotCost for each slot of the cold start, plus a fee
	StartCost float64
	// a unit that arrives in slot t is due in slot t + WaitSlots; if Jobs is set, WaitSlots only determines the size of the tables
	WaitSlots int
	BootSlots int     // no replica can become ready in the slots from 1 to BootSlots
	LateShare float64 // eps = 1 - SLO, 0..1: share of the jobs that may be late, rounded down to whole jobs
	Jobs      []Job   // in the order of service; nil: every unit is a job
	OpenEnd   bool    // work due after the last slot is never late; otherwise all work that is not served at the end is late
	// all work must be served by the end of the last slot; set if the compared runs continue until the queue is empty
	ServeAll    bool
	Rebate      float64  // subtracted from LB and UB; RequestLevel uses it for warm replicas
	Relaxations []string // relaxations of this problem, one sentence each, for reports
}

// ErrInfeasible is returned if more jobs are late than the SLO allows, even with MaxReplicas in every slot.
var ErrInfeasible = errors.New("no schedule meets the SLO")

// maxUnits is the maximum number of units, and of jobs. The product of such a number and an amount of money fits in an int64.
const maxUnits = 1 << 40

func (p *Problem) validate() error {
	switch {
	case p.UnitsPerReplicaSlot < 1 || p.UnitsPerReplicaSlot > maxUnits:
		return fmt.Errorf("bound: units per replica and slot must be 1..2^40, not %d", p.UnitsPerReplicaSlot)
	case p.MaxReplicas < 1 || p.MaxReplicas > 1<<20:
		return fmt.Errorf("bound: max replicas must be 1..2^20, not %d", p.MaxReplicas)
	case p.InitialReplicas < 0 || p.InitialReplicas > p.MaxReplicas:
		return fmt.Errorf("bound: initial replicas must be 0..%d, not %d", p.MaxReplicas, p.InitialReplicas)
	case !(p.ReplicaSlotCost > 0) || math.IsInf(p.ReplicaSlotCost, 0):
		return fmt.Errorf("bound: a replica slot must cost more than nothing, not %v", p.ReplicaSlotCost)
	case !(p.StartCost >= 0) || math.IsInf(p.StartCost, 0):
		return fmt.Errorf("bound: start cost must be at least 0, not %v", p.StartCost)
	case !(p.LateShare >= 0 && p.LateShare <= 1):
		return fmt.Errorf("bound: late share must be 0..1, not %v", p.LateShare)
	case !(p.Rebate >= 0) || math.IsInf(p.Rebate, 0):
		return fmt.Errorf("bound: rebate must be at least 0, not %v", p.Rebate)
	case p.WaitSlots < 0 || p.BootSlots < 0 || max(p.WaitSlots, p.BootSlots) > 1<<30:
		return fmt.Errorf("bound: wait (%d) and boot (%d) slots must be 0..2^30", p.WaitSlots, p.BootSlots)
	case len(p.Arrivals) == 0 || len(p.Arrivals) > 1<<24:
		return fmt.Errorf("bound: a problem has 1..2^24 slots, not %d", len(p.Arrivals))
	}
	return nil
}

// timeline contains, for each slot, the work that arrived and the jobs that were due since the beginning. Index 0 is the time before slot
// 1.
type timeline struct {
	slots   int
	arrived []int64 // A_t: units of work that arrive until the end of slot t
	due     []int64 // jobs due by the end of slot t
	jobs    int64   // M: number of jobs
	allowed int64   // floor(eps M): number of jobs that may be late
	list    []Job   // nil: every unit is a job, and job i ends at unit i
}

func newTimeline(p *Problem) (*timeline, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	slots := len(p.Arrivals)
	tl := &timeline{slots: slots, arrived: make([]int64, slots+1), due: make([]int64, slots+1), list: p.Jobs}
	for i, a := range p.Arrivals {
		if a < 0 || a > maxUnits-tl.arrived[i] {
			return nil, fmt.Errorf("bound: slot %d: %d units arrive; the sum must stay within 0..2^40", i+1, a)
		}
		tl.arrived[i+1] = tl.arrived[i] + a
	}
	if p.Jobs == nil {
		tl.jobs = tl.arrived[slots]
		for t := p.WaitSlots + 1; t <= slots; t++ {
			tl.due[t] = tl.arrived[t-p.WaitSlots]
		}
	} else if err := tl.countJobs(p.Jobs); err != nil {
		return nil, err
	}
	if !p.OpenEnd {
		tl.due[slots] = tl.jobs
	}
	tl.allowed = allowed(p.LateShare, tl.jobs)
	return tl, nil
}

// allowed returns how many of the jobs may be late. It corrects the rounding of floating-point products: 0.29 * 100 is 28.999999999999996,
// but 29 jobs may be late.
func allowed(lateShare float64, jobs int64) int64 {
	share := lateShare * float64(jobs)
	return min(int64(share+share*1e-12+1e-9), jobs)
}

func (tl *timeline) countJobs(jobs []Job) error {
	tl.jobs = int64(len(jobs))
	before := Job{Due: 1}
	for i, j := range jobs {
		if j.End < before.End || j.Due < before.Due || j.End > tl.arrived[tl.slots] {
			return fmt.Errorf("bound: job %d (end %d, due %d) breaks the order of service or ends beyond the last unit", i, j.End, j.Due)
		}
		before = j
		if int(j.Due) <= tl.slots {
			tl.due[j.Due]++
		}
	}
	for t := 1; t <= tl.slots; t++ {
		tl.due[t] += tl.due[t-1]
	}
	return nil
}

// end returns the number of units of work that the first `jobs` jobs have together.
func (tl *timeline) end(jobs int64) int64 {
	if tl.list == nil || jobs == 0 {
		return jobs
	}
	return tl.list[jobs-1].End
}

// late returns how many of the jobs that are due in slot t are late if only the first `served` units of work are served by the end of that
// slot.
func (tl *timeline) late(t int, served int64) int64 {
	from, to := tl.due[t-1], tl.due[t]
	if tl.list == nil {
		return max(0, min(to-from, to-served))
	}
	list := tl.list[from:to]
	return int64(len(list) - sort.Search(len(list), func(i int) bool { return list[i].End > served }))
}

// lateRow sets row[q] to late(t, A_t - q), the number of late jobs if slot t ends with a backlog of q.
func (tl *timeline) lateRow(t int, row []int64) {
	clear(row)
	from, to, total := tl.due[t-1], tl.due[t], tl.arrived[t]
	if tl.list == nil {
		for q := max(0, total-to+1); q < int64(len(row)); q++ {
			row[q] = min(to-from, to-total+q)
		}
		return
	}
	for _, j := range tl.list[from:to] {
		if q := max(0, total-j.End+1); q < int64(len(row)) {
			row[q]++
		}
	}
	for q := 1; q < len(row); q++ {
		row[q] += row[q-1]
	}
}
