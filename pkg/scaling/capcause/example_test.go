package capcause_test

import (
	"fmt"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/capcause"
)

// The spot NodePool of a group is at its limit, and launches in the on-demand NodePool fail.
func ExampleCause_Text() {
	cause := capcause.Cause{Group: "chat", Resource: "nvidia.com/gpu", Pools: []capcause.Pool{
		{Name: "gpu-spot", Kind: capcause.Limit, Limited: "nvidia.com/gpu", Limit: 8, Used: 8, Units: 8, Unmanaged: 2},
		{Name: "gpu-ondemand", Kind: capcause.Refused, Refused: 3},
	}}
	fmt.Println(strings.ReplaceAll(cause.Text(), ", and ", ", and\n"))
	// Output:
	// NodePool gpu-spot is at its owner's limit of 8 GPUs, 2 of them used by pods that no policy of the group manages, and
	// 3 launches failed for lack of capacity in NodePool gpu-ondemand
}
