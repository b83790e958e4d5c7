package planner_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// New returns a planner that has learned nothing yet.
func ExampleNew() {
	fmt.Println(planner.New() != nil)
	// Output: true
}
