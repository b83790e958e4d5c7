package search

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
)

// Search finds the settings that meet the SLO at the lowest cost. It uses differential evolution: the first population is spread over
// Tries, and the search restarts when the population converges. Then one knob at a time of the best settings is changed until
// just enough requests are on time. The evolution changes several knobs at once, because a target with fewer replicas often meets the SLO
// only together with a longer window. A search that changes one knob at a time stops at the first setting that meets the SLO.
//
// Runs use all cores. If several settings have equal results, the search keeps the settings that it started first, even if others finish
// earlier, so the result does not depend on the number of cores.
type Search[R Result] struct {
	// Tries are values of each knob, from the one with the most replicas to the one with the fewest. Values in between are allowed.
	Tries [][]float64
	Whole []bool  // for each knob, whether only whole numbers are allowed; nil: no knob is restricted
	Share float64 // share of requests on time that the SLO requires, 0..1
	// Play runs one setting and returns its result. It must be safe for concurrent use.
	Play func(ctx context.Context, settings []float64) (R, error)
	// Progress is called after each round with the finished and the estimated total runs. It may be nil.
	Progress func(runs, of int, best R)
	Least    int // minimum number of runs of the evolution

	known map[string]*Tried[R]
	order []string
	best  *Tried[R]
}

// Result is the result of a run.
type Result interface{ Outcome() Outcome }

// Outcome contains the values by which a search compares runs.
type Outcome struct {
	MeetsSLO bool
	OnTime   float64 // share of the requests that are on time, 0..1
	Cost     float64
}

// Tried is one setting, which is a value for each knob, with the results of its run.
type Tried[R Result] struct {
	Settings []float64
	Run      R

	outcome Outcome
	places  []float64 // positions of the settings in Tries: 1.5 is halfway between the second and the third value
}

// RunsPerKnob determines the number of runs of the evolution: RunsPerKnob times the number of knobs, and at least Least.
const RunsPerKnob = 40

// Limits of a search. A search with eight knobs takes about 400 runs. A run with a day of traffic at a few requests per second takes half a
// second.
const (
	maxGridRuns       = 100 // up to this many combinations of the values in Tries are all run before the evolution
	populationPerKnob = 3   // size of the population (the settings that the evolution changes), per knob
	minPopulation     = 6
	convergedShare    = 0.01 // a population has converged if the estimated cost (worth) of all members is within this share of the best
	trimmedSettings   = 3    // number of best settings in which single knobs are changed at the end
	halvings          = 3
)

// Climb starts with the given settings and returns the cheapest settings found that meet the SLO. The result is never worse than the given
// settings. If no settings meet the SLO, it returns the cheapest settings that have at most 10% more late requests than the settings with
// the fewest.
func (s *Search[R]) Climb(ctx context.Context, starts ...[]float64) (Tried[R], error) {
	s.known, s.order, s.best = map[string]*Tried[R]{}, nil, nil
	var population []*Tried[R]
	for _, settings := range starts {
		t := &Tried[R]{Settings: settings}
		for k, v := range settings {
			t.places = append(t.places, placeOf(s.Tries[k], v))
		}
		population = append(population, t)
	}
	population, err := s.combine(ctx, population)
	if err != nil {
		return Tried[R]{}, err
	}
	if err := s.evolve(ctx, population); err != nil {
		return Tried[R]{}, err
	}
	if err := s.trim(ctx); err != nil {
		return Tried[R]{}, err
	}
	if !s.best.outcome.MeetsSLO {
		return *s.cheapestMiss(), nil
	}
	return *s.best, nil
}

// Runs returns how many settings were run.
func (s *Search[R]) Runs() int { return len(s.order) }

// combine returns the population with which the evolution starts. If Tries has at most maxGridRuns combinations of values, it runs all of
// them and returns the best ones, because with one or two knobs the evolution can miss a narrow optimum. Otherwise it returns starts.
func (s *Search[R]) combine(ctx context.Context, starts []*Tried[R]) ([]*Tried[R], error) {
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

// trim changes one knob at a time in the best settings, by at most one position in Tries. If the settings meet the SLO, the new value gives
// fewer replicas, otherwise more replicas. trim finds the new value by bisection.
func (s *Search[R]) trim(ctx context.Context) error {
	var all []*Tried[R]
	for _, key := range s.order {
		all = append(all, s.known[key])
	}
	all = s.byWorth(all)
	for _, t := range all[:min(trimmedSettings, len(all))] {
		low, high := make([]float64, len(s.Tries)), make([]float64, len(s.Tries)) // low and high are settings; high has fewer replicas
		for k, tries := range s.Tries {
			low[k], high[k] = max(0, t.places[k]-1), t.places[k]
			if t.outcome.MeetsSLO {
				low[k], high[k] = t.places[k], min(float64(len(tries)-1), t.places[k]+1)
			}
		}
		for range halvings {
			turned := make([]*Tried[R], len(s.Tries))
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
				if middle := (low[k] + high[k]) / 2; turned[k].outcome.MeetsSLO {
					low[k] = middle
				} else {
					high[k] = middle
				}
			}
		}
	}
	return nil
}

// try runs the settings that were not run before. It returns all given settings with their runs.
func (s *Search[R]) try(ctx context.Context, list []*Tried[R]) ([]*Tried[R], error) {
	out := make([]*Tried[R], len(list))
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
			t.outcome = t.Run.Outcome()
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	for _, t := range out {
		if s.best == nil || t.outcome.Better(s.best.outcome) {
			s.best = t
		}
	}
	if s.Progress != nil {
		ran := len(s.order)
		s.Progress(ran, max(ran, s.evolutionRuns()+len(s.Tries)*trimmedSettings*halvings), s.best.Run)
	}
	return out, nil
}
