package report_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/report"
)

// Verdict and Settings are the texts of a run in the table of WriteText.
func ExampleVerdict() {
	run := &evaluate.Run{Name: "HPA on queue", Load: evaluate.Load{
		OnTime: 0.93, Settings: []evaluate.Setting{{Name: "target", Value: 4}},
	}}
	fmt.Println(report.Verdict(run))
	fmt.Println(report.Settings(&run.Load))
	// Output:
	// misses SLO
	// target 4
}
