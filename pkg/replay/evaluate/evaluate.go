package evaluate

import (
	"context"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuscaler/gpuscaler/pkg/replay/lowerbound"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
)

// Progress is told what is being worked on, and how much of it is done, 0..1; from several goroutines.
type Progress func(what string, done float64)

// Judge runs the case. The report depends on nothing but the case: one case, the same bytes.
func Judge(ctx context.Context, c Case, told Progress) (*Report, error) {
	return Together(ctx, []Case{c}, told)
}

// Together runs several workloads in one world, each judged by its own SLO. Their bounds add up to one that holds for all of them: no
// workload's replica serves another's requests. Rivals move all workloads; a tuned one was tuned to each workload on its own.
func Together(ctx context.Context, cases []Case, told Progress) (*Report, error) {
	if told == nil {
		told = func(string, float64) {}
	}
	t, err := gather(cases)
	if err != nil {
		return nil, err
	}
	out := t.head()
	c := &t[0]
	first := t.named()
	seen := make([]certificate, len(t))
	runs := make([][]Run, 2+len(c.Rivals))
	all, inner := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	if c.Bound {
		for i := range t {
			all.Go(func() (err error) {
				seen[i], err = t[i].certify(teller{inner, func(kind string, p lowerbound.Progress) {
					told(kind, float64(p.Slot)/float64(max(1, p.Slots)))
				}})
				return err
			})
		}
	}
	all.Go(func() error { return t.fill(inner, &first, t.ours(), told) })
	all.Go(func() (err error) {
		runs[1], err = t.standing(inner, told)
		return err
	})
	for i := range c.Rivals {
		all.Go(func() (err error) {
			runs[2+i], err = t.rival(inner, c.Rivals[i], told)
			return err
		})
	}
	if c.TuneOurs {
		all.Go(func() (err error) {
			runs[0], err = t.tuned(inner, told)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	out.Runs = append([]Run{first}, slices.Concat(runs...)...)
	out.certified(seen)
	seers, err := t.clairvoyant(ctx, seen, told)
	out.Runs = append(out.Runs, seers...)
	out.compare()
	return out, err
}

// named is the policies' own row, before it ran.
func (t trial) named() Run {
	words := "policy " + t[0].Policy.Workload.Key.String()
	if len(t) > 1 {
		words = "each workload's policy"
	}
	return Run{Name: "gpuscaler", Variant: Ours, Words: words + ", decided by the engine that runs in a cluster"}
}

// fill plays a run into a row that has its name already, and its settings.
func (t trial) fill(ctx context.Context, row *Run, by makers, told Progress) error {
	what := row.Name + " " + row.Variant
	r, err := t.run(ctx, by, func(now time.Duration) { told(what, float64(now)/float64(t[0].horizon())) })
	if err != nil {
		return err
	}
	r.Name, r.Variant, r.Words = row.Name, row.Variant, row.Words
	*row = r
	told(what, 1)
	return nil
}

// set keeps what a run's workloads were set to.
func (r *Run) set(names []string, settings []Tried, tried []int) {
	for i, l := range r.Loads() {
		for k, name := range names {
			l.Settings = append(l.Settings, Setting{name, settings[i].Settings[k]})
		}
		l.Tried = tried[i]
	}
}

// standing is the run of the fleets that the cases name; nothing where none is named.
func (t trial) standing(ctx context.Context, told Progress) ([]Run, error) {
	by, fleet := t.ours(), slices.Clone(t)
	for i := range t {
		if t[i].Static == 0 {
			return nil, nil
		}
		by[i], fleet[i].Initial = simulator.Static(t[i].Static), t[i].Static
	}
	out := Run{Name: StaticFleet, Variant: Default, Words: "the replicas that would stand all the time where nobody scales, as the scenario says"}
	return []Run{out}, fleet.fill(ctx, &out, by, told)
}

// rival runs a rival with its defaults and, where asked for, tuned to each workload on its own.
func (t trial) rival(ctx context.Context, r simulator.Rival, told Progress) ([]Run, error) {
	var names []string
	defaults := Tried{}
	for _, k := range r.Knobs {
		names, defaults.Settings = append(names, k.Name), append(defaults.Settings, k.Default)
	}
	row := func(variant string, settings []Tried, tried []int) (Run, error) {
		out, by := Run{Name: r.Name, Variant: variant, Words: r.Words}, t.ours()
		for i := range t {
			by[i] = r.Make(t[i].bounds(), settings[i].Settings)
		}
		err := t.fill(ctx, &out, by, told)
		out.set(names, settings, tried)
		return out, err
	}
	settings, tried := slices.Repeat([]Tried{defaults}, len(t)), make([]int, len(t))
	first, err := row(Default, settings, tried)
	if err != nil || !t[0].TuneRivals {
		return []Run{first}, err
	}
	tuning := tellTuning(r.Name, told)
	for i := range t {
		if settings[i], tried[i], err = t[i].tuneRival(ctx, r, tuning); err != nil {
			return nil, err
		}
	}
	second, err := row(Tuned, settings, tried)
	return []Run{first, second}, err
}

// tuned is each policy with the best settings on its traffic: what the rivals are granted.
func (t trial) tuned(ctx context.Context, told Progress) ([]Run, error) {
	other, out := slices.Clone(t), t.named()
	out.Variant = Tuned
	tuning := tellTuning(out.Name, told)
	found := make([]Load, len(t))
	for i := range t {
		knobs := Knobs(t[i].Policy)
		s := t[i].SearchPolicy(knobs)
		s.Told = tuning
		best, err := s.Climb(ctx, Values(knobs), Generous(knobs))
		if err != nil {
			return nil, err
		}
		for k := range knobs {
			found[i].Settings = append(found[i].Settings, Setting{knobs[k].Name, best.Settings[k]})
		}
		found[i].Tried = len(s.order)
		other[i].Policy = With(t[i].Policy, knobs, best.Settings)
	}
	err := other.fill(ctx, &out, other.ours(), told)
	for i, l := range out.Loads() {
		l.Settings, l.Tried = found[i].Settings, found[i].Tried
	}
	return []Run{out}, err
}

// tellTuning tells how far a search has come.
func tellTuning(name string, told Progress) func(runs, of int, best Run) {
	what := name + " tuning"
	told(what, 0)
	return func(runs, of int, _ Run) { told(what, min(1, float64(runs)/float64(max(1, of)))) }
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
	if fleet := r.Run(StaticFleet, Default); fleet != nil && fleet.Cost > 0 && r.Runs[0].MeetsSLO {
		saved := 1 - r.Runs[0].Cost/fleet.Cost
		r.Saved = &saved
	}
}

func over(cost float64, b *Bound) *float64 {
	if b == nil || !(b.Lower > 0) {
		return nil
	}
	ratio := cost / b.Lower
	return &ratio
}
