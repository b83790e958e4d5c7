package judge

import (
	"context"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuscaler/gpuscaler/pkg/replay/bound"
	"github.com/gpuscaler/gpuscaler/pkg/replay/world"
)

// Progress is told what is being worked on, and how much of it is done, 0..1; from several goroutines.
type Progress func(what string, done float64)

// Judge runs the case. The report depends on nothing but the case: one case, the same bytes.
func Judge(ctx context.Context, c Case, told Progress) (*Report, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if told == nil {
		told = func(string, float64) {}
	}
	drawn, err := c.Traffic.Drawn(0) // once, rather than by every run
	if err != nil {
		return nil, err
	}
	kind := c.Traffic.Kind
	c.Traffic = drawn
	out := c.head()
	out.Traffic.Kind = string(kind)
	out.Runs = []Run{c.ours()}
	var seen certificate
	all, inner := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	runs := make([][]Run, 1+len(c.Rivals))
	if c.Bound {
		all.Go(func() (err error) {
			seen, err = c.certify(func(kind string, p bound.Progress) {
				told(kind, float64(p.Slot)/float64(max(1, p.Slots)))
			})
			return err
		})
	}
	all.Go(func() error { return c.fill(inner, &out.Runs[0], nil, told) })
	for i := range c.Rivals {
		all.Go(func() (err error) {
			runs[1+i], err = c.rival(inner, c.Rivals[i], told)
			return err
		})
	}
	if c.TuneOurs {
		all.Go(func() (err error) {
			runs[0], err = c.tuned(inner, told)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	for _, r := range runs {
		out.Runs = append(out.Runs, r...)
	}
	out.Bounds = seen.bounds
	for _, plan := range []struct {
		steps       []world.Step
		name, words string
	}{
		{seen.exact, "clairvoyant", "the schedule behind the fluid bound, carried out in this world: it knows the trace"},
		{seen.safe, "clairvoyant, careful", "a schedule in slots half as long, for a wait that is one such slot shorter, which real waits then keep; it knows the trace, not what spot takes"},
	} {
		if len(plan.steps) == 0 {
			continue
		}
		seer := Run{Name: plan.name, Variant: Clairvoyant, Words: plan.words}
		if err := c.fill(ctx, &seer, world.Planned(plan.steps), told); err != nil {
			return nil, err
		}
		out.Runs = append(out.Runs, seer)
	}
	out.compare()
	return out, nil
}

func (c *Case) ours() Run {
	return Run{Name: "gpuscaler", Variant: Ours, Words: "policy " + c.Policy.Workload.Key.String() + ", decided by the engine that runs in a cluster"}
}

// head is the report before any run.
func (c *Case) head() *Report {
	t := c.Traffic
	a := c.assumptions()
	out := &Report{
		Schema: Schema, Policy: c.Policy.Workload.Key.String(),
		Traffic: Traffic{Name: t.Name, Start: t.Start, Duration: t.Duration.Seconds()},
		SLO:     Objective{Share: c.SLO.Share, Wait: c.SLO.Wait.Seconds()}, Initial: c.initial(), ColdStart: c.ColdStart.Seconds(), Seed: c.Seed,
		Assumptions: append(a.List(), c.own()...),
	}
	for range t.All() {
		out.Traffic.Requests++
	}
	if c.Spot != nil {
		out.Traffic.Spot = c.Spot.Name
	}
	admission, warnings := c.admission()
	out.Admission, out.Warnings = &admission, warnings
	return out
}

// fill plays a run into a row that has its name already.
func (c *Case) fill(ctx context.Context, row *Run, maker world.Maker, told Progress) error {
	what := row.Name + " " + row.Variant
	r, err := c.run(ctx, maker, func(now time.Duration) { told(what, float64(now)/float64(c.horizon())) })
	if err != nil {
		return err
	}
	r.Name, r.Variant, r.Words, r.Settings, r.Tried = row.Name, row.Variant, row.Words, row.Settings, row.Tried
	*row = r
	told(what, 1)
	return nil
}

// rival runs a rival with its defaults and, where asked for, tuned.
func (c *Case) rival(ctx context.Context, r world.Rival, told Progress) ([]Run, error) {
	row := func(variant string, values []float64) (Run, error) {
		out := Run{Name: r.Name, Variant: variant, Words: r.Words}
		for i, k := range r.Knobs {
			out.Settings = append(out.Settings, Setting{k.Name, values[i]})
		}
		return out, c.fill(ctx, &out, r.Make(c.bounds(), values), told)
	}
	values := make([]float64, len(r.Knobs))
	for i, k := range r.Knobs {
		values[i] = k.Default
	}
	first, err := row(Default, values)
	if err != nil || !c.TuneRivals {
		return []Run{first}, err
	}
	told(r.Name+" tuning", 0)
	best, tried, err := c.tuneRival(ctx, r)
	if err != nil {
		return nil, err
	}
	second, err := row(Tuned, best.Settings)
	second.Tried = tried
	return []Run{first, second}, err
}

// tuned is the policy with the best settings on this traffic: what the rivals are granted.
func (c *Case) tuned(ctx context.Context, told Progress) ([]Run, error) {
	knobs := Knobs(c.Policy)
	s := c.SearchPolicy(knobs)
	told("gpuscaler tuning", 0)
	best, err := s.Climb(ctx, Values(knobs), Generous(knobs))
	if err != nil {
		return nil, err
	}
	out := c.ours()
	out.Variant, out.Tried = Tuned, len(s.order)
	for i := range knobs {
		out.Settings = append(out.Settings, Setting{knobs[i].Name, best.Settings[i]})
	}
	other := *c
	other.Policy = With(c.Policy, knobs, best.Settings)
	err = other.fill(ctx, &out, nil, told)
	return []Run{out}, err
}

// compare sets the runs beside the bounds and names the cheapest that meets the SLO.
func (r *Report) compare() {
	fluid, loose := r.Bound(FluidBound), r.Bound(RequestBound)
	var best *Run
	for i := range r.Runs {
		run := &r.Runs[i]
		if !run.MeetsSLO {
			continue
		}
		run.CostOverFluid, run.CostOverRequest = over(run.Cost, fluid), over(run.Cost, loose)
		if run.Variant != Clairvoyant && (best == nil || run.Cost < best.Cost) {
			best = run
		}
	}
	if best != nil {
		r.Cheapest = best.Title()
	}
}

func over(cost float64, b *Bound) *float64 {
	if b == nil || !(b.Lower > 0) {
		return nil
	}
	ratio := cost / b.Lower
	return &ratio
}

// own is what the case takes for granted besides the world.
func (c *Case) own() []world.Assumption {
	s := &c.Service
	service := "fixed " + s.Fixed.String()
	if s.Fixed <= 0 {
		service = s.Base.String() + " + " + s.Prefill.String() + " an input token + " + s.Decode.String() + " an output token"
	}
	money := func(v float64) string { return "$" + number(v) + " an hour" }
	out := []world.Assumption{
		{Name: "service time", Value: service, Source: "an 8B model on one mid-size GPU, unless flags say otherwise"},
		{Name: "slots", Value: number(float64(max(1, s.Slots))) + " requests at once", Source: "as above"},
		{Name: "GPUs per replica", Value: number(float64(max(1, c.GPUs))), Source: "the case"},
		{Name: "GPU on demand", Value: money(c.Hourly), Source: "g6e.xlarge (L40S), us-east-1, 2026-07, unless flags say otherwise"},
		{Name: "start", Value: number(float64(c.initial())) + " replicas ready, in every run and for the bound", Source: "the first ten minutes' need, unless flags say otherwise"},
		{Name: "end", Value: "runs stop with the traffic; a request that waits then counts as late if it is late already", Source: "the case"},
		{Name: "tuned rivals", Value: "searched on this very traffic", Source: "flatters the rivals"},
	}
	if c.Spot != nil {
		out = append(out,
			world.Assumption{Name: "spot GPU", Value: money(c.SpotHourly), Source: "Spot Advisor's savings, unless flags say otherwise"},
			world.Assumption{Name: "bounds", Value: "every GPU at the lowest price, all the time, with the shortest cold start", Source: "the bound knows one kind of capacity"})
	}
	return out
}
