package judge

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/gpuscaler/gpuscaler/pkg/replay/world"
)

// tuneRival searches a rival's knobs on the case's own traffic: one knob at a time, all its tries, until a round over all knobs
// brings nothing; from the defaults, and from the most generous setting of each, since a search that starts where the SLO is
// missed may only find the way to missing it by less. The first of equals wins, so the answer does not depend on the cores.
func (c *Case) tuneRival(ctx context.Context, r world.Rival) ([]float64, int, error) {
	lean := *c
	lean.SeriesPoints = 0
	s := rivalSearch{c: &lean, rival: r, known: map[string]Run{}}
	defaults, generous := make([]float64, len(r.Knobs)), make([]float64, len(r.Knobs))
	for i, k := range r.Knobs {
		defaults[i], generous[i] = k.Default, k.Tries[0]
	}
	best, err := s.climb(ctx, defaults)
	if err != nil {
		return nil, 0, err
	}
	other, err := s.climb(ctx, generous)
	if err != nil {
		return nil, 0, err
	}
	if a, b := s.known[fmt.Sprint(other)], s.known[fmt.Sprint(best)]; better(&a, &b) {
		best = other
	}
	return best, len(s.known), nil
}

type rivalSearch struct {
	c     *Case
	rival world.Rival
	known map[string]Run // by settings
}

func (s *rivalSearch) climb(ctx context.Context, at []float64) ([]float64, error) {
	if err := s.try(ctx, [][]float64{at}); err != nil {
		return nil, err
	}
	for moved := true; moved; {
		moved = false
		for i, knob := range s.rival.Knobs {
			var around [][]float64
			for _, v := range knob.Tries {
				next := slices.Clone(at)
				next[i] = v
				around = append(around, next)
			}
			if err := s.try(ctx, around); err != nil {
				return nil, err
			}
			for _, next := range around {
				if a, b := s.known[fmt.Sprint(next)], s.known[fmt.Sprint(at)]; better(&a, &b) {
					at, moved = next, true
				}
			}
		}
	}
	return at, nil
}

// try runs those settings that were not run before, on all cores.
func (s *rivalSearch) try(ctx context.Context, settings [][]float64) error {
	runs := make([]Run, len(settings))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i, values := range settings {
		if _, known := s.known[fmt.Sprint(values)]; known {
			continue
		}
		all.Go(func() (err error) {
			runs[i], err = s.c.run(ctx, s.rival.Make(s.c.bounds(), values), nil)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for i, values := range settings {
		if key := fmt.Sprint(values); runs[i].CostBy != nil {
			s.known[key] = runs[i]
		}
	}
	return nil
}
