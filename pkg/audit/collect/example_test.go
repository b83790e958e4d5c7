package collect_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/audit/collect"
)

// A cluster without autoscalers has no workloads to audit.
func ExampleWorkloads() {
	workloads, gaps := collect.Workloads(nil, nil)
	fmt.Println(len(workloads), len(gaps))
	// Output: 0 0
}
