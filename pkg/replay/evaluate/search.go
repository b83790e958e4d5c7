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

// Search looks for the settings that meet the SLO at the least cost. A crowd of settings, spread over all tries of all knobs, breeds
// around its best (differential evolution), and starts anew where it agrees; then single knobs of the best are turned until just enough
// is on time. All knobs move at once, since a leaner target pays only with a longer window, and the other way round: whoever turns one
// knob at a time stops at the first setting that just meets the SLO.
//
// Runs go on all cores, and the first of equals wins: the answer does not depend on their number.
type Search struct {
	Tries    [][]float64                                                // by knob, from the most generous to the leanest; what lies between two counts too
	Whole    []bool                                                     // by knob: only whole numbers count; nil: none is
	Share    float64                                                    // of requests to be on time, as the SLO has it, 0..1
	Play     func(ctx context.Context, settings []float64) (Run, error) // from several goroutines
	Progress func(runs, of int, best Run)                               // after each round, of about how many runs; may be nil
	Least    int                                                        // runs to breed for, also where there are few knobs

	known map[string]*Tried
	order []string
	best  *Tried
}

// Tried is one setting and what came of it.
type Tried struct {
	Settings []float64
	Run      Run

	places []float64 // of the settings among the tries: 1.5 is halfway from the second to the third
}

// What a search may take. Eight knobs come to some 400 runs, of half a second for a day of a few requests a second.
const (
	maxGridRuns          = 100 // combinations of tries: as many are all run before any is bred from
	evolutionRunsPerKnob = 40  // runs
	populationPerKnob    = 3   // settings that live at a time
	minPopulation        = 6
	convergedShare       = 0.01 // a crowd within this share of its best is asked no more
	trimmedSettings      = 3    // settings whose knobs are turned at the end
	halvings             = 3
)

// Climb begins with the given settings and answers the best that was found, with what it came to: never worse than they are.
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
	return *s.best, nil
}

// combine runs every combination of the tries where there are few, as one or two knobs have, and answers the best of them; a crowd that
// breeds may overlook the valley of one of them.
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

// breeds is for how many runs a crowd breeds.
func (s *Search) evolutionRuns() int { return max(s.Least, evolutionRunsPerKnob*len(s.Tries)) }

// size is how many settings live at a time.
func (s *Search) size() int { return max(minPopulation, populationPerKnob*len(s.Tries)) }

// breed lets each of the crowd be followed by a child of it where that is worth more.
func (s *Search) evolve(ctx context.Context, population []*Tried) error {
	random := rand.New(rand.NewPCG(1, 2))
	size, most := s.size(), len(s.order)+s.evolutionRuns()
	population, err := s.try(ctx, s.spread(random, population, size))
	for idle := 0; err == nil && len(s.order) < most && idle < 5; {
		ran := len(s.order)
		idle++
		ranked := s.byWorth(population)
		if least := s.worth(ranked[0]); s.worth(ranked[size-1]) < least*(1+convergedShare) {
			if population, err = s.try(ctx, s.spread(random, ranked[:1], size)); len(s.order) > ran {
				idle = 0
			}
			continue
		}
		mutants := make([]*Tried, size)
		for i, parent := range population {
			mutants[i] = s.mutate(random, parent, ranked[random.IntN(2)], population[random.IntN(size)], population[random.IntN(size)])
		}
		if mutants, err = s.try(ctx, mutants); err != nil {
			break
		}
		for i, mutate := range mutants {
			if s.worth(mutate) <= s.worth(population[i]) {
				population[i] = mutate
			}
		}
		if len(s.order) > ran {
			idle = 0
		}
	}
	return err
}

// spread fills a crowd up to a size. Newcomers keep about half the knobs of its first, who was written by somebody with a thought or is
// the best so far; of the others each knob's tries are covered evenly.
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

// child moves most knobs of a parent towards one of the best, and by a part of how two others differ: steps that shrink as the crowd comes
// together.
func (s *Search) mutate(random *rand.Rand, parent, best, a, b *Tried) *Tried {
	const most = 0.8 // of the knobs
	places := slices.Clone(parent.places)
	by, one := 0.4+0.4*random.Float64(), random.IntN(len(places))
	for k := range places {
		if random.Float64() > most && k != one {
			continue
		}
		was, last := places[k], float64(len(s.Tries[k])-1)
		places[k] += float64(by*(best.places[k]-was)) + float64(by*(a.places[k]-b.places[k]))
		switch { // past an end, it lands somewhere on the way there
		case places[k] < 0:
			places[k] = was * random.Float64()
		case places[k] > last:
			places[k] = was + float64((last-was)*random.Float64())
		}
	}
	return s.at(places)
}

// trim turns single knobs of the settings that are worth the most: leaner where there is something to spare, else more generous.
func (s *Search) trim(ctx context.Context) error {
	var all []*Tried
	for _, key := range s.order {
		all = append(all, s.known[key])
	}
	all = s.byWorth(all)
	for _, t := range all[:min(trimmedSettings, len(all))] {
		low, high := make([]float64, len(s.Tries)), make([]float64, len(s.Tries)) // high is leaner
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

// worth is about what a run would cost had it just enough on time; less is better. On the shared traces twice as many late requests save
// some 7%, as far as that goes: who has hardly any late, or more than twice what is allowed, says little about the SLO's edge.
func (s *Search) worth(t *Tried) float64 {
	const gain = 0.1
	late := (1 - t.Run.OnTime) / max(1-s.Share, 1e-6)
	if late > 2 {
		return t.Run.Cost * math.Pow(2, gain) * late
	}
	return t.Run.Cost * math.Pow(max(late, 0.25), gain)
}

func (s *Search) byWorth(list []*Tried) []*Tried {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *Tried) int { return cmp.Compare(s.worth(a), s.worth(b)) })
	return list
}

// Ranked is all that was tried, the best first.
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

// try runs those settings that were not run before, and answers each with its run.
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

// lean is the case without what only a report needs.
func (c *Case) withoutSeries() *Case {
	withoutSeries := *c
	withoutSeries.SeriesPoints = 0
	return &withoutSeries
}
