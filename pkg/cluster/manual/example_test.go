package manual_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/manual"
	"github.com/gpuscaler/gpuscaler/pkg/policy/annotations"
)

// A pause annotation on the HPA pauses the workload, although the workload itself has no annotation.
func ExampleMerge() {
	workload := manual.ReadOperator(nil, nil)
	hpa := manual.ReadOperator(map[string]string{annotations.Paused: "true"}, nil)
	operator, by := manual.Merge(&workload, &hpa)
	fmt.Println(operator.Paused, "by", by)
	// Output: true by an unknown manager
}
