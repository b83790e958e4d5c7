package report_test

import (
	"context"
	"fmt"
	"os"

	"github.com/gpuscaler/gpuscaler/pkg/audit"
	"github.com/gpuscaler/gpuscaler/pkg/audit/report"
)

func ExampleWriteText() {
	sample, err := audit.Sample()
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := audit.Run(context.Background(), sample, audit.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.WriteText(os.Stdout, result))
}
