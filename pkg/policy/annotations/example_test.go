package annotations_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
)

func ExampleParseOperator() {
	o, problems := annotations.ParseOperator(map[string]string{annotations.Override: "min=12 until=2026-11-22T06:00Z"})
	fmt.Println(o.Min, o.Until.Format(time.RFC3339), len(problems))
	_, problems = annotations.ParseOperator(map[string]string{annotations.Override: "min=12"})
	fmt.Println(problems[0].Message)
	// Output:
	// 12 2026-11-22T06:00:00Z 0
	// until is missing: an override needs an end, so it has no effect
}
