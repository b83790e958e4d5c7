package lowerbound

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// plan is the lifetime of one replica. The replica is ready one cold start after its launch; a warm replica is ready at time 0. It accepts
// requests until it is stopped, and is paid for until its last request ends.
type plan struct {
	launch, stop float64
	warm         bool
}

// fifo is a system of requests in continuous time without slots: one FIFO queue and replicas with `lanes` concurrent requests each. All
// times are in seconds.
type fifo struct {
	requests                   []call
	lanes, most                int
	cold, wait, share, horizon float64
	finish                     bool // every request must be served before the horizon
}

type call struct{ at, service float64 }

// run returns the paid replica seconds, and whether the run kept the SLO and the maximum number of replicas. A request that has not started
// at the end of the run counts as late only if its allowed wait is over by then.
func (f fifo) run(plans []plan) (paid float64, kept bool) {
	type lane struct{ free, stop float64 }
	var lanes []lane
	end := make([]float64, len(plans))
	for i, p := range plans {
		ready := p.launch + f.cold
		if p.warm {
			ready = 0
		}
		end[i] = p.stop
		for range f.lanes {
			lanes = append(lanes, lane{ready, p.stop})
		}
	}
	late, now, last := 0, 0.0, 0.0
	for _, r := range f.requests {
		best, at := -1, math.Inf(1)
		for i, l := range lanes {
			if start := max(r.at, now, l.free); start < l.stop && start < at {
				best, at = i, start
			}
		}
		if at > r.at+f.wait && r.at+f.wait < f.horizon {
			late++
		}
		if best < 0 {
			now, last = math.Inf(1), math.Inf(1) // no further request starts
			continue
		}
		now = at
		lanes[best].free = at + r.service
		last = max(last, at+r.service)
		end[best/f.lanes] = max(end[best/f.lanes], at+r.service)
	}
	for i, p := range plans {
		paid += max(0, min(end[i], f.horizon)-p.launch)
		alive := 0
		for k, other := range plans {
			if other.launch <= p.launch && p.launch < end[k] {
				alive++
			}
		}
		if alive > f.most {
			return paid, false
		}
	}
	return paid, !(f.finish && last > f.horizon) && float64(late) <= f.share*float64(len(f.requests))+1e-9
}

// search makes small random changes to the plans. It keeps a change if the SLO is still met at the same or a lower cost. It returns the
// lowest cost, or +Inf if the given plans miss the SLO.
func (f fifo) search(r *rand.Rand, plans []plan, tries int) float64 {
	best, kept := f.run(plans)
	if !kept {
		return math.Inf(1)
	}
	for range tries {
		next := slices.Clone(plans)
		for range 1 + r.IntN(2) {
			next = change(r, next, f)
		}
		if paid, kept := f.run(next); kept && paid <= best {
			plans, best = next, paid
		}
	}
	return best
}

func change(r *rand.Rand, plans []plan, f fifo) []plan {
	if len(plans) == 0 {
		return plans
	}
	i := r.IntN(len(plans))
	p := &plans[i]
	step := r.NormFloat64() * []float64{0.5, 5, 40}[r.IntN(3)]
	switch r.IntN(5) {
	case 0:
		p.stop = min(max(p.launch, p.stop+step), f.horizon)
	case 1:
		if !p.warm {
			p.launch = min(max(0, p.launch+step), p.stop)
		}
	case 2:
		p.stop = max(p.launch, p.stop-math.Abs(step))
	case 3: // replace the replica by two replicas, with a pause between them
		middle := p.launch + r.Float64()*(p.stop-p.launch)
		again := plan{launch: min(middle+math.Abs(step), p.stop), stop: p.stop}
		p.stop = middle
		plans = append(plans, again)
	case 4:
		if !p.warm {
			plans = slices.Delete(plans, i, i+1)
		}
	}
	return plans
}

// fromSchedule converts a schedule of slots to the lifetimes of replicas. The replica that started last stops first.
func (f fifo) fromSchedule(schedule []int32, warm int, slot float64) []plan {
	var plans, on []plan
	for range warm {
		on = append(on, plan{warm: true})
	}
	for i, n := range schedule {
		at := float64(i) * slot
		for len(on) > int(n) {
			last := on[len(on)-1]
			last.stop = at
			plans, on = append(plans, last), on[:len(on)-1]
		}
		for len(on) < int(n) {
			on = append(on, plan{launch: max(0, at-f.cold)})
		}
	}
	for _, p := range on {
		p.stop = f.horizon
		plans = append(plans, p)
	}
	return plans
}

