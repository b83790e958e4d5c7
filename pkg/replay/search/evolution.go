package search

import (
	"context"
	"math/rand/v2"
	"slices"
)

// evolutionRuns returns the number of runs after which the differential evolution ends.
func (s *Search[R]) evolutionRuns() int { return max(s.Least, RunsPerKnob*len(s.Tries)) }

// size returns the number of settings in the population of the differential evolution.
func (s *Search[R]) size() int { return max(minPopulation, populationPerKnob*len(s.Tries)) }

// evolve runs the differential evolution. Each round makes a changed copy (a mutant) of every setting in the population, runs it, and keeps
// the better of the two. The evolution ends after evolutionRuns runs, or after five rounds in a row in which every mutant had been run
// before.
func (s *Search[R]) evolve(ctx context.Context, population []*Tried[R]) error {
	random := rand.New(rand.NewPCG(1, 2))
	size, most := s.size(), len(s.order)+s.evolutionRuns()
	population, err := s.try(ctx, s.spread(random, population, size))
	for idle := 0; err == nil && len(s.order) < most && idle < 5; {
		ran := len(s.order)
		idle++
		ranked := s.byWorth(population)
		if s.converged(ranked) || idle > 2 { // restart the search around the best settings
			if population, err = s.try(ctx, s.spread(random, ranked[:1], size)); len(s.order) > ran {
				idle = 0
			}
			continue
		}
		mutants := make([]*Tried[R], size)
		for i, parent := range population {
			// A setting that misses the SLO by far is replaced by the best settings before it is changed.
			if s.best.outcome.MeetsSLO && s.farMiss(parent) {
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

// converged reports whether all settings of a population have almost the same worth (the estimated cost; see the method worth). The
// population must be sorted by worth.
func (s *Search[R]) converged(ranked []*Tried[R]) bool {
	first, last := ranked[0], ranked[len(ranked)-1]
	return s.farMiss(first) == s.farMiss(last) && s.worth(last) < s.worth(first)*(1+convergedShare)
}

// spread adds settings until the population has the given size. In each new setting, about half of the knobs have the values of the first
// member of the population, which is a start setting or the best one so far. The values of the other knobs are spread evenly over Tries.
func (s *Search[R]) spread(random *rand.Rand, population []*Tried[R], size int) []*Tried[R] {
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

// mutate returns a changed copy of parent. It moves most knobs towards their values in best, and by a part of the difference between the
// settings a and b. The changes become smaller as the population converges, because the differences between its settings become smaller.
func (s *Search[R]) mutate(random *rand.Rand, parent, best, a, b *Tried[R]) *Tried[R] {
	const most = 0.8 // share of the knobs that change
	places := slices.Clone(parent.places)
	by, one := 0.4+0.4*random.Float64(), random.IntN(len(places))
	for k := range places {
		if random.Float64() > most && k != one {
			continue
		}
		was, last := places[k], float64(len(s.Tries[k])-1)
		places[k] += float64(by*(best.places[k]-was)) + float64(by*(a.places[k]-b.places[k]))
		switch { // a position beyond an end of Tries is replaced by a random position before that end
		case places[k] < 0:
			places[k] = was * random.Float64()
		case places[k] > last:
			places[k] = was + float64((last-was)*random.Float64())
		}
	}
	return s.at(places)
}

// replaces reports whether a mutant takes the place of a member of the population. A setting that misses the SLO never replaces one that
// meets it: otherwise a population can move to cheap settings from which no single step meets the SLO.
func (s *Search[R]) replaces(mutant, member *Tried[R]) bool {
	if member.outcome.MeetsSLO && !mutant.outcome.MeetsSLO {
		return false
	}
	return s.worth(mutant) <= s.worth(member)
}
