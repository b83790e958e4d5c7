package planner_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// New returns the planner of a new policy with an objective.
func ExampleNew() {
	fmt.Println(planner.New() != nil)
	// Output: true
}
