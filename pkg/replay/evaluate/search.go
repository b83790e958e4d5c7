package evaluate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Search finds the settings that meet the SLO at the lowest cost. It uses differential evolution: the first population is spread over the
// tries of all knobs, and the search restarts when the population converges. Then one knob at a time of the best settings is changed until
// just enough requests are on time. The evolution changes several knobs at once, because a target with fewer replicas often meets the SLO
// only together with a longer window. A search that changes one knob at a time stops at the first setting that meets the SLO.
//
// Runs use all cores. Of settings with equal results, the search keeps the one that it started first, even if another one finishes earlier,
// so the result does not depend on the number of cores.
type Search struct {
	Tries    [][]float64                                                // by knob, from the most generous to the leanest; values between two tries are allowed
	Whole    []bool                                                     // by knob: only whole numbers are allowed; nil: no such knob
	Share    float64                                                    // share of requests on time that the SLO requires, 0..1
	Play     func(ctx context.Context, settings []float64) (Run, error) // called by several goroutines
	Progress func(runs, of int, best Run)                               // called after each round with the finished and the estimated total runs; may be nil
	Least    int                                                        // minimum number of runs of the evolution

	known map[string]*Tried
	order []string
	best  *Tried
}

// Tried is one setting, which is a value for each knob, with the results of its run.
type Tried struct {
	Settings []float64
	Run      Run

	places []float64 // positions of the settings among the tries: 1.5 is halfway between the second and the third
}

// Limits of a search. Eight knobs take about 400 runs; a run of a day with a few requests per second takes half a second.
const (
	maxGridRuns          = 100 // up to this many combinations of tries are all run before the evolution
	evolutionRunsPerKnob = 40  // runs
	populationPerKnob    = 3   // size of the population, per knob
	minPopulation        = 6
	convergedShare       = 0.01 // a population within this share of its best is converged
	trimmedSettings      = 3    // settings whose single knobs are changed at the end
	halvings             = 3
)

// Climb starts with the given settings and returns the cheapest settings found that meet the SLO. They are never worse than the given ones.
// If no settings meet the SLO, it returns the cheapest ones with at most 10% more late requests than the fewest.
func (s *Search) Climb(ctx context.Context, starts ...[]float64) (Tried, error) {
	s.known, s.order, s.best = map[string]*Tried{}, nil, nil
	var population []*Tried
	for _, settings := range starts {
		t := &Tried{Settings: settings}
		for k, v := range settings {
			t.places = append(t.places, placeOf(s.Tries[k], v))
		}
		population = append(population, t)
	}
	population, err := s.combine(ctx, population)
	if err != nil {
		return Tried{}, err
	}
	if err := s.evolve(ctx, population); err != nil {
		return Tried{}, err
	}
	if err := s.trim(ctx); err != nil {
		return Tried{}, err
	}
	if !s.best.Run.MeetsSLO {
		return *s.cheapestMiss(), nil
	}
	return *s.best, nil
}

// missTolerance is used if no setting meets the SLO. A setting may then have up to this factor times the fewest late requests if it costs
// less.
const missTolerance = 1.1

// cheapestMiss returns the cheapest setting with at most missTolerance times the fewest late requests. It is used if no setting meets the
// SLO: avoiding a few more late requests does not justify any cost.
func (s *Search) cheapestMiss() *Tried {
	out := s.best
	late := missTolerance * (1 - s.best.Run.OnTime)
	for _, key := range s.order {
		if t := s.known[key]; 1-t.Run.OnTime <= late && t.Run.Cost < out.Run.Cost {
			out = t
		}
	}
	return out
}

// combine returns the population with which the evolution starts. If there are at most maxGridRuns combinations of tries, it runs all of
// them and returns the best ones, because with one or two knobs the evolution can miss a narrow optimum. Otherwise it returns starts.
func (s *Search) combine(ctx context.Context, starts []*Tried) ([]*Tried, error) {
	all := [][]float64{nil}
	for _, tries := range s.Tries {
		if len(all)*len(tries) > maxGridRuns {
			return starts, nil
		}
		var longer [][]float64
		for _, places := range all {
			for i := range tries {
				longer = append(longer, append(slices.Clone(places), float64(i)))
			}
		}
		all = longer
	}
	population := slices.Clone(starts)
	for _, places := range all {
		population = append(population, s.at(places))
	}
	population, err := s.try(ctx, population)
	if err != nil {
		return nil, err
	}
	return s.byWorth(population)[:min(s.size(), len(population))], nil
}

