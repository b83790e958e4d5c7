package teams_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/teams"
)

// Two workloads share 8 GPUs. Replicas that run are kept, and the remaining GPUs are divided by dominant share.
func ExampleDivide() {
	perReplica := func(n int64) []teams.Amount { return []teams.Amount{{PerReplica: n, Known: true}} }
	limits := []teams.Limit{{Resource: "nvidia.com/gpu", Max: 8}}
	members := []teams.Member{
		{Key: "chat/llama", Want: 6, Running: 3, Amounts: perReplica(1)},
		{Key: "chat/mixtral", Want: 4, Min: 1, Amounts: perReplica(2)},
	}
	shares := make([]teams.Share, len(members))
	teams.Divide(limits, []int64{0}, members, shares)
	for i, s := range shares {
		fmt.Printf("%s needs %d replicas and receives %d\n", members[i].Key, members[i].Want, s.Max)
	}
	// Output:
	// chat/llama needs 6 replicas and receives 4
	// chat/mixtral needs 4 replicas and receives 2
}
