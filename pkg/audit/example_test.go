package audit_test

import (
	"context"
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/audit"
)

// The sample is a snapshot of a cluster with four autoscalers.
func ExampleRun() {
	sample, err := audit.Sample()
	if err != nil {
		fmt.Println(err)
		return
	}
	report, err := audit.Run(context.Background(), sample, audit.Options{})
	fmt.Println(report.Snapshot() == sample, err)
}
