package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/usage"
)

// target is a running adapter that is measured, with the two readers of its metrics: at its port and through the API server.
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
	own, chain time.Duration // CPU time per 1,000 reads: of the adapter alone; of the adapter, the API server, etcd and Prometheus
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
		l, err := way.load(ctx, c.n, pace(c.n, r.rate), d)
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
			spent := max(0, after[name]-before[name]) * 1000 / time.Duration(l.reads) // a restarted process has a negative difference
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

// with returns the separator followed by the text, or "" if the text is empty.
func with(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}
