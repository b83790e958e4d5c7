package scenario_test

import (
	"fmt"
	"path/filepath"

	"github.com/gpuscaler/gpuscaler/pkg/replay/scenario"
)

// Open reads a scenario with the policies, traffic and NodePools that it names. Evaluate runs its cases.
func ExampleOpen() {
	s, err := scenario.Open(filepath.Join(shipped, "training-spot", "scenario.yaml"))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Name, s.For)
	for _, w := range s.Workloads {
		fmt.Printf("%s: %d GPUs per replica, static fleet of %d, NodePools %v\n", w.Policy.Workload.Key, w.GPUs, w.Static, w.Pools)
	}
	// Output:
	// training-spot 72h0m0s
	// team-train/finetune: 1 GPUs per replica, static fleet of 6, NodePools [spot on-demand]
	// team-chat/chat: 1 GPUs per replica, static fleet of 4, NodePools [on-demand]
}