func randomSystem(r *rand.Rand) (fifo, Setup, []Request) {
	slot := []float64{2, 5, 10}[r.IntN(3)]
	f := fifo{
		lanes: 1 + r.IntN(4), most: 1 + r.IntN(4), cold: slot * (2 + 4*r.Float64()), wait: 15 * r.Float64(),
		share: []float64{0, 0.02, 0.1}[r.IntN(3)], horizon: slot * float64(20+r.IntN(30)),
	}
	mean := 0.5 + 10*r.Float64()
	rate := float64(f.lanes*f.most) / mean * (0.2 + 0.6*r.Float64())
	quiet := r.IntN(2) == 0
	f.finish = r.IntN(2) == 0
	until := f.horizon
	if f.finish {
		until *= 0.8
	}
	for at := r.ExpFloat64() / rate; at < until && len(f.requests) < 400; at += r.ExpFloat64() / rate {
		if quiet && at > f.horizon/3 && at < f.horizon/2 {
			at = f.horizon / 2
		}
		service := mean * (0.5 + r.Float64())
		if r.IntN(20) == 0 {
			service *= 3
		}
		f.requests = append(f.requests, call{at, service})
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * 1e9) }
	var requests []Request
	for i := range f.requests {
		c := &f.requests[i]
		at, service := seconds(c.at), seconds(c.service)
		c.at, c.service = at.Seconds(), service.Seconds()
		requests = append(requests, Request{At: at, Work: service / time.Duration(f.lanes), Service: service})
	}
	return f, Setup{
		TimeSlot: seconds(slot), Horizon: seconds(f.horizon), ColdStart: seconds(f.cold), Wait: seconds(f.wait), LateShare: f.share,
		MaxReplicas: f.most, InitialReplicas: 1 + r.IntN(f.most), HourlyPrice: 3600, ServeAll: f.finish,
	}, requests
}

// cheapest returns the cost of the cheapest run that a random search finds, and the highest lower bound over all cuts. RequestLevel
// documents the cut.
func cheapest(t *testing.T, r *rand.Rand, f fifo, setup Setup, requests []Request) (best, bound float64) {
	slot := setup.TimeSlot.Seconds()
	best = math.Inf(1)
	for _, cut := range append(Cuts(requests), setup.TimeSlot) {
		p, err := RequestLevel(requests, setup, cut)
		if err != nil {
			t.Fatal(err)
		}
		i, err := Solve(p, Options{})
		if errors.Is(err, ErrInfeasible) {
			i.LB = math.Inf(1)
		} else if err != nil {
			t.Fatal(err)
		} else if best > 1e9 {
			best = min(best, f.search(r, f.fromSchedule(i.Schedule, setup.InitialReplicas, slot), 200))
		}
		bound = max(bound, i.LB)
	}
	work, err := Work(requests, setup)
	if err != nil {
		t.Fatal(err)
	}
	bound = max(bound, work.LB)
	always := make([]int32, int(math.Round(f.horizon/slot)))
	for i := range always {
		always[i] = int32(f.most)
	}
	best = min(best, f.search(r, f.fromSchedule(always, setup.InitialReplicas, slot), 400))
	return best, bound
}

// TestNoFIFORunIsCheaperThanTheBound searches for cheap runs that meet the SLO. It compares the cheapest one with the highest lower bound
// over all values of the parameter cut of RequestLevel. It also checks that the search finds runs that are cheap enough for this
// comparison: some must cost less than bounds that are invalid because they omit a relaxation.
func TestNoFIFORunIsCheaperThanTheBound(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	trials, sum := 0, 0.0
	forgot := map[string]int{}
	beaten := func(relaxation string, build func() (Problem, error), best float64) {
		p, err := build()
		if err != nil {
			t.Fatal(err)
		}
		if i, err := Solve(p, Options{}); err == nil && i.LB > best+1e-6 {
			forgot[relaxation]++
		}
	}
	for range 300 {
		f, setup, requests := randomSystem(r)
		best, bound := cheapest(t, r, f, setup, requests)
		if math.IsInf(best, 1) {
			continue
		}
		trials++
		sum += best / max(bound, 1e-9)
		if best < bound-1e-6 {
			t.Fatalf("a run costs %v, less than the lower bound %v: %+v %+v", best, bound, f, setup)
		}
		beaten("the slot per warm replica", func() (Problem, error) {
			p, err := RequestLevel(requests, setup, 0)
			p.Rebate = 0
			return p, err
		}, best)
		beaten("the service after the wait", func() (Problem, error) { return Fluid(requests, setup) }, best)
	}
	t.Logf("%d trials; the cheapest run found costs on average %.2f times the bound; bounds that forget a relaxation are beaten in: %v",
		trials, sum/float64(trials), forgot)
	if len(forgot) < 2 {
		t.Errorf("the search is too weak to show anything: bounds that forget a relaxation are beaten in %v", forgot)
	}
	if trials < 150 {
		t.Errorf("only %d trials had a run that keeps the SLO", trials)
	}
}
