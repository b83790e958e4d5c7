// Package report writes a bill of package cost as text for a terminal, as CSV for chargeback, as JSON, as Prometheus metrics, and as an
// HTML page in one file.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/picture"
)

// WriteJSON writes the bill as JSON in the form of cost.Bill.
func WriteJSON(w io.Writer, b *cost.Bill) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(b)
}

// maxRows is the maximum number of rows of a table in the text report. The CSV and JSON reports contain all rows.
const maxRows = 25

// WriteText writes the bill for a terminal.
func WriteText(w io.Writer, b *cost.Bill) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "GPU COST%s  %s\n", prefixed("  ", b.Cluster), period(b))
	fmt.Fprintln(out, headline(b))
	for _, line := range details(b) {
		fmt.Fprintln(out, line)
	}
	for _, t := range groups(b, maxRows) {
		fmt.Fprintf(out, "\n%s", t)
	}
	for _, t := range advice(b) {
		fmt.Fprintf(out, "\n%s: %s\n%s", strings.ToUpper(t.Title), t.Note, t)
		if t.Foot != "" {
			fmt.Fprintln(out, t.Foot)
		}
	}
	if len(b.Notes) > 0 {
		fmt.Fprintln(out, "\nMEASUREMENT")
		for _, n := range b.Notes {
			fmt.Fprintln(out, "-", n)
		}
	}
	for i, p := range b.Prices {
		fmt.Fprintf(out, "%s %s: %s GPU-hours\n", [...]string{"- Prices from", "         from"}[min(i, 1)], p.From, hours(p.GPUHours))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func period(b *cost.Bill) string {
	const layout = "2006-01-02 15:04"
	return fmt.Sprintf("%s to %s UTC (%s), means over %s", b.From.UTC().Format(layout), b.To.UTC().Format(layout),
		picture.Span(b.To.Sub(b.From)), picture.Span(time.Duration(b.Step*float64(time.Second))))
}

// headline returns the summary in one sentence.
func headline(b *cost.Bill) string {
	t := &b.Total
	if !t.Priced() {
		return fmt.Sprintf("%s GPU-hours without a known price.", hours(t.GPUHours))
	}
	text := fmt.Sprintf("%s for %s GPU-hours: %s (%s) was idle",
		dollars(t.Cost), hours(t.GPUHours-t.UnpricedGPUHours), dollars(t.Idle()), percent(t.Idle(), t.Cost))
	if t.Unmeasured > 0 {
		text += fmt.Sprintf(", %s (%s) was not measured", dollars(t.Unmeasured), percent(t.Unmeasured, t.Cost))
	}
	return text + "."
}

func details(b *cost.Bill) (out []string) {
	t := &b.Total
	if t.Priced() {
		out = append(out, fmt.Sprintf("Idle by activity %s, idle by memory %s (only if the activity is unknown), not allocated to a pod %s.",
			dollars(t.IdleByActivity), dollars(t.IdleByMemory), dollars(t.Unallocated)))
	}
	if t.UnpricedGPUHours > 0 && t.Priced() {
		out = append(out, fmt.Sprintf("Not in these sums: %s GPU-hours without a known price.", hours(t.UnpricedGPUHours)))
	}
	return out
}

// groups returns the tables by team, namespace, workload, instance type, capacity type and use. The parameter limit is the maximum number
// of rows of a table. If a table has more rows, its last row contains the sum of the omitted rows.
func groups(b *cost.Bill, limit int) (all []picture.Table) {
	for _, g := range []struct {
		title, name string
		rows        []cost.Group
	}{
		{"Teams", "team", b.Teams}, {"Namespaces", "namespace", b.Namespaces}, {"Workloads", "workload", b.Workloads},
		{"Instance types", "instance type", b.Instances}, {"Capacity types", "capacity type", b.Capacity},
		{"Use of the GPUs", "use of the GPUs", b.Uses},
	} {
		if len(g.rows) == 0 {
			continue
		}
		t := picture.Table{Title: g.title,
			Heads: []string{g.name, "GPU-hours", "cost", "share of all", "idle", "idle share", "not measured", "busy"}}
		if rest := len(g.rows) - limit; rest > 0 {
			more := cost.Group{Name: fmt.Sprintf("%d more", rest)}
			for i := range g.rows[limit:] {
				more.Sum.Add(&g.rows[limit+i].Sum)
			}
			g.rows = append(slices.Clone(g.rows[:limit]), more)
		}
		for i := range g.rows {
			s := &g.rows[i].Sum
			t.Rows = append(t.Rows, []any{
				g.rows[i].Name, hours(s.GPUHours), money(s), share(s, s.Cost, b.Total.Cost),
				orUnknown(s, s.Idle()), share(s, s.Idle(), s.Cost), orUnknown(s, s.Unmeasured), activity(s),
			})
		}
		all = append(all, t)
	}
	return all
}

// advice returns the tables of idle notebooks and of workloads that fit a MIG slice. Empty tables are omitted.
func advice(b *cost.Bill) []picture.Table {
	idle := picture.Table{
		Title: "Idle notebooks", Note: "they have allocated GPUs and do not use them",
		Heads: []string{"owner", "-pod", "GPUs", "idle since", "idle for", "per hour", "cost since"},
	}
	for _, n := range b.Notebooks {
		idle.Rows = append(idle.Rows, []any{
			n.Owner, n.Namespace + "/" + n.Pod, fmt.Sprint(n.GPUs, " ", n.Model), n.IdleSince.UTC().Format("Jan 2 15:04"),
			picture.Span(b.To.Sub(n.IdleSince)), ifKnown(n.Priced, n.Hourly), ifKnown(n.Priced, n.Cost),
		})
	}
	mig := picture.Table{
		Title: "Workloads that fit a MIG slice", Note: "savings if other workloads use the rest of the GPU",
		Heads: []string{"workload", "-on", "-fits", "peak memory", "peak activity", "GPU-hours", "cost", "saves"},
		Foot: "Not checked: pods with several GPUs, and GPUs that are partitioned or shared. A model server that allocates memory in advance " +
			"(vLLM) reports all memory as used: reduce its share (--gpu-memory-utilization) for a meaningful value.",
	}
	for _, s := range b.Slices {
		mig.Rows = append(mig.Rows, []any{
			s.Namespace + "/" + s.Workload, s.Model, "nvidia.com/mig-" + s.Profile, fmt.Sprintf("%.1f GiB", s.PeakMiB/1024),
			percent(s.PeakActivity, 1), hours(s.GPUHours), ifKnown(s.Priced, s.Cost), ifKnown(s.Priced, s.Saves),
		})
	}
	unpriced := picture.Table{
		Title: "Instance types without a price", Note: "add the price to the price book (--prices) or to prices.overrides of the PlatformConfig",
		Heads: []string{"instance type", "capacity type", "region", "zone", "GPU-hours"},
	}
	for _, u := range b.Unpriced {
		unpriced.Rows = append(unpriced.Rows, []any{
			unknown(u.InstanceType), unknown(u.CapacityType), unknown(u.Region), unknown(u.Zone), hours(u.GPUHours),
		})
	}
	return slices.DeleteFunc([]picture.Table{idle, mig, unpriced}, func(t picture.Table) bool { return len(t.Rows) == 0 })
}

func unknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + picture.Clean(s)
}

