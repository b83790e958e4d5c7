package reproducible_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
)

// The same seed and purpose give the same numbers on every machine.
func ExampleNewDraws() {
	a, b := reproducible.NewDraws(1, "node launch"), reproducible.NewDraws(1, "node launch")
	fmt.Println(a.Uniform() == b.Uniform())
	// Output: true
}
