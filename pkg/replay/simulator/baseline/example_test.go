package baseline_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
)

// A replica needs 90 s to become ready, so the second replica is requested 90 s before it is needed.
func ExamplePlanOf() {
	ready := []int32{1, 1, 1, 2, 2} // ready replicas in each minute
	for _, step := range baseline.PlanOf(ready, time.Minute, 90*time.Second) {
		fmt.Printf("at %s: %d replicas\n", step.At, step.Replicas)
	}
	// Output:
	// at 0s: 1 replicas
	// at 1m30s: 2 replicas
}
