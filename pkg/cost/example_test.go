package cost_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

// A machine with two GPUs costs $4 per hour. One GPU is active for a quarter of the time, the other has no pod.
func ExampleLedger() {
	ledger := cost.NewLedger(cost.Options{})
	ledger.Add(cost.Interval{At: time.Unix(3600, 0), Hours: 1, Nodes: []cost.Node{{
		Name: "node", GPUs: 2, Observed: cost.Price{Hourly: 4, From: "Karpenter"},
		Devices: []cost.Device{
			{ID: "GPU-1", Slices: []cost.Slice{{
				Pods:     []cost.Pod{{Namespace: "team-chat", Name: "llama-0", Workload: "llama"}},
				Activity: cost.Of(0.25),
			}}},
			{ID: "GPU-2", Slices: []cost.Slice{{}}},
		},
	}}})
	bill := ledger.Bill(cost.Period{})
	fmt.Println("cost", bill.Total.Cost, "busy", bill.Total.Busy, "idle", bill.Total.IdleByActivity, "unallocated", bill.Total.Unallocated)
	// Output: cost 4 busy 0.5 idle 1.5 unallocated 2
}
