package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/usage"
)

// target is a running adapter and the two ways to read from it.
type target struct {
	name          string
	port, through *reader
	process       *stack.Process
}

func (c *cluster) target(name, address string, p *stack.Process) (*target, error) {
	certificate, key := c.frontProxy()
	port, err := atPort(address, certificate, key)
	if err != nil {
		return nil, err
	}
	through, err := throughAPIServer(c.reading)
	return &target{name, port, through, p}, err
}

// leader returns the leader of gpuscaler as a target.
func (c *cluster) leader(ctx context.Context, ours *controller.Controller) (*target, error) {
	pod, err := ours.Leader(ctx)
	if err != nil {
		return nil, err
	}
	p := ours.Kubelet.Process(controller.Namespace, pod.Name)
	if p == nil {
		return nil, fmt.Errorf("pod %s has no process", pod.Name)
	}
	return c.target("gpuscaler", pod.Status.PodIP+":6443", p)
}

// row is the result of one measurement.
type row struct {
	adapter, where string
	latencies
	own, chain time.Duration // CPU per 1,000 reads: of the adapter, and of the adapter, the API server, etcd and Prometheus
	pss        int64
}

// measure measures the reads at the port of an adapter and through the API server.
func (c *cluster) measure(ctx context.Context, t *target, r *report, d time.Duration) error {
	for _, way := range []struct {
		where string
		*reader
	}{{"at its port", t.port}, {"through the API server", t.through}} {
		step("%s: reads %s", t.name, way.where)
		before, err := c.cpu()
		if err != nil {
			return err
		}
		l, err := way.load(ctx, c.n, d)
		if err != nil {
			return err
		}
		after, err := c.cpu()
		if err != nil {
			return err
		}
		pss, err := usage.PSS(t.process.Pid())
		if err != nil {
			return err
		}
		row := row{adapter: t.name, where: way.where, latencies: l, pss: pss}
		for name := range after {
			spent := (after[name] - before[name]) * 1000 / time.Duration(l.reads)
			if name == t.process.Name {
				row.own = spent
			}
			if name == t.process.Name || name == "kube-apiserver" || name == "etcd" || name == "prometheus" {
				row.chain += spent
			}
		}
		r.rows = append(r.rows, row)
	}
	return nil
}

// cpu returns the CPU time of each running process, by name.
func (c *cluster) cpu() (map[string]time.Duration, error) {
	all := map[string]time.Duration{}
	for _, p := range c.stack.Processes() {
		if ended, _ := p.Exited(); ended {
			continue
		}
		spent, err := usage.CPU(p.Pid())
		if err != nil {
			return nil, err
		}
		all[p.Name] += spent
	}
	return all, nil
}

// quiet describes what happens while no policy is read and nothing changes.
func (c *cluster) quiet(ctx context.Context, d time.Duration) (string, error) {
	step("gpuscaler: without reads and changes")
	queries := func() (float64, error) {
		return usage.Sum(ctx, http.DefaultClient, c.stack.Prometheus.URL+"/metrics", `prometheus_http_requests_total{`, `handler="/api/v1/query`)
	}
	queriesBefore, err := queries()
	if err != nil {
		return "", err
	}
	requestsBefore, err := c.requests.Requests()
	if err != nil {
		return "", err
	}
	cpuBefore, err := c.cpu()
	if err != nil {
		return "", err
	}
	began := time.Now()
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return "", ctx.Err()
	}
	cpuAfter, err := c.cpu()
	if err != nil {
		return "", err
	}
	requestsAfter, err := c.requests.Requests()
	if err != nil {
		return "", err
	}
	queriesAfter, err := queries()
	if err != nil {
		return "", err
	}
	var requests []string
	for _, name := range slices.Sorted(maps.Keys(requestsAfter)) {
		if made := requestsAfter[name] - requestsBefore[name]; made > 0 {
			requests = append(requests, fmt.Sprintf("%d %s", made, name))
		}
	}
	sent, err := c.events(ctx, began)
	if err != nil {
		return "", err
	}
	perHour := func(match string) (spent float64) {
		for name := range cpuAfter {
			if strings.Contains(name, match) {
				spent += (cpuAfter[name] - cpuBefore[name]).Seconds() * 3600 / d.Seconds() / float64(c.n)
			}
		}
		return spent
	}
	return fmt.Sprintf("%s without reads and changes: %.0f Prometheus queries a minute; requests to the API server: %s; %s; CPU seconds per "+
		"policy and hour: gpuscaler %.3f, Prometheus %.3f", d, (queriesAfter-queriesBefore)/d.Minutes(), strings.Join(requests, ", "),
		sent, perHour(controller.Namespace), perHour("prometheus")), nil
}

