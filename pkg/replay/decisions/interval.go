package decisions

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// bySeed are values of cells, grouped by their seed. Cells of one seed have the same traffic, so they are not independent.
type bySeed map[uint64][]float64

func (b *bySeed) add(seed uint64, value float64) {
	if *b == nil {
		*b = bySeed{}
	}
	(*b)[seed] = append((*b)[seed], value)
}

// students are the 95% quantiles of Student's t-distribution for 1, 2, ... degrees of freedom. The last one is also used for more degrees
// of freedom.
var students = []float64{6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81}

// interval returns the mean over the seeds of the mean of their values, and a 90% confidence interval of it. With one seed, low and high
// are infinite.
func (b bySeed) interval() (mean, low, high float64) {
	var means []float64
	for _, seed := range slices.Sorted(maps.Keys(b)) { // in this order, the sums are the same in each run
		sum := 0.0
		for _, v := range b[seed] {
			sum += v
		}
		means = append(means, sum/float64(len(b[seed])))
		mean += means[len(means)-1]
	}
	n := float64(len(means))
	mean /= n
	if len(means) < 2 {
		return mean, math.Inf(-1), math.Inf(1)
	}
	squares := 0.0
	for _, m := range means {
		squares += (m - mean) * (m - mean)
	}
	half := students[min(len(means)-2, len(students)-1)] * math.Sqrt(squares/(n-1)/n)
	return mean, mean - half, mean + half
}

func (b bySeed) String() string {
	mean, low, high := b.interval()
	return fmt.Sprintf("mean %.2f (90%%: %.2f to %.2f)", mean, low, high)
}
