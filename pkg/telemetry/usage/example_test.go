package usage_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/usage"
)

func ExampleRegionOf() {
	fmt.Println(usage.RegionOf("us-east-1a", ""), usage.RegionOf("us-central1-a", ""), usage.RegionOf("westeurope-1", "westeurope"))
	// Output: us-east-1 us-central1 westeurope
}
