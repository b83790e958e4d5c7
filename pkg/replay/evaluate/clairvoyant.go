package evaluate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/lowerbound"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
)

// requests returns the requests of the report part in the form that the lower bounds use. Their times are relative to the start of the
// report part.
func (c *Case) requests() (out []lowerbound.Request) {
	slots, from := time.Duration(max(1, c.Service.Slots)), c.reportFrom()
	for r := range c.reported() {
		takes := c.Service.Takes(r)
		out = append(out, lowerbound.Request{At: r.At - from, Work: takes / slots, Service: takes})
	}
	return out
}

// maxSlots limits the slots of the request-level bound. A short cold start needs short slots, and several days of short slots
// take too long to solve.
const maxSlots = 50_000

// setup returns the parameters of the fluid bound; fineSetup derives the parameters of the request-level bound from them. A slot is ten
// seconds. If requests may wait for at least 20 minutes, a slot is up to a minute, but at most a 60th of the wait.
//
// If there is a train part, the replicas at the start of the report part were paid for in the train part, and their number differs between
// runs. The bounds must be valid for every number. They therefore begin with maxReplicas replicas, and a schedule can stop any of these
// immediately without cost.
func (c *Case) setup() lowerbound.Setup {
	slot, horizon, initial := slotLength, c.Horizon()-c.reportFrom(), c.initial()
	for _, longer := range []time.Duration{2 * slotLength, 3 * slotLength, time.Minute} {
		if longer <= c.SLO.Wait/60 && horizon%longer == 0 {
			slot = longer
		}
	}
	if c.HeldOut > 0 {
		initial = c.limits().MaxReplicas
	}
	return lowerbound.Setup{
		TimeSlot: slot, Horizon: horizon, ColdStart: c.leastColdStart(), Wait: c.SLO.Wait, LateShare: 1 - c.SLO.Share,
		MaxReplicas: int(c.limits().MaxReplicas), InitialReplicas: int(initial), HourlyPrice: c.leastHourly(),
	}
}

// fineSetup returns the parameters of the request-level bound. That bound subtracts two slots from the cold start, so the cold start must
// be at least two slots long. fineSetup shortens the slots for this, to at least one second. It returns an error if there are then more
// than maxSlots slots.
func fineSetup(s lowerbound.Setup) (lowerbound.Setup, error) {
	for _, finer := range []time.Duration{slotLength, 5 * time.Second, 2 * time.Second, time.Second} {
		if s.ColdStart < 2*s.TimeSlot {
			s.TimeSlot = finer
		}
	}
	if s.Horizon/s.TimeSlot > maxSlots {
		return s, fmt.Errorf("the shortest cold start of %s needs slots of %s, and %s has more than %d of them: "+
			"use a fixed cold start (--cold-start 2m) or less traffic", s.ColdStart, s.TimeSlot, s.Horizon, maxSlots)
	}
	s.MaxReplicas *= 2 // draining replicas count in addition to the desired replicas
	return s, nil
}

// certificate contains the lower bounds of one workload and the schedules of the clairvoyant runs. All of them are computed with knowledge
// of the whole traffic. The bounds use the shortest possible cold start, so that they are valid for every run. The schedules use the
// typical cold start on a new node, because with the shortest cold start the simulated replicas are ready minutes later than planned.
type certificate struct {
	bounds []Bound
	exact  []baseline.Step // schedule of the fluid bound, computed for the typical cold start
	// safe is a stricter schedule. Its slots are half as long as in exact, and its maximum wait is one of these slots shorter than the wait of
	// the SLO. If a request waits one slot longer in the simulator than in the schedule, it is still on time.
	safe []baseline.Step
}

// boundProgress contains the context of the computation of a bound, and the function that is called with its progress.
type boundProgress struct {
	ctx    context.Context
	report func(kind string, p lowerbound.Progress)
}

func (t boundProgress) options(kind string) lowerbound.Options {
	return lowerbound.Options{Context: t.ctx, Progress: func(p lowerbound.Progress) { t.report(kind, p) }}
}