// evolutionRuns returns the number of runs of the evolution.
func (s *Search) evolutionRuns() int { return max(s.Least, evolutionRunsPerKnob*len(s.Tries)) }

// size returns the size of the population.
func (s *Search) size() int { return max(minPopulation, populationPerKnob*len(s.Tries)) }

// evolve runs the differential evolution: a mutant replaces its member of the population if it is better. It ends after evolutionRuns runs,
// or after several rounds without a new setting.
func (s *Search) evolve(ctx context.Context, population []*Tried) error {
	random := rand.New(rand.NewPCG(1, 2))
	size, most := s.size(), len(s.order)+s.evolutionRuns()
	population, err := s.try(ctx, s.spread(random, population, size))
	for idle := 0; err == nil && len(s.order) < most && idle < 5; {
		ran := len(s.order)
		idle++
		ranked := s.byWorth(population)
		if s.converged(ranked) || idle > 2 { // restart around the best settings
			if population, err = s.try(ctx, s.spread(random, ranked[:1], size)); len(s.order) > ran {
				idle = 0
			}
			continue
		}
		mutants := make([]*Tried, size)
		for i, parent := range population {
			if s.best.Run.MeetsSLO && s.farMiss(parent) { // a member on the wrong side continues from the best settings
				parent = s.best
			}
			mutants[i] = s.mutate(random, parent, ranked[random.IntN(2)], population[random.IntN(size)], population[random.IntN(size)])
		}
		if mutants, err = s.try(ctx, mutants); err != nil {
			break
		}
		for i, mutate := range mutants {
			if s.replaces(mutate, population[i]) {
				population[i] = mutate
			}
		}
		if len(s.order) > ran {
			idle = 0
		}
	}
	return err
}

// converged reports whether all members of a ranked population have almost the same worth.
func (s *Search) converged(ranked []*Tried) bool {
	first, last := ranked[0], ranked[len(ranked)-1]
	return s.farMiss(first) == s.farMiss(last) && s.worth(last) < s.worth(first)*(1+convergedShare)
}

// spread adds settings until the population has the given size. In each new setting, about half of the knobs have the values of the first
// member of the population, which is a start setting or the best one so far. The values of the other knobs are spread evenly over their
// tries.
func (s *Search) spread(random *rand.Rand, population []*Tried, size int) []*Tried {
	population = slices.Clone(population)
	orders := make([][]int, len(s.Tries))
	for k := range orders {
		orders[k] = random.Perm(size)
	}
	for i := len(population); i < size; i++ {
		places := make([]float64, len(s.Tries))
		for k, tries := range s.Tries {
			places[k] = (float64(orders[k][i]) + random.Float64()) / float64(size) * float64(len(tries)-1)
			if random.IntN(2) == 0 {
				places[k] = population[0].places[k]
			}
		}
		population = append(population, s.at(places))
	}
	return population
}

// mutate moves most knobs of parent towards one of the best settings, and by a part of the difference between two other members.
// The steps become smaller as the population converges.
func (s *Search) mutate(random *rand.Rand, parent, best, a, b *Tried) *Tried {
	const most = 0.8 // share of the knobs that change
	places := slices.Clone(parent.places)
	by, one := 0.4+0.4*random.Float64(), random.IntN(len(places))
	for k := range places {
		if random.Float64() > most && k != one {
			continue
		}
		was, last := places[k], float64(len(s.Tries[k])-1)
		places[k] += float64(by*(best.places[k]-was)) + float64(by*(a.places[k]-b.places[k]))
		switch { // beyond an end: a random position between the old position and that end
		case places[k] < 0:
			places[k] = was * random.Float64()
		case places[k] > last:
			places[k] = was + float64((last-was)*random.Float64())
		}
	}
	return s.at(places)
}

