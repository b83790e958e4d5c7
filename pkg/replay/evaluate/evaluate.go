package evaluate

import (
	"context"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuscaler/gpuscaler/pkg/replay/lowerbound"
	"github.com/gpuscaler/gpuscaler/pkg/replay/search"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
)

// Progress receives the name of the current run and the share of this run that is finished, 0..1. It must be safe for concurrent use.
type Progress func(what string, done float64)

// Workload runs the policy of one case and the baselines that the case lists, and returns the report. The same case always gives the same
// report, byte for byte.
func Workload(ctx context.Context, c Case, progress Progress) (*Report, error) {
	return Workloads(ctx, []Case{c}, progress)
}

// Workloads runs several workloads in one simulated cluster, each with its own SLO. A replica serves only its own workload, so the sum of
// the lower bounds is a lower bound for all workloads. In the run of a baseline, that baseline scales all workloads. In the tuned run of a
// baseline, each workload has its own values of the knobs.
func Workloads(ctx context.Context, cases []Case, progress Progress) (*Report, error) {
	if progress == nil {
		progress = func(string, float64) {}
	}
	t, err := gather(cases)
	if err != nil {
		return nil, err
	}
	out := t.head()
	c := &t[0]
	first := t.named()
	certificates := make([]certificate, len(t))
	runs := make([][]Run, 2+len(c.Baselines))
	all, inner := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	if c.Bound {
		for i := range t {
			all.Go(func() (err error) {
				certificates[i], err = t[i].certify(boundProgress{inner, func(kind string, p lowerbound.Progress) {
					progress(kind, float64(p.TimeSlot)/float64(max(1, p.TimeSlots)))
				}})
				return err
			})
		}
	}
	all.Go(func() error { return t.fill(inner, &first, t.ours(), progress) })
	all.Go(func() (err error) {
		runs[1], err = t.staticFleet(inner, progress)
		return err
	})
	for i := range c.Baselines {
		all.Go(func() (err error) {
			runs[2+i], err = t.baseline(inner, c.Baselines[i], progress)
			return err
		})
	}
	if c.TuneOurs {
		all.Go(func() (err error) {
			runs[0], err = t.tuned(inner, progress)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	out.Runs = append([]Run{first}, slices.Concat(runs...)...)
	if len(t) == 1 {
		low, err := c.lowTargets(ctx, &first)
		if err != nil {
			return nil, err
		}
		out.Warnings = append(out.Warnings, low...)
	}
	out.certified(certificates)
	oracles, err := t.clairvoyant(ctx, certificates, progress)
	out.Runs = append(out.Runs, oracles...)
	out.compare()
	return out, err
}

// named returns the Run of gpuscaler's policies with its name, variant and description. It has no results yet.
func (t trial) named() Run {
	words := "policy " + t[0].Policy.Workload.Key.String()
	if len(t) > 1 {
		words = "each workload's policy"
	}
	return Run{Name: "gpuscaler", Variant: Ours, Words: words + ", decided by the engine of the controller"}
}

// fill simulates the trial (all cases in one cluster) and stores the results in row. It does not change the name, the variant and the
// description of row.
func (t trial) fill(ctx context.Context, row *Run, by actuatorFactories, progress Progress) error {
	what := row.Name + " " + row.Variant
	r, err := t.run(ctx, by, func(now time.Duration) { progress(what, float64(now)/float64(t[0].Horizon())) })
	if err != nil {
		return err
	}
	r.Name, r.Variant, r.Words = row.Name, row.Variant, row.Words
	*row = r
	progress(what, 1)
	return nil
}

// set stores the chosen values of the knobs for each workload, and how many settings were run to find them.
func (r *Run) set(names []string, settings []search.Tried[Run], tried []int) {
	for i, l := range r.Loads() {
		for k, name := range names {
			l.Settings = append(l.Settings, Setting{name, settings[i].Settings[k]})
		}
		l.Tried = tried[i]
	}
}

// staticFleet returns the run in which each workload has a fixed number of replicas (Case.Static), or nil if a case does not set that
// number.
func (t trial) staticFleet(ctx context.Context, progress Progress) ([]Run, error) {
	by, fleet := t.ours(), slices.Clone(t)
	for i := range t {
		if t[i].Static == 0 {
			return nil, nil
		}
		by[i], fleet[i].Initial = baseline.Static(t[i].Static), t[i].Static
	}
	out := Run{Name: StaticFleet, Variant: Default, Words: "a fixed number of replicas, as the scenario specifies"}
	return []Run{out}, fleet.fill(ctx, &out, by, progress)
}

// baseline runs a baseline with its defaults and, if requested, with settings tuned to each workload.
func (t trial) baseline(ctx context.Context, r baseline.Baseline, progress Progress) ([]Run, error) {
	var names []string
	settings, tried := make([]search.Tried[Run], len(t)), make([]int, len(t))
	for _, k := range r.Knobs {
		names = append(names, k.Name)
	}
	for i := range t {
		for _, k := range t[i].scaled(r).Knobs {
			settings[i].Settings = append(settings[i].Settings, k.Default)
		}
	}
	row := func(variant string, settings []search.Tried[Run], tried []int) (Run, error) {
		out, by := Run{Name: r.Name, Variant: variant, Words: r.Words}, t.ours()
		for i := range t {
			by[i] = r.NewActuator(t[i].bounds(), settings[i].Settings)
		}
		err := t.fill(ctx, &out, by, progress)
		out.set(names, settings, tried)
		return out, err
	}
	first, err := row(Default, settings, tried)
	if err != nil || !t[0].TuneBaselines {
		return []Run{first}, err
	}
	tuning := tuningProgress(r.Name, progress)
	for i := range t {
		if settings[i], tried[i], err = t[i].tuneBaseline(ctx, r, tuning); err != nil {
			return nil, err
		}
	}
	second, err := row(Tuned, settings, tried)
	return []Run{first, second}, err
}

// tuned searches the best settings of each policy on the train part of its traffic, as for the baselines. It returns the run of all
// policies with these settings.
func (t trial) tuned(ctx context.Context, progress Progress) ([]Run, error) {
	other, out := slices.Clone(t), t.named()
	out.Variant = Tuned
	tuning := tuningProgress(out.Name, progress)
	found := make([]Load, len(t))
	for i := range t {
		knobs := Knobs(t[i].Policy)
		s := t[i].trainPart().SearchPolicy(knobs)
		s.Progress = tuning
		best, err := s.Climb(ctx, Values(knobs), Generous(knobs))
		if err != nil {
			return nil, err
		}
		for k := range knobs {
			found[i].Settings = append(found[i].Settings, Setting{knobs[k].Name, best.Settings[k]})
		}
		found[i].Tried = s.Runs()
		other[i].Policy = With(t[i].Policy, knobs, best.Settings)
	}
	err := other.fill(ctx, &out, other.ours(), progress)
	for i, l := range out.Loads() {
		l.Settings, l.Tried = found[i].Settings, found[i].Tried
	}
	return []Run{out}, err
}

// tuningProgress returns a callback that reports how many of the planned runs of a search are finished.
func tuningProgress(name string, progress Progress) func(runs, of int, best Run) {
	what := name + " tuning"
	progress(what, 0)
	return func(runs, of int, _ Run) { progress(what, min(1, float64(runs)/float64(max(1, of)))) }
}

// compare sets the ratio of cost to the lower bounds in each run that meets the SLO, the name of the cheapest of these runs, and the
// savings of gpuscaler over the static fleets.
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
	if !r.Runs[0].MeetsSLO {
		return
	}
	if fleet := r.Run(StaticFleet, Default); fleet != nil {
		r.Saved = saved(r.Runs[0].Cost, fleet.Cost)
	}
	if smallest := r.Run("static", Tuned); smallest != nil && smallest.MeetsSLO {
		r.SavedSmallest = saved(r.Runs[0].Cost, smallest.Cost)
	}
}

// saved returns the saving of cost relative to the second cost (of), as a share: saved(3, 4) is 0.25. It is negative if cost is greater. It
// is nil if the second cost is 0.
func saved(cost, of float64) *float64 {
	if !(of > 0) {
		return nil
	}
	share := 1 - cost/of
	return &share
}

func over(cost float64, b *Bound) *float64 {
	if b == nil || !(b.Lower > 0) {
		return nil
	}
	ratio := cost / b.Lower
	return &ratio
}