// certify computes the fluid bound, the request-level bound and the schedules of the clairvoyant runs.
func (c *Case) certify(progress boundProgress) (out certificate, err error) {
	requests, s := c.requests(), c.setup()
	fluid, exact, err := fluidBound(requests, s, progress)
	if err != nil {
		return out, err
	}
	usual := s
	if usual.ColdStart = c.typicalColdStart(); usual.ColdStart != s.ColdStart {
		if _, exact, err = fluidBound(requests, usual, progress); err != nil {
			return out, err
		}
	}
	if out.exact, err = c.planOf(exact, usual, progress); err != nil {
		return out, err
	}
	careful := usual
	if careful.TimeSlot /= 2; s.Wait >= careful.TimeSlot && careful.TimeSlot >= time.Second {
		careful.Wait -= careful.TimeSlot
		_, safe, err := fluidBound(requests, careful, progress)
		if err != nil {
			return out, err
		}
		if out.safe, err = c.planOf(safe, careful, progress); err != nil {
			return out, err
		}
	}
	loose, err := requestBound(requests, s, progress)
	if err != nil {
		return out, err
	}
	out.bounds = []Bound{fluid, loose}
	for i := range out.bounds {
		b := &out.bounds[i]
		if b.empty(len(requests), s.Wait); c.HeldOut > 0 && b.Problem == "" {
			b.Relaxations = append(b.Relaxations, freeStart)
		}
	}
	return out, nil
}

// freeStart is the relaxation that is reported if the bound covers a report part after a train part.
const freeStart = "the report part begins with any number of ready replicas up to maxReplicas, and with an empty queue"

// planOf returns the plan of desired replicas for a schedule of ready replicas in the report part. The train part has no results, so in
// this part the plan follows the schedule with the least cost. If no schedule meets the SLO in the train part, the plan has maxReplicas
// during that part.
func (c *Case) planOf(ready []baseline.Step, s lowerbound.Setup, progress boundProgress) ([]baseline.Step, error) {
	if c.HeldOut == 0 || len(ready) == 0 {
		return planOf(ready, s.ColdStart), nil
	}
	train := c.trainPart()
	part := train.setup()
	part.TimeSlot, part.Wait, part.ColdStart = s.TimeSlot, s.Wait, s.ColdStart
	_, steps, err := fluidBound(train.requests(), part, progress)
	if err != nil {
		return nil, err
	}
	if len(steps) == 0 {
		steps = []baseline.Step{{Replicas: c.limits().MaxReplicas}}
	}
	for _, step := range ready {
		steps = append(steps, baseline.Step{At: c.reportFrom() + step.At, Replicas: step.Replicas})
	}
	return planOf(steps, s.ColdStart), nil
}

// empty sets the Problem of a bound of $0 and clears its values, because readers would take $0 for a result. It does not change other
// bounds.
func (b *Bound) empty(requests int, wait time.Duration) {
	if b.Problem != "" || b.Lower > 0 {
		return
	}
	why := fmt.Sprintf("no request must be served before the end: at most the allowed number of late requests is due by then, "+
		"because each may wait %s", wait)
	if requests == 0 {
		why = "the traffic has no requests"
	}
	*b = Bound{Kind: b.Kind, TimeSlot: b.TimeSlot, Problem: why, nothing: true}
}

// fluidBound returns the fluid bound and the ready replicas in each slot of its schedule.
func fluidBound(requests []lowerbound.Request, s lowerbound.Setup, progress boundProgress) (Bound, []baseline.Step, error) {
	out := Bound{Kind: FluidBound, TimeSlot: s.TimeSlot.Seconds()}
	p, err := lowerbound.Fluid(requests, s)
	if err != nil {
		out.Problem = err.Error()
		return out, nil, nil
	}
	steps, err := out.solve(p, progress.options("fluid bound"))
	return out, steps, err
}

