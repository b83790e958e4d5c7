package search

import (
	"context"
	"math"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// run is the result of a cost function (ridge, cliff) that a test uses instead of a simulation.
type run Outcome

func (r run) Outcome() Outcome { return Outcome(r) }

// ridge is the cost function of a search with two knobs. Like a real policy, its cost increases with each knob, and the share of requests
// on time depends on the product of the knobs: if one knob decreases, the other must increase to meet the SLO. The cheapest settings that
// meet 99% are 8 and 2, with cost 32.
func ridge(_ context.Context, x []float64) (run, error) {
	r := run{Cost: 2*x[0] + 8*x[1]}
	r.OnTime = 1 - math.Min(1, 0.01*math.Pow(16/(x[0]*x[1]), 4))
	r.MeetsSLO = r.OnTime >= 0.99-1e-12
	return r, nil
}

func onRidge() *Search[run] {
	return &Search[run]{Share: 0.99, Play: ridge, Tries: [][]float64{{32, 16, 4, 1}, {32, 16, 4, 1}}}
}

// The search starts at the settings 16 and 1, with cost 40. They just meet the SLO, and no change of one knob alone improves the result.
func TestSearchChangesTwoKnobsTogether(t *testing.T) {
	best, err := onRidge().Climb(context.Background(), []float64{16, 1})
	if err != nil {
		t.Fatal(err)
	}
	if !best.Run.MeetsSLO || best.Run.Cost > 32*1.05 {
		t.Errorf("%v costs %v at %v on time; 8 and 2 cost 32, the start 40", best.Settings, best.Run.Cost, best.Run.OnTime)
	}
}

func TestSearchIsNeverWorseThanItsStart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		knobs := rapid.IntRange(1, 4).Draw(t, "knobs")
		s := Search[run]{Share: 0.9}
		start := make([]float64, knobs)
		for k := range knobs {
			s.Tries = append(s.Tries, rapid.SliceOfNDistinct(rapid.Float64Range(0, 100), 1, 6, rapid.ID[float64]).Draw(t, "tries"))
			slices.Sort(s.Tries[k])
			start[k] = rapid.Float64Range(-10, 200).Draw(t, "start")
		}
		weights := rapid.SliceOfN(rapid.Float64Range(-3, 3), knobs, knobs).Draw(t, "weights")
		s.Play = func(_ context.Context, x []float64) (run, error) {
			r := run{Cost: 500}
			r.OnTime = 0.95
			for k := range x {
				r.Cost += weights[k] * math.Abs(x[k])
				r.OnTime -= math.Mod(math.Abs(x[k]), 10) / 100
			}
			r.MeetsSLO = r.OnTime >= 0.9
			return r, nil
		}
		asked, said := 0, 0
		s.Progress = func(runs, of int, _ run) { asked, said = runs, of }
		best, err := s.Climb(context.Background(), start)
		if err != nil {
			t.Fatal(err)
		}
		first, _ := s.Play(context.Background(), start)
		if worse := first.Outcome().Better(best.Run.Outcome()); worse && (first.MeetsSLO || 1-best.Run.OnTime > missTolerance*(1-first.OnTime)) {
			t.Fatalf("%v is worse than the start", best)
		}
		if most := said + populationPerKnob*knobs + minPopulation; asked > most {
			t.Fatalf("%d runs, want at most %d", asked, most)
		}
		ranked := s.Ranked()
		differs := ranked[0].Run.Outcome().Better(best.Run.Outcome()) || best.Run.Outcome().Better(ranked[0].Run.Outcome())
		if best.Run.MeetsSLO && differs || len(ranked) != asked {
			t.Fatalf("ranked first of %d: %v; the best of %d: %v", len(ranked), ranked[0], asked, best)
		}
	})
}

// A random check of placeOf found this case: 2.5 / 1.1e-308 is infinite, so the position of a value between the two numbers was NaN, which
// is no index.
func TestPositionBetweenValuesWhoseRatioIsInfinite(t *testing.T) {
	for _, tries := range [][]float64{{1.1125369292536007e-308, 2.5}, {2.5, 1.1125369292536007e-308}, {2.5, 5e-324}} {
		if place := placeOf(tries, 1); !(place > 0 && place < 1) {
			t.Errorf("position of 1 in %v: %v", tries, place)
		} else if v := valueAt(tries, place); math.Abs(v-1) > 0.01 {
			t.Errorf("value at position %v in %v: %v, want 1", place, tries, v)
		}
	}
}

// On several cores, concurrent runs finish in any order. The search must still return the same settings.
func TestSearchResultDoesNotDependOnTheNumberOfCores(t *testing.T) {
	var found [2]Tried[run]
	for i, cores := range []int{1, 4} {
		was := runtime.GOMAXPROCS(cores)
		best, err := onRidge().Climb(context.Background(), []float64{32, 32}, []float64{1, 1})
		runtime.GOMAXPROCS(was)
		if err != nil {
			t.Fatal(err)
		}
		found[i] = best
	}
	if !slices.Equal(found[0].Settings, found[1].Settings) {
		t.Errorf("on one core %v, on four %v", found[0].Settings, found[1].Settings)
	}
}

