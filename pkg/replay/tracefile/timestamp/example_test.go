package timestamp_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
)

func ExampleInRange() {
	fmt.Println(timestamp.InRange(1_800_000_000), timestamp.InRange(-1))
	// Output: true false
}