// LeastCost returns the request-level bound of a case: no first-in-first-out run that meets the SLO costs less, with any autoscaler. Of the
// policy it uses only maxReplicas and, with AutoInitial, minReplicas. If no schedule meets the SLO, the bound has a Problem.
func LeastCost(ctx context.Context, c Case, progress Progress) (Bound, error) {
	if progress == nil {
		progress = func(string, float64) {}
	}
	t, err := gather([]Case{c})
	if err != nil {
		return Bound{}, err
	}
	requests := t[0].requests()
	out, err := requestBound(requests, t[0].setup(), boundProgress{ctx, func(kind string, p lowerbound.Progress) {
		progress(kind, float64(p.TimeSlot)/float64(max(1, p.TimeSlots)))
	}})
	out.empty(len(requests), c.SLO.Wait)
	return out, err
}

// requestBound returns the highest of several valid lower bounds: the bound of lowerbound.Work, and for each cut of lowerbound.Cuts the
// bound of lowerbound.RequestLevel. If there are more than maxSlots slots, it returns the bound of lowerbound.Work and adds a note to
// its relaxations.
func requestBound(requests []lowerbound.Request, s lowerbound.Setup, progress boundProgress) (Bound, error) {
	loose := Bound{Kind: RequestBound, TimeSlot: s.TimeSlot.Seconds()}
	work, err := lowerbound.Work(requests, s)
	if err != nil {
		loose.Problem = err.Error()
		return loose, nil
	}
	loose.setInterval(&work)
	s, err = fineSetup(s)
	if err != nil {
		loose.Relaxations = append(loose.Relaxations, "the bound that includes starts was not computed: "+err.Error())
		return loose, nil
	}
	loose.TimeSlot = s.TimeSlot.Seconds()
	for _, cut := range lowerbound.Cuts(requests) {
		p, err := lowerbound.RequestLevel(requests, s, cut)
		if err != nil {
			loose.Relaxations = append(loose.Relaxations, "the bound that includes starts is not available: "+err.Error())
			break
		}
		next := Bound{Kind: RequestBound, TimeSlot: s.TimeSlot.Seconds()}
		if _, err := next.solve(p, progress.options("request-level bound")); err != nil {
			return loose, err
		}
		if next.Problem != "" { // the relaxed problem has no solution, so the real problem has none either
			return next, nil
		}
		if next.Lower >= loose.Lower {
			loose = next
		}
	}
	return loose, nil
}

// setInterval copies the result of a solver into the bound.
func (b *Bound) setInterval(i *lowerbound.Interval) {
	b.Lower, b.Upper, b.Gap, b.Exact, b.Late, b.Allowed, b.Relaxations = i.LB, i.UB, i.Gap(), i.Exact, i.Late, i.Allowed, i.Relaxations
}

// solve computes the bound. An infeasible SLO is a result, not an error.
func (b *Bound) solve(p lowerbound.Problem, o lowerbound.Options) ([]baseline.Step, error) {
	i, err := lowerbound.Solve(p, o)
	if errors.Is(err, lowerbound.ErrInfeasible) {
		b.Problem = fmt.Sprintf("no schedule of at most %d replicas meets the SLO, even with the whole traffic known", p.MaxReplicas)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b.setInterval(&i)
	var steps []baseline.Step
	for t, n := range i.Schedule {
		steps = append(steps, baseline.Step{At: time.Duration(t) * p.TimeSlot, Replicas: n})
	}
	return steps, nil
}

// planOf converts a schedule of ready replicas into a plan of desired replicas: each replica is requested one cold start before the time at
// which the schedule needs it.
func planOf(ready []baseline.Step, cold time.Duration) []baseline.Step {
	if len(ready) == 0 {
		return nil
	}
	instants := []time.Duration{0}
	for _, s := range ready {
		instants = append(instants, s.At, max(0, s.At-cold))
	}
	slices.Sort(instants)
	var plan []baseline.Step
	for _, at := range slices.Compact(instants) {
		wish := int32(0)
		for i, s := range ready {
			ends := i+1 < len(ready) && ready[i+1].At <= at
			if !ends && s.At <= at+cold {
				wish = max(wish, s.Replicas)
			}
			if s.At > at+cold {
				break
			}
		}
		if len(plan) == 0 || plan[len(plan)-1].Replicas != wish {
			plan = append(plan, baseline.Step{At: at, Replicas: wish})
		}
	}
	return plan
}
