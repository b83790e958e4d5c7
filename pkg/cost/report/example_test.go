package report_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/cost/report"
)

// A GPU for $2 per hour is active for a quarter of an hour. The CSV file has one row for each workload; a spreadsheet adds them up.
func ExampleWriteCSV() {
	from := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	ledger := cost.NewLedger(cost.Options{})
	ledger.Add(cost.Interval{At: from, Hours: 1, Nodes: []cost.Node{{
		Name: "node", GPUs: 1, Observed: cost.Price{Hourly: 2, From: "Karpenter"},
		Devices: []cost.Device{{ID: "GPU-1", Slices: []cost.Slice{{
			Pods: []cost.Pod{{Namespace: "team-chat", Name: "llama-0", Workload: "llama"}}, Activity: cost.Of(0.25),
		}}}},
	}}})
	bill := ledger.Bill(cost.Period{From: from, To: from.Add(time.Hour), Step: time.Hour})
	var out bytes.Buffer
	if err := report.WriteCSV(&out, bill); err != nil {
		fmt.Println(err)
		return
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, column := range rows[0] {
		switch column {
		case "namespace", "workload", "gpu_hours", "cost_usd", "busy_usd", "idle_by_activity_usd":
			fmt.Println(column, rows[1][i])
		}
	}
	// Output:
	// namespace team-chat
	// workload llama
	// gpu_hours 1.0000
	// cost_usd 2.000000
	// busy_usd 0.500000
	// idle_by_activity_usd 1.500000
}
