package snapshot_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/snapshot"
)

// A snapshot without NodePools offers no resource.
func ExampleSnapshot_Offers() {
	var s snapshot.Snapshot
	fmt.Println(s.Offers("nvidia.com/gpu"))
	// Output: false
}
