package search_test

import (
	"context"
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/replay/search"
)

// served is the number of replicas in a run, and the result of the run.
type served float64

// Outcome returns the cost of the replicas. The SLO needs at least 5 replicas.
func (s served) Outcome() search.Outcome {
	out := search.Outcome{MeetsSLO: s >= 5, OnTime: 1, Cost: float64(s)}
	if !out.MeetsSLO {
		out.OnTime = float64(s) / 5
	}
	return out
}

// Climb finds the smallest number of replicas that meets the SLO.
func ExampleSearch_Climb() {
	s := search.Search[served]{Share: 0.99, Tries: [][]float64{{12, 8, 4, 1}}, Whole: []bool{true},
		Play: func(_ context.Context, settings []float64) (served, error) { return served(settings[0]), nil }}
	best, err := s.Climb(context.Background(), []float64{12})
	fmt.Println(best.Settings, err)
	// Output: [5] <nil>
}
