package lowerbound_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/replay/lowerbound"
)

// The work arrives in two bursts of three units, with a gap of two slots. A replica serves one unit per slot, and a start costs three
// replica slots, so it is cheaper to keep the replicas during the gap.
func ExampleSolve() {
	interval, err := lowerbound.Solve(lowerbound.Problem{
		Arrivals: []int64{3, 0, 0, 3}, UnitsPerReplicaSlot: 1, MaxReplicas: 4, ReplicaSlotCost: 1, StartCost: 3,
	}, lowerbound.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(interval.LB, interval.UB, interval.Schedule)
	// Output: 21 21 [3 3 3 3]
}
