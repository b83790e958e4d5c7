package confidence_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/replay/confidence"
)

// There are two seeds with two values each. The interval is wide, because the means of two seeds are a small sample.
func ExampleGroups() {
	var costs confidence.Groups
	costs.Add(1, 1.0)
	costs.Add(1, 1.2)
	costs.Add(2, 1.3)
	costs.Add(2, 1.3)
	fmt.Println(costs)
	// Output: mean 1.20 (90%: 0.57 to 1.83)
}
