package explain_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
)

func ExampleReason_Text() {
	names := explain.Names{Group: "chat", Resource: "nvidia.com/gpu", Pools: []string{"l40s-spot", "l40s"}, Spot: []string{"l40s-spot"},
		Alternative: []string{"l40s"}}
	r := explain.Reason{Rule: explain.RuleZeroLimit, Pool: -1}
	fmt.Println(r.Rule)
	fmt.Println(r.Text(names))
	// Output:
	// zero limit
	// no pod or policy requests nvidia.com/gpu: limits[nvidia.com/gpu] is 0 in every NodePool of group chat
}
