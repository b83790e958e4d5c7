package spotbench_test

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/spotbench"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
)

// No spot node is available in the second of six hours. The plan that knows the trace pays, for each of four replicas, five spot hours at
// $1 and one on-demand hour at $3.
func ExampleCompare() {
	market := &spotmarket.Trace{Name: "outage", Duration: 6 * time.Hour, Initial: 6,
		Events: []spotmarket.Event{{At: time.Hour, Lost: 6}, {At: 2 * time.Hour, Added: 6}}}
	r, err := spotbench.Compare(context.Background(), spotbench.Case{
		Spot: []*spotmarket.Trace{market}, Replicas: 4, SpotHourly: 1, OnDemandHourly: 3, ColdStart: 5 * time.Minute, Seed: 1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("lowest cost $%.2f\n", r.Least)
	for _, run := range r.Runs {
		if run.Name == "gpuscaler" || run.Name == "on demand only" {
			fmt.Printf("%s: $%.0f, %.1f%% available\n", run.Name, run.Cost, 100*run.Availability)
		}
	}
	// Output:
	// lowest cost $32.00
	// gpuscaler: $40, 98.6% available
	// on demand only: $72, 100.0% available
}