// trim changes one knob at a time in the best settings, by at most one try: to a value with fewer replicas if the setting meets the SLO,
// and to a value with more replicas if it misses it. It finds the value by bisection.
func (s *Search) trim(ctx context.Context) error {
	var all []*Tried
	for _, key := range s.order {
		all = append(all, s.known[key])
	}
	all = s.byWorth(all)
	for _, t := range all[:min(trimmedSettings, len(all))] {
		low, high := make([]float64, len(s.Tries)), make([]float64, len(s.Tries)) // high is the leaner end
		for k, tries := range s.Tries {
			low[k], high[k] = max(0, t.places[k]-1), t.places[k]
			if t.Run.MeetsSLO {
				low[k], high[k] = t.places[k], min(float64(len(tries)-1), t.places[k]+1)
			}
		}
		for range halvings {
			turned := make([]*Tried, len(s.Tries))
			for k := range s.Tries {
				places := slices.Clone(t.places)
				places[k] = (low[k] + high[k]) / 2
				turned[k] = s.at(places)
			}
			turned, err := s.try(ctx, turned)
			if err != nil {
				return err
			}
			for k := range turned {
				if middle := (low[k] + high[k]) / 2; turned[k].Run.MeetsSLO {
					low[k] = middle
				} else {
					high[k] = middle
				}
			}
		}
	}
	return nil
}

// replaces reports whether a mutant takes the place of a member of the population. A setting that misses the SLO never replaces one that
// meets it: otherwise a population can move to cheap settings from which no single step meets the SLO.
func (s *Search) replaces(mutant, member *Tried) bool {
	if member.Run.MeetsSLO && !mutant.Run.MeetsSLO {
		return false
	}
	return s.worth(mutant) <= s.worth(member)
}

// worth estimates the cost of a run if exactly the allowed number of requests were late; less is better. On the shared traces, twice as
// many late requests save about 7% of the cost, and worth corrects the cost accordingly. Fewer than 0.25 times the allowed late requests
// are treated as 0.25 times. With more than twice the allowed number this estimate is not useful, and the cost is also multiplied by the
// ratio of late to allowed requests.
func (s *Search) worth(t *Tried) float64 {
	const gain = 0.1
	late := (1 - t.Run.OnTime) / max(1-s.Share, 1e-6)
	if late > 2 {
		return t.Run.Cost * math.Pow(2, gain) * late
	}
	return t.Run.Cost * math.Pow(max(late, 0.25), gain)
}

// farMiss reports whether a run has more than twice the allowed late requests: then worth is not a useful estimate.
func (s *Search) farMiss(t *Tried) bool { return 1-t.Run.OnTime > 2*max(1-s.Share, 1e-6) }

// byWorth returns a copy of the list, sorted by worth with the lowest, which is the best, first. Settings that miss the SLO by far follow
// all others.
func (s *Search) byWorth(list []*Tried) []*Tried {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *Tried) int {
		if far := s.farMiss(a); far != s.farMiss(b) {
			if far {
				return 1
			}
			return -1
		}
		return cmp.Compare(s.worth(a), s.worth(b))
	})
	return list
}

// Ranked returns all settings that were tried, the best first.
func (s *Search) Ranked() []Tried {
	var out []Tried
	for _, key := range s.order {
		out = append(out, *s.known[key])
	}
	slices.SortStableFunc(out, func(a, b Tried) int {
		switch {
		case better(&a.Run, &b.Run):
			return -1
		case better(&b.Run, &a.Run):
			return 1
		}
		return 0
	})
	return out
}

// try runs the settings that were not run before, and returns all with their runs.
func (s *Search) try(ctx context.Context, list []*Tried) ([]*Tried, error) {
	out := make([]*Tried, len(list))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i, t := range list {
		key := fmt.Sprint(t.Settings)
		if out[i] = s.known[key]; out[i] != nil {
			continue
		}
		out[i], s.known[key] = t, t
		s.order = append(s.order, key)
		all.Go(func() (err error) {
			t.Run, err = s.Play(ctx, t.Settings)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	for _, t := range out {
		if s.best == nil || better(&t.Run, &s.best.Run) {
			s.best = t
		}
	}
	if s.Progress != nil {
		ran := len(s.order)
		s.Progress(ran, max(ran, s.evolutionRuns()+len(s.Tries)*trimmedSettings*halvings), s.best.Run)
	}
	return out, nil
}

// withoutSeries returns a copy of the case without the series, which only a report needs.
func (c *Case) withoutSeries() *Case {
	withoutSeries := *c
	withoutSeries.SeriesPoints = 0
	return &withoutSeries
}
