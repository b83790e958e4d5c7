// Package report renders a bill of package cost: a table for a terminal, CSV for those who charge it back, JSON and the Prometheus text
// format for machines, and one self-contained HTML file.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/picture"
)

// WriteJSON writes the bill as JSON; its shape is cost.Bill's.
func WriteJSON(w io.Writer, b *cost.Bill) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(b)
}

// mostRows is how many workloads a table for people shows. CSV and JSON hold all.
const mostRows = 25

// WriteText writes the bill for a terminal.
func WriteText(w io.Writer, b *cost.Bill) error {
	out := &strings.Builder{}
	fmt.Fprintf(out, "GPU COST%s  %s\n", prefixed("  ", b.Cluster), period(b))
	fmt.Fprintln(out, headline(b))
	for _, line := range details(b) {
		fmt.Fprintln(out, line)
	}
	groups(out, "TEAM", b.Teams, b, len(b.Teams))
	groups(out, "NAMESPACE", b.Namespaces, b, len(b.Namespaces))
	groups(out, "WORKLOAD", b.Workloads, b, mostRows)
	groups(out, "INSTANCE TYPE", b.Instances, b, len(b.Instances))
	groups(out, "CAPACITY TYPE", b.Capacity, b, len(b.Capacity))
	groups(out, "USE OF THE GPUS", b.Uses, b, len(b.Uses))
	notebooks(out, b)
	migAdvice(out, b)
	unpriced(out, b)
	if len(b.Notes) > 0 {
		fmt.Fprintln(out, "\nHOW IT WAS MEASURED")
		for _, n := range b.Notes {
			fmt.Fprintln(out, "-", n)
		}
	}
	for i, p := range b.Prices {
		fmt.Fprintf(out, "%s %s: %s GPU-hours\n", [...]string{"- Prices by", "         by"}[min(i, 1)], p.From, hours(p.GPUHours))
	}
	_, err := io.WriteString(w, trim(out.String()))
	return err
}

func period(b *cost.Bill) string {
	return fmt.Sprintf("%s to %s UTC (%s), means over %s", b.From.UTC().Format("2006-01-02 15:04"), b.To.UTC().Format("2006-01-02 15:04"),
		span(b.To.Sub(b.From)), span(time.Duration(b.Step*float64(time.Second))))
}

// headline is the sentence that a reader takes away.
func headline(b *cost.Bill) string {
	t := &b.Total
	if !t.Priced() {
		return fmt.Sprintf("%s GPU-hours, and no price is known for any of them.", hours(t.GPUHours))
	}
	text := fmt.Sprintf("%s for %s GPU-hours; %s of it (%s) was idle", dollars(t.Cost), hours(t.GPUHours-t.UnpricedGPUHours), dollars(t.Idle()), percent(t.Idle(), t.Cost))
	if t.Unmeasured > 0 {
		text += fmt.Sprintf(", and of %s (%s) it is not known", dollars(t.Unmeasured), percent(t.Unmeasured, t.Cost))
	}
	return text + "."
}

func details(b *cost.Bill) (out []string) {
	t := &b.Total
	if t.Priced() {
		out = append(out, fmt.Sprintf("Idle by activity %s, by memory %s (where activity is not known), held by nobody %s.", dollars(t.IdleByActivity), dollars(t.IdleByMemory), dollars(t.Unheld)))
	}
	if t.UnpricedGPUHours > 0 && t.Priced() {
		out = append(out, fmt.Sprintf("Not in these sums: %s GPU-hours without a known price.", hours(t.UnpricedGPUHours)))
	}
	return out
}

func groups(out io.Writer, title string, all []cost.Group, b *cost.Bill, most int) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(out)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, title+"\tGPU-H\tCOST\tSHARE\tIDLE\tOF COST\tUNMEASURED\tACTIVITY")
	for _, g := range all[:min(most, len(all))] {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", clean(g.Name), hours(g.GPUHours), money(&g.Sum), share(&g.Sum, g.Cost, b.Total.Cost),
			orUnknown(&g.Sum, g.Idle()), share(&g.Sum, g.Idle(), g.Cost), orUnknown(&g.Sum, g.Unmeasured), activity(&g.Sum))
	}
	if rest := len(all) - most; rest > 0 {
		var sum cost.Sum
		for i := range all[most:] {
			sum.Add(&all[most+i].Sum)
		}
		fmt.Fprintf(t, "%d more\t%s\t%s\t%s\n", rest, hours(sum.GPUHours), money(&sum), share(&sum, sum.Cost, b.Total.Cost))
	}
	t.Flush()
}