// money formats the cost of a sum. The result is "?" if no GPU-hour has a known price, and the cost with "+ ?" if only some GPU-hours
// have a known price.
func money(s *cost.Sum) string {
	switch {
	case !s.Priced():
		return "?"
	case s.UnpricedGPUHours > 0:
		return dollars(s.Cost) + " + ?"
	}
	return dollars(s.Cost)
}

func orUnknown(s *cost.Sum, v float64) string { return ifKnown(s.Priced(), v) }

func ifKnown(known bool, v float64) string {
	if !known {
		return "?"
	}
	return dollars(v)
}

func share(s *cost.Sum, part, whole float64) string {
	if !s.Priced() || whole <= 0 {
		return "-"
	}
	return percent(part, whole)
}

func activity(s *cost.Sum) string {
	if a := s.Activity(); a.Known {
		return percent(a.Value, 1)
	}
	return "?"
}

// dollars formats an amount of money, for example 1234.5 as $1,234.50. It formats an amount below half a cent as <$0.01, because $0.00
// would mean no cost.
func dollars(v float64) string {
	if v > 0 && v < 0.005 {
		return "<$0.01"
	}
	text := strconv.FormatFloat(math.Abs(v), 'f', 2, 64)
	whole, cents, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return "$" + text // the amount does not fit in an int64
	}
	return "$" + picture.Thousands(n) + "." + cents
}

// hours formats a number of GPU-hours: with three decimals if it is below 1, otherwise with one decimal.
func hours(v float64) string {
	if v < 1 {
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

func percent(part, whole float64) string {
	if whole <= 0 {
		return "-"
	}
	return strconv.FormatFloat(100*part/whole, 'f', 1, 64) + "%"
}
