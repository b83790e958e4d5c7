package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/usage"
)

// target is a running adapter that is measured, with the two ways to read from it.
type target struct {
	name          string
	port, through *reader
	process       *stack.Process
	during        string // the condition during the measurement; empty: none
}

func (c *cluster) target(name, address string, p *stack.Process) (*target, error) {
	certificate, key := c.frontProxy()
	port, err := atPort(address, certificate, key)
	if err != nil {
		return nil, err
	}
	through, err := throughAPIServer(c.reading)
	return &target{name: name, port: port, through: through, process: p}, err
}

// leader returns the leader of gpuscaler as a target of measurements.
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
	adapter, during, where string
	latencies
	own, chain time.Duration // CPU time per 1,000 reads: of the adapter only, and of the adapter with the API server, etcd and Prometheus
	pss        int64
}

// measure measures the reads through the API server, and the reads at the port of the adapter unless t.port is nil.
func (c *cluster) measure(ctx context.Context, t *target, r *report, d time.Duration) error {
	for _, way := range []struct {
		where string
		*reader
	}{{"at its port", t.port}, {"through the API server", t.through}} {
		if way.reader == nil {
			continue
		}
		step("%s: reads %s%s", t.name, way.where, with(", ", t.during))
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
		row := row{adapter: t.name, during: t.during, where: way.where, latencies: l, pss: pss}
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

// cpu returns the CPU time of each running process, by the name of the process.
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

// with returns separator and text. It returns "" if text is empty.
func with(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// quiet waits for the duration d, during which no policy is read or changed, and returns a text about gpuscaler's activity in this time.
func (c *cluster) quiet(ctx context.Context, d time.Duration) (string, error) {
	step("gpuscaler: without reads and changes")
	return c.activity(ctx, "without reads and changes", func() error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}

// activity calls run and returns a text about gpuscaler's activity during the call: queries, requests to the API server, Events and CPU
// time.
func (c *cluster) activity(ctx context.Context, what string, run func() error) (string, error) {
	queriesBefore := c.prometheus.queries.Load()
	requestsBefore, err := c.requests.Requests()
	if err != nil {
		return "", err
	}
	cpuBefore, err := c.cpu()
	if err != nil {
		return "", err
	}
	began := time.Now()
	if err := run(); err != nil {
		return "", err
	}
	d := time.Since(began)
	cpuAfter, err := c.cpu()
	if err != nil {
		return "", err
	}
	requestsAfter, err := c.requests.Requests()
	if err != nil {
		return "", err
	}
	queries := float64(c.prometheus.queries.Load() - queriesBefore)
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
			if strings.Contains(name, match) && cpuAfter[name] > cpuBefore[name] { // lower if the process was restarted
				spent += (cpuAfter[name] - cpuBefore[name]).Seconds() * 3600 / d.Seconds() / float64(c.n)
			}
		}
		return spent
	}
	return fmt.Sprintf("%s, %s: %.0f Prometheus queries a minute; requests to the API server: %s; %s; CPU seconds per policy and hour: "+
		"gpuscaler %.3f, Prometheus %.3f", what, d.Round(time.Second), queries/d.Minutes(), strings.Join(requests, ", "), sent,
		perHour(controller.Namespace), perHour("prometheus")), nil
}

// events returns a text about the Events that gpuscaler sent since the given time: the number of each reason, and its oldest note.
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
