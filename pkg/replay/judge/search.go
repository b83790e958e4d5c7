package judge

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/gpuscaler/gpuscaler/pkg/replay/world"
)

// Search looks for the settings that meet the SLO at the least cost: one knob at a time over all its tries, then two at a time by one
// try each, until neither brings anything. Runs go on all cores, and the first of equals wins, so the answer does not depend on their number.
type Search struct {
	Tries [][]float64                                                // by knob
	Play  func(ctx context.Context, settings []float64) (Run, error) // from several goroutines
	Told  func(runs int, best Run)                                   // after each knob; may be nil

	known map[string]*Tried
	order []string
}

// Tried is one setting and what came of it.
type Tried struct {
	Settings []float64
	Run      Run
}

// Climb starts at each of the given settings and answers the best that was found, with what it came to.
func (s *Search) Climb(ctx context.Context, starts ...[]float64) (Tried, error) {
	if s.known == nil {
		s.known = map[string]*Tried{}
	}
	var best *Tried
	for _, at := range starts {
		found, err := s.climb(ctx, at)
		if err != nil {
			return Tried{}, err
		}
		if best == nil || better(&found.Run, &best.Run) {
			best = found
		}
	}
	return *best, nil
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

// climb turns one knob at a time, and two at once where that brings nothing: a margin and the window that it covers are worth
// turning only together.
func (s *Search) climb(ctx context.Context, start []float64) (*Tried, error) {
	found, err := s.try(ctx, [][]float64{start})
	if err != nil {
		return nil, err
	}
	for at := found[0]; ; {
		next, err := s.oneByOne(ctx, at)
		if err == nil && next == at {
			next, err = s.twoByTwo(ctx, at)
		}
		if err != nil || next == at {
			return at, err
		}
		at = next
	}
}

// oneByOne gives each knob in turn the best of all its tries.
func (s *Search) oneByOne(ctx context.Context, at *Tried) (*Tried, error) {
	for i, tries := range s.Tries {
		var around [][]float64
		for _, v := range tries {
			next := slices.Clone(at.Settings)
			next[i] = v
			around = append(around, next)
		}
		var err error
		if at, err = s.best(ctx, at, around); err != nil {
			return nil, err
		}
	}
	return at, nil
}

// twoByTwo moves each pair of knobs by one of their tries, in all four directions.
func (s *Search) twoByTwo(ctx context.Context, at *Tried) (*Tried, error) {
	for i := range s.Tries {
		for j := range i {
			var around [][]float64
			for _, v := range neighbours(s.Tries[i], at.Settings[i]) {
				for _, w := range neighbours(s.Tries[j], at.Settings[j]) {
					next := slices.Clone(at.Settings)
					next[i], next[j] = v, w
					around = append(around, next)
				}
			}
			var err error
			if at, err = s.best(ctx, at, around); err != nil {
				return nil, err
			}
		}
	}
	return at, nil
}

// neighbours are the greatest of the tries below v and the least above it.
func neighbours(tries []float64, v float64) (out []float64) {
	tries = slices.Sorted(slices.Values(tries))
	above := slices.IndexFunc(tries, func(t float64) bool { return t > v })
	if above < 0 {
		above = len(tries)
	}
	below := above - 1
	if below >= 0 && tries[below] == v {
		below--
	}
	if below >= 0 {
		out = append(out, tries[below])
	}
	if above < len(tries) {
		out = append(out, tries[above])
	}
	return out
}

// best is the best of what is known and of the given settings.
func (s *Search) best(ctx context.Context, at *Tried, settings [][]float64) (*Tried, error) {
	found, err := s.try(ctx, settings)
	if err != nil {
		return nil, err
	}
	for _, t := range found {
		if better(&t.Run, &at.Run) {
			at = t
		}
	}
	if s.Told != nil {
		s.Told(len(s.order), at.Run)
	}
	return at, nil
}

// try runs those settings that were not run before.
func (s *Search) try(ctx context.Context, settings [][]float64) ([]*Tried, error) {
	out := make([]*Tried, len(settings))
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	for i, values := range settings {
		key := fmt.Sprint(values)
		if out[i] = s.known[key]; out[i] != nil {
			continue
		}
		t := &Tried{Settings: values}
		out[i], s.known[key] = t, t
		s.order = append(s.order, key)
		all.Go(func() (err error) {
			t.Run, err = s.Play(ctx, values)
			return err
		})
	}
	return out, all.Wait()
}

// tuneRival searches a rival's knobs on the case's own traffic: from its defaults, and from the most generous setting of each, since
// a search that starts where the SLO is missed may only find the way to missing it by less.
func (c *Case) tuneRival(ctx context.Context, r world.Rival) (Tried, int, error) {
	lean := c.lean()
	defaults, generous := make([]float64, len(r.Knobs)), make([]float64, len(r.Knobs))
	s := Search{Play: func(ctx context.Context, values []float64) (Run, error) {
		return lean.alone().run(ctx, makers{r.Make(c.bounds(), values)}, nil)
	}}
	for i, k := range r.Knobs {
		s.Tries = append(s.Tries, k.Tries)
		defaults[i], generous[i] = k.Default, k.Tries[0]
	}
	best, err := s.Climb(ctx, defaults, generous)
	return best, len(s.order), err
}

// lean is the case without what only a report needs.
func (c *Case) lean() *Case {
	lean := *c
	lean.SeriesPoints = 0
	return &lean
}