// events describes the Events that gpuscaler sent since the given time: how many with each reason, and the oldest note of each.
func (c *cluster) events(ctx context.Context, since time.Time) (string, error) {
	var list eventsv1.EventList
	if err := c.stack.Client.List(ctx, &list); err != nil {
		return "", err
	}
	count, note := map[string]int{}, map[string]string{}
	for _, e := range list.Items {
		if e.ReportingController == "gpuscaler.io/gpuscaler" && e.EventTime.After(since) {
			count[e.Reason]++
			note[e.Reason] = cmp.Or(note[e.Reason], e.Note)
		}
	}
	text := "no Events"
	for _, reason := range slices.Sorted(maps.Keys(count)) {
		text += fmt.Sprintf(", %d Events %s (%s)", count[reason], reason, note[reason])
	}
	return strings.TrimPrefix(text, "no Events, "), nil
}

// report is what the benchmark prints.
type report struct {
	n      int
	rows   []row
	quiet  string
	events []string
}

func (r *report) print(out io.Writer) {
	load, _ := os.ReadFile("/proc/loadavg") // only for the reader of the report
	fmt.Fprintf(out, "%d policies, each read every %s; load of the machine at the end: %s", r.n, hpaPeriod, load)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "adapter\treads\tp50\tp99\tnumber\tfailed\tCPU per 1,000 reads\tthe whole chain's\tPSS")
	for _, w := range r.rows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%s\t%d MiB\n", w.adapter, w.where, w.p50.Round(10*time.Microsecond),
			w.p99.Round(10*time.Microsecond), w.reads, w.failed, w.own.Round(time.Millisecond), w.chain.Round(time.Millisecond), w.pss>>20)
	}
	_ = table.Flush() // a closed pipe ends the command
	for _, where := range []string{"at its port", "through the API server"} {
		ours, null := r.mean("gpuscaler", where), r.mean("null adapter", where)
		if ours.p50 > 0 && null.p50 > 0 && null.own > 0 {
			ratio := func(a, b time.Duration) float64 { return float64(a) / float64(b) }
			fmt.Fprintf(out, "gpuscaler / null adapter, %s: p50 %.2f, p99 %.2f, CPU of the adapter %.2f, of the whole chain %.2f\n", where,
				ratio(ours.p50, null.p50), ratio(ours.p99, null.p99), ratio(ours.own, null.own), ratio(ours.chain, null.chain))
		}
	}
	for _, line := range append([]string{r.quiet}, r.events...) {
		if line != "" {
			fmt.Fprintln(out, line)
		}
	}
}

// mean returns the mean of the measurements of an adapter.
func (r *report) mean(adapter, where string) (m row) {
	n := time.Duration(0)
	for _, w := range r.rows {
		if w.adapter == adapter && w.where == where {
			m.p50, m.p99, m.own, m.chain = m.p50+w.p50, m.p99+w.p99, m.own+w.own, m.chain+w.chain
			n++
		}
	}
	if n > 0 {
		m.p50, m.p99, m.own, m.chain = m.p50/n, m.p99/n, m.own/n, m.chain/n
	}
	return m
}
