package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report contains the settings and the results that the benchmark prints.
type report struct {
	n      int
	during []string // the conditions of the flag -during
	rows   []row
	quiet  []string
	events []string
	// crashes is the number of times that the leader of two replicas is lost.
	crashes int
	rate    int      // maximum number of reads a second; 0: no maximum
	loads   []string // load of the machine at the start and at the end
}

// machineLoad returns the load averages of the last 1, 5 and 15 minutes.
func machineLoad() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 2 {
		return strings.Join(fields[:3], " ")
	}
	return "unknown"
}

// ways contains the names of the two ways to read a target.
var ways = []string{"at its port", "through the API server"}

func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "%d policies, %.0f reads a second; load of the machine at the start and at the end: %s\n", r.n,
		1/pace(r.n, r.rate).Seconds(), strings.Join(r.loads, ", "))
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "adapter\treads\tp50\tp99\tnumber\tfailed\tCPU per 1,000 reads\tthe whole chain's\tPSS")
	for _, w := range r.rows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%d MiB\n", w.adapter+with(", ", w.during), w.where,
			w.p50.Round(10*time.Microsecond), w.p99.Round(10*time.Microsecond), w.reads, w.failed, w.own.Round(time.Millisecond),
			w.chain.Round(time.Millisecond), w.pss>>20)
	}
	_ = table.Flush() // an error means that standard output is closed
	for _, where := range ways {
		r.ratio(out, row{adapter: "gpuscaler", where: where}, row{adapter: "null adapter", where: where})
	}
	var conditions []string
	for _, w := range r.rows {
		if w.during != "" && !slices.Contains(conditions, w.during) {
			conditions = append(conditions, w.during)
		}
	}
	for _, during := range conditions {
		for _, where := range ways {
			r.ratio(out, row{adapter: "gpuscaler", during: during, where: where}, row{adapter: "gpuscaler", where: where})
		}
	}
	for _, line := range slices.Concat(r.quiet, r.events) {
		fmt.Fprintln(out, line)
	}
}

// ratio prints the latencies and the CPU time of the measurement `of` divided by the values of `to`. It prints nothing if one of the
// measurements is missing.
func (r *report) ratio(out io.Writer, of, to row) {
	a, b := r.mean(of), r.mean(to)
	if a.p50 <= 0 || b.p50 <= 0 || b.own <= 0 {
		return
	}
	compared := func(a, b time.Duration) float64 { return float64(a) / float64(b) }
	fmt.Fprintf(out, "%s / %s, %s: p50 %.2f, p99 %.2f, CPU of the adapter %.2f, of the whole chain %.2f\n",
		of.adapter+with(", ", of.during), to.adapter, of.where,
		compared(a.p50, b.p50), compared(a.p99, b.p99), compared(a.own, b.own), compared(a.chain, b.chain))
}

// mean returns the mean of the measurements with the adapter, the condition and the way of reading of m.
func (r *report) mean(m row) row {
	n := time.Duration(0)
	for _, w := range r.rows {
		if w.adapter == m.adapter && w.during == m.during && w.where == m.where {
			m.p50, m.p99, m.own, m.chain = m.p50+w.p50, m.p99+w.p99, m.own+w.own, m.chain+w.chain
			n++
		}
	}
	if n > 0 {
		m.p50, m.p99, m.own, m.chain = m.p50/n, m.p99/n, m.own/n, m.chain/n
	}
	return m
}