func notebooks(out io.Writer, b *cost.Bill) {
	if len(b.Notebooks) == 0 {
		return
	}
	fmt.Fprintln(out, "\nFORGOTTEN NOTEBOOKS: they hold GPUs and do nothing")
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "OWNER\tPOD\tGPUS\tIDLE SINCE\tFOR\tAN HOUR\tCOST SINCE")
	for _, n := range b.Notebooks {
		fmt.Fprintf(t, "%s\t%s\t%d %s\t%s\t%s\t%s\t%s\n", clean(n.Owner), clean(n.Namespace+"/"+n.Pod), n.GPUs, clean(n.Model), n.IdleSince.UTC().Format("01-02 15:04"), span(b.To.Sub(n.IdleSince)),
			ifKnown(n.Priced, n.Hourly), ifKnown(n.Priced, n.Cost))
	}
	t.Flush()
}

func migAdvice(out io.Writer, b *cost.Bill) {
	if len(b.Slices) == 0 {
		return
	}
	fmt.Fprintln(out, "\nWOULD FIT A MIG SLICE: what it saves once the rest of the GPU serves others")
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "WORKLOAD\tON\tFITS\tPEAK MEMORY\tPEAK ACTIVITY\tGPU-H\tCOST\tSAVES")
	for _, s := range b.Slices {
		fmt.Fprintf(t, "%s\t%s\tnvidia.com/mig-%s\t%.1f GiB\t%s\t%s\t%s\t%s\n", clean(s.Namespace+"/"+s.Workload), clean(s.Model), s.Profile, s.PeakMiB/1024, percent(s.PeakActivity, 1), hours(s.GPUHours),
			ifKnown(s.Priced, s.Cost), ifKnown(s.Priced, s.Saves))
	}
	t.Flush()
	fmt.Fprintln(out, "Not judged: pods with several GPUs, GPUs cut or shared already. A model server that allocates ahead (vLLM) shows all memory as used: lower its share to see.")
}

func unpriced(out io.Writer, b *cost.Bill) {
	if len(b.Unpriced) == 0 {
		return
	}
	fmt.Fprintln(out, "\nNO PRICE IS KNOWN: add it to the price book (--prices) or as an override in the PlatformConfig")
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "INSTANCE TYPE\tCAPACITY TYPE\tREGION\tZONE\tGPU-H")
	for _, u := range b.Unpriced {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", unknown(clean(u.InstanceType)), unknown(clean(u.CapacityType)), unknown(clean(u.Region)), unknown(clean(u.Zone)), hours(u.GPUHours))
	}
	t.Flush()
}

// clean takes what could move a terminal's cursor out of a label's value.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
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
	return prefix + clean(s)
}

// money is a sum's cost: what is known of it, and that there is more.
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

// dollars writes 1234.5 as $1,234.50. Sums below a cent are not rounded to nothing.
func dollars(v float64) string {
	if v > 0 && v < 0.005 {
		return "<$0.01"
	}
	text := strconv.FormatFloat(math.Abs(v), 'f', 2, 64)
	whole, cents, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return "$" + text // more than a number can hold
	}
	return "$" + picture.Thousands(n) + "." + cents
}

// hours writes GPU-hours; less than one is a test of half a minute, which is not 0.0.
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

// span writes 168h0m0s as 7d.
func span(d time.Duration) string {
	d = d.Round(time.Second)
	text := ""
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / u.unit; n > 0 {
			text += fmt.Sprintf("%d%s", n, u.name)
			d -= n * u.unit
		}
	}
	if text == "" {
		return "0s"
	}
	return text
}

// trim takes the blanks off the ends of lines, which a table leaves.
func trim(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
