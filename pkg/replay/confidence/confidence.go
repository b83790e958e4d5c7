// Package confidence computes confidence intervals of means from a small number of independent groups, such as seeds or parts of a trace.
package confidence

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Groups contains values by the number of their group. Values in one group are not independent, for example because they are from runs with
// the same traffic. Values in different groups are independent.
type Groups map[uint64][]float64

// Add adds a value to a group.
func (g *Groups) Add(group uint64, value float64) {
	if *g == nil {
		*g = Groups{}
	}
	(*g)[group] = append((*g)[group], value)
}

// students are the 95% quantiles of Student's t-distribution for 1, 2, ... degrees of freedom. The last value is also used for more degrees
// of freedom.
var students = []float64{6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81}

// Interval is a mean and its 90% confidence interval.
type Interval struct {
	Mean float64 `json:"mean"`
	// Low and High are the limits of the interval. With one group, they are infinite.
	Low  float64 `json:"-"`
	High float64 `json:"-"`
	// Half is half the length of the interval. It is absent with one group.
	Half *float64 `json:"halfInterval,omitempty"`
}

// Interval returns the mean of the means of all groups, with its confidence interval. Without a group, the mean is NaN.
func (g Groups) Interval() (out Interval) {
	var means []float64
	for _, group := range slices.Sorted(maps.Keys(g)) { // sorted, so that floating-point sums are the same in each run
		sum := 0.0
		for _, v := range g[group] {
			sum += v
		}
		means = append(means, sum/float64(len(g[group])))
		out.Mean += means[len(means)-1]
	}
	n := float64(len(means))
	out.Mean /= n
	if len(means) < 2 {
		out.Low, out.High = math.Inf(-1), math.Inf(1)
		return out
	}
	squares := 0.0
	for _, m := range means {
		squares += (m - out.Mean) * (m - out.Mean)
	}
	half := students[min(len(means)-2, len(students)-1)] * math.Sqrt(squares/(n-1)/n)
	out.Low, out.High, out.Half = out.Mean-half, out.Mean+half, &half
	return out
}

func (g Groups) String() string {
	i := g.Interval()
	return fmt.Sprintf("mean %.2f (90%%: %.2f to %.2f)", i.Mean, i.Low, i.High)
}
