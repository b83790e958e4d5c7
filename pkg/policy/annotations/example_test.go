package annotations_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
)

func ExampleParseOperator() {
	o, problems := annotations.ParseOperator(map[string]string{annotations.Override: "min=12 until=2026-11-22T06:00Z"})
	fmt.Printf("min %d until %s, %d problems\n", o.Min, o.Until.Format(time.RFC3339), len(problems))
	_, problems = annotations.ParseOperator(map[string]string{annotations.Override: "min=12"})
	fmt.Println("problem:", problems[0].Message)
	// Output:
	// min 12 until 2026-11-22T06:00:00Z, 0 problems
	// problem: until is missing: an override needs an end, so it has no effect
}
