package report

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
)

var columns = []string{
	"period_start", "period_end", "cluster", "team", "namespace", "workload", "owner", "use", "instance_type", "capacity_type",
	"gpu_hours", "unpriced_gpu_hours",
	"cost_usd", "busy_usd", "idle_by_activity_usd", "idle_by_memory_usd", "unallocated_usd", "unmeasured_usd", "activity",
}

// WriteCSV writes a row for each line of the bill, for chargeback. An unknown cost or activity is an empty field, not 0.
func WriteCSV(w io.Writer, b *cost.Bill) error {
	out := csv.NewWriter(w)
	if err := out.Write(columns); err != nil {
		return err
	}
	from, to := b.From.UTC().Format(time.RFC3339), b.To.UTC().Format(time.RFC3339)
	for i := range b.Lines {
		l := &b.Lines[i]
		row := []string{
			from, to, cell(l.Cluster), cell(l.Team), cell(l.Namespace), cell(l.Workload), cell(l.Owner),
			string(l.Use), cell(l.InstanceType), cell(l.CapacityType),
			number(l.GPUHours, 4), number(l.UnpricedGPUHours, 4),
		}
		for _, v := range []float64{l.Cost, l.Busy, l.IdleByActivity, l.IdleByMemory, l.Unallocated, l.Unmeasured} {
			if l.Priced() {
				row = append(row, number(v, 6))
			} else {
				row = append(row, "")
			}
		}
		if a := l.Activity(); a.Known {
			row = append(row, number(a.Value, 4))
		} else {
			row = append(row, "")
		}
		if err := out.Write(row); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// cell returns the label s for a CSV file. If s begins like a formula, cell adds an apostrophe, so that a spreadsheet does not evaluate it.
func cell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

func number(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
