package deviceclaims_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/deviceclaims"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/gpupods"
)

// A claim that is not in the cache yet counts as a claim for GPUs.
func ExampleCache_MayBeGPUs() {
	claims := deviceclaims.New(func() {})
	fmt.Println(claims.MayBeGPUs("team-chat", []gpupods.ClaimRef{{Template: "unknown"}}))
	fmt.Println(claims.MayBeGPUs("team-chat", nil))
	// Output:
	// true
	// false
}