// placeOf returns the position that was given to valueAt, except for the rounding of the value to a few digits.
func TestValueConvertsBackToItsPosition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tries := rapid.SliceOfNDistinct(rapid.IntRange(0, 3600), 1, 8, rapid.ID[int]).Draw(t, "tries")
		slices.Sort(tries)
		var list []float64
		for _, v := range tries {
			list = append(list, float64(v))
		}
		if rapid.Bool().Draw(t, "falling") {
			slices.Reverse(list)
		}
		last := float64(len(list) - 1)
		place := rapid.Float64Range(0, last).Draw(t, "place")
		v := valueAt(list, place)
		if !(v >= slices.Min(list) && v <= slices.Max(list)) {
			t.Fatalf("%v at %v of %v lies outside", v, place, list)
		}
		if back := placeOf(list, v); math.Abs(back-place) > 0.5 && math.Abs(valueAt(list, back)-v) > 1e-9 {
			t.Fatalf("%v at %v of %v is at position %v", v, place, list, back)
		}
		for i := range list {
			if placeOf(list, list[i]) != float64(i) || valueAt(list, float64(i)) != list[i] {
				t.Fatalf("try %d of %v is at position %v", i, list, placeOf(list, list[i]))
			}
		}
	})
}

// For a position between two values, valueAt returns a value between them, even for very small values such as a target of 0.001 s. The
// result is above 0 if both values are.
func TestValueIsBetweenItsNeighbors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := math.Pow(10, rapid.Float64Range(-9, 6).Draw(t, "size"))
		list := rapid.SliceOfNDistinct(rapid.Float64Range(0, 10), 2, 8, rapid.ID[float64]).Draw(t, "tries")
		slices.Sort(list)
		for i := range list {
			list[i] *= size
		}
		if rapid.Bool().Draw(t, "falling") {
			slices.Reverse(list)
		}
		i := rapid.IntRange(0, len(list)-2).Draw(t, "after")
		from, to := list[i], list[i+1]
		v := valueAt(list, float64(i)+rapid.Float64Range(0, 1).Draw(t, "part"))
		if !(v >= min(from, to) && v <= max(from, to)) || from > 0 && to > 0 && !(v > 0) {
			t.Fatalf("%v between %v and %v", v, from, to)
		}
	})
	for _, c := range []struct{ from, to, want float64 }{{0.001, 0.0011, 0.00105}, {0.004, 0.001, 0.002}, {0, 0.05, 0.025},
		{0, 0.001, 0.0005}, {0.72, 0.81, 0.764}, {40, 90, 60}, {10.4, 10.6, 10.4}} {
		if v := valueAt([]float64{c.from, c.to}, 0.5); v != c.want {
			t.Errorf("%v between %v and %v, want %v", v, c.from, c.to, c.want)
		}
	}
}

// The first knob allows only whole numbers, so every run must have a whole number for it. The second knob allows fractions, and the search
// must also try fractions for it.
func TestSearchTriesWholeNumbersOnly(t *testing.T) {
	s := Search[run]{Share: 0.99, Tries: [][]float64{{9, 5, 2, 1, 0}, {3, 2, 1}}, Whole: []bool{true, false}}
	s.Play = func(_ context.Context, x []float64) (run, error) {
		r := run{Cost: 20 - x[0] - x[1]/2}
		r.OnTime, r.MeetsSLO = 0.995, true
		return r, nil
	}
	if _, err := s.Climb(context.Background(), []float64{5, 2}); err != nil {
		t.Fatal(err)
	}
	parts := 0
	for _, tried := range s.Ranked() {
		if tried.Settings[0] != math.Round(tried.Settings[0]) {
			t.Errorf("%v was tried", tried.Settings)
		}
		if tried.Settings[1] != math.Round(tried.Settings[1]) {
			parts++
		}
	}
	if parts == 0 {
		t.Error("no value between two tries was used for the knob that allows fractions")
	}
}

// cliff is the cost function of a search. If any knob is below 6, the run costs only 1 and has three times the allowed late requests.
// Otherwise it meets the SLO, and the cost increases with each knob. The cheapest setting that meets the SLO is 6 for all knobs, with cost
// 4.
func cliff(_ context.Context, x []float64) (run, error) {
	r := run{Cost: 4}
	r.OnTime, r.MeetsSLO = 0.99, true
	for _, v := range x {
		if r.Cost += 3 * (v - 6); v < 6 {
			r.OnTime, r.MeetsSLO = 0.97, false
		}
	}
	if !r.MeetsSLO {
		r.Cost = 1
	}
	return r, nil
}

// The search starts at 0 for all knobs, which misses the SLO, and at 30 for all knobs, which meets it at cost 436. If the
// population moves to the cheap settings that miss the SLO, it does not return to settings that meet it, and the result costs almost 436.
func TestSearchKeepsSettingsThatMeetTheSLO(t *testing.T) {
	tries := []float64{30, 20, 15, 10, 8, 6, 4, 2, 0}
	s := &Search[run]{Share: 0.99, Play: cliff}
	for range 6 {
		s.Tries = append(s.Tries, tries)
	}
	best, err := s.Climb(context.Background(), slices.Repeat([]float64{0}, 6), slices.Repeat([]float64{30}, 6))
	if err != nil {
		t.Fatal(err)
	}
	if !best.Run.MeetsSLO || !(best.Run.Cost <= 25) {
		t.Errorf("%v costs %v, want at most 25", best.Settings, best.Run.Cost)
	}
}

// No setting meets the SLO. An increase of the cost from 20 to 100 avoids only 2% of the late requests, so the search must return a setting
// that costs at most 20.
func TestSearchWithoutASolutionDoesNotPayAnyPrice(t *testing.T) {
	s := &Search[run]{Share: 0.99, Tries: [][]float64{{100, 50, 20, 10, 5, 1}}, Play: func(_ context.Context, x []float64) (run, error) {
		r := run{Cost: x[0]}
		r.OnTime = 0.9 + 0.001*min(x[0], 20) + 0.00002*x[0]
		return r, nil
	}}
	best, err := s.Climb(context.Background(), []float64{1})
	if err != nil {
		t.Fatal(err)
	}
	if !(best.Run.Cost <= 20 && best.Run.OnTime >= 0.9) {
		t.Errorf("%v costs %v at %v on time", best.Settings, best.Run.Cost, best.Run.OnTime)
	}
}
