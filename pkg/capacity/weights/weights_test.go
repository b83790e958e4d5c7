package weights

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// pools returns NodePools with the given weights. Their indexes begin with first.
func pools(first int8, fixed bool, weights ...int64) (all []Pool) {
	for i, w := range weights {
		all = append(all, Pool{Index: first + int8(i), Weight: w, Fixed: fixed})
	}
	return all
}

// after returns the weights of all NodePools, by index, after the requests of PreferOnDemand.
func after(spot, onDemand, reserved []Pool) []int64 {
	all := make([]int64, len(spot)+len(onDemand)+len(reserved))
	for _, p := range slices.Concat(spot, onDemand, reserved) {
		all[p.Index] = p.Weight
	}
	for _, p := range PreferOnDemand(nil, spot, onDemand, reserved) {
		all[p.Index] = p.Weight
	}
	return all
}

func TestOnDemandIsAboveSpotAndBelowReserved(t *testing.T) {
	for name, c := range map[string]struct {
		spot, onDemand, reserved []Pool
		want                     []int64 // in the order spot, on-demand, reserved
	}{
		"on-demand is raised":               {pools(0, false, 80), pools(1, false, 20), nil, []int64{80, 81}},
		"it is first already":               {pools(0, false, 20), pools(1, false, 80), nil, []int64{20, 80}},
		"an absent weight is 0":             {pools(0, false, 0), pools(1, false, 0), nil, []int64{0, 1}},
		"at the top both move":              {pools(0, false, 100), pools(1, false, 100), nil, []int64{99, 100}},
		"spot is lowered where only it may": {pools(0, false, 80), pools(1, true, 20), nil, []int64{19, 20}},
		"spot cannot go below 1":            {pools(0, false, 80), pools(1, true, 1), nil, []int64{80, 81}},
		"the order of a type stays":         {pools(0, false, 80, 60), pools(2, false, 10, 20), nil, []int64{80, 60, 81, 82}},
		"one of a type may not be set": {pools(0, false, 9, 8), slices.Concat(pools(2, true, 7), pools(3, false, 6)), nil,
			[]int64{5, 4, 7, 6}},
		"reserved is raised too":           {pools(0, false, 80), pools(1, false, 20), pools(2, false, 81), []int64{80, 81, 82}},
		"reserved after on-demand stays":   {pools(0, false, 80), pools(1, false, 20), pools(2, false, 10), []int64{80, 81, 10}},
		"spot is lowered below reserved":   {pools(0, false, 80), pools(1, false, 20), pools(2, true, 81), []int64{79, 80, 81}},
		"nothing but on-demand may be set": {pools(0, true, 80), pools(1, false, 20), pools(2, true, 81), []int64{80, 81, 81}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := after(c.spot, c.onDemand, c.reserved); !slices.Equal(got, c.want) {
				t.Errorf("weights %v, want %v", got, c.want)
			}
		})
	}
}

// For all weights, each on-demand NodePool must have a higher weight than each spot NodePool after the call, and NodePools of one type
// must keep their order.
func TestEveryOnDemandNodePoolPrecedesEverySpotNodePool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string, first int8, least int) []Pool {
			// with at most three NodePools of a type, 100 weights are enough
			return pools(first, false, rapid.SliceOfN(rapid.Int64Range(0, greatest), least, 3).Draw(t, label)...)
		}
		spot := draw("spot", 0, 1)
		onDemand := draw("onDemand", int8(len(spot)), 1)
		reserved := draw("reserved", int8(len(spot)+len(onDemand)), 0)
		before := slices.Concat(spot, onDemand, reserved)
		got := after(spot, onDemand, reserved)
		for i := range before {
			for j := range before {
				sameType := (i < len(spot)) == (j < len(spot)) && (i < len(spot)+len(onDemand)) == (j < len(spot)+len(onDemand))
				if isSpot, isOnDemand := i < len(spot), j >= len(spot) && j < len(spot)+len(onDemand); isSpot && isOnDemand && got[i] >= got[j] {
					t.Errorf("%v -> %v: on-demand NodePool %d is not above spot NodePool %d", before, got, j, i)
				}
				if sameType && before[i].Weight < before[j].Weight && got[i] > got[j] {
					t.Errorf("%v -> %v: the order of NodePools %d and %d changed", before, got, i, j)
				}
			}
		}
	})
}

func ExamplePreferOnDemand() {
	spot, onDemand := []Pool{{Index: 0, Weight: 50}}, []Pool{{Index: 1, Weight: 10}}
	for _, p := range PreferOnDemand(nil, spot, onDemand, nil) {
		fmt.Printf("NodePool %d: weight %d\n", p.Index, p.Weight)
	}
	// Output: NodePool 1: weight 51
}
