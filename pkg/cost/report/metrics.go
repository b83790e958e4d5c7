package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/picture"
)

// families contains the metrics of a bill. If dollars is true and a line has no known price, the metric has no series for the line,
// because a value of 0 would be wrong.
var families = []struct {
	name, help string
	basis      string // value of the label basis; empty: the metric has no such label
	dollars    bool
	value      func(*cost.Line) float64
}{
	{"gpuscaler_cost_gpu_hours", "GPU-hours over the window.", "", false, func(l *cost.Line) float64 { return l.GPUHours }},
	{"gpuscaler_cost_unpriced_gpu_hours", "GPU-hours over the window without a known price.", "", false,
		func(l *cost.Line) float64 { return l.UnpricedGPUHours }},
	{"gpuscaler_cost_dollars", "Cost over the window of the GPU-hours with a known price.", "", true,
		func(l *cost.Line) float64 { return l.Cost }},
	{"gpuscaler_cost_idle_dollars",
		"Cost over the window of idle GPUs, by the basis of the measurement: activity, memory or unallocated.", "activity", true,
		func(l *cost.Line) float64 { return l.IdleByActivity }},
	{"gpuscaler_cost_idle_dollars", "", "memory", true, func(l *cost.Line) float64 { return l.IdleByMemory }},
	{"gpuscaler_cost_idle_dollars", "", "unallocated", true, func(l *cost.Line) float64 { return l.Unallocated }},
	{"gpuscaler_cost_unmeasured_dollars", "Cost over the window of GPUs without a measurement of their activity.", "", true,
		func(l *cost.Line) float64 { return l.Unmeasured }},
}

// WriteMetrics writes the lines in the Prometheus text format, for a textfile collector or a Pushgateway.
func WriteMetrics(w io.Writer, b *cost.Bill) error {
	out := &strings.Builder{}
	window := picture.Span(b.To.Sub(b.From))
	for _, f := range families {
		if f.help != "" {
			fmt.Fprintf(out, "# HELP %s %s\n# TYPE %[1]s gauge\n", f.name, f.help)
		}
		for i := range b.Lines {
			l := &b.Lines[i]
			if f.dollars && !l.Priced() {
				continue
			}
			out.WriteString(f.name + "{")
			for _, label := range [][2]string{
				{"cluster", l.Cluster}, {"team", l.Team}, {"namespace", l.Namespace}, {"workload", l.Workload}, {"owner", l.Owner},
				{"use", string(l.Use)}, {"instance_type", l.InstanceType}, {"capacity_type", l.CapacityType}, {"basis", f.basis},
			} {
				if label[1] != "" {
					fmt.Fprintf(out, "%s=\"%s\",", label[0], escape.Replace(label[1]))
				}
			}
			fmt.Fprintf(out, "window=\"%s\"} %s\n", window, strconv.FormatFloat(f.value(l), 'g', -1, 64))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
