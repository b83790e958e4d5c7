package manual_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/manual"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
)

// A pause on the HPA also pauses the workload, which has no annotation itself.
func ExampleMerge() {
	workload := manual.ReadOperator(nil, nil)
	hpa := manual.ReadOperator(map[string]string{annotations.Paused: "true"}, nil)
	operator, by := manual.Merge(&workload, &hpa)
	fmt.Println(operator.Paused, "by", by)
	// Output: true by an unknown manager
}
