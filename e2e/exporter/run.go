package exporter

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// followEvery is the interval at which the pods are read. It is short compared with the scrape interval, so that a scrape does not return
// metrics of a pod that has been deleted.
const followEvery = 200 * time.Millisecond

// Run serves the workloads' metrics until ctx ends. It makes the stack's Prometheus scrape them, and adds and removes targets as pods
// become ready and are deleted. It may be called several times for one stack.
func Run(ctx context.Context, s *stack.Stack, workloads ...*Workload) (*Exporter, error) {
	port, err := s.Port()
	if err != nil {
		return nil, err
	}
	e := New(time.Now, workloads...)
	e.address = "127.0.0.1:" + strconv.Itoa(port)
	e.set = "exporter-" + strconv.Itoa(port)
	if err := serve(ctx, e.address, e.Handler()); err != nil {
		return nil, err
	}
	if err := createExporters(ctx, s.Client); err != nil {
		return nil, err
	}
	if err := e.follow(ctx, s); err != nil {
		return nil, err
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				_ = s.Prometheus.Targets(e.set) // fails only if the stack has been stopped
				return
			case <-time.After(followEvery):
			}
			// If the read fails, the exporter serves the last known pods, as Prometheus scrapes the last known targets when a service
			// discovery fails.
			if err := e.follow(ctx, s); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "exporter:", err)
			}
		}
	}()
	return e, nil
}

// follow reads the pods of all workloads once and, if they changed, updates the servers and Prometheus' targets.
func (e *Exporter) follow(ctx context.Context, s *stack.Stack) error {
	changed := e.direct == nil // the first call always updates the targets
	if changed {
		e.direct = map[string]context.CancelFunc{}
	}
	moved, err := e.findExporters(ctx, s.Client)
	if err != nil {
		return err
	}
	changed = changed || moved
	for _, w := range e.workloads {
		c, err := w.refresh(ctx, s.Client)
		if err != nil {
			return err
		}
		changed = changed || c
		if load, ok := w.Load.(Follower); ok {
			load.Follow(e.now(), w.Pods())
		}
	}
	if !changed {
		return nil
	}
	if err := e.listen(ctx); err != nil {
		return err
	}
	return s.Prometheus.Targets(e.set, e.targets()...)
}

// listen serves /metrics on the loopback address of each ready pod, for pollers that read pods directly. It stops the servers of pods that
// are no longer ready.
func (e *Exporter) listen(ctx context.Context) error {
	want := map[string]http.Handler{}
	for _, w := range e.workloads {
		for _, p := range w.Pods() {
			if w.MetricsPort == 0 || !p.Ready || p.IP == "" {
				continue
			}
			namespace, pod := w.Namespace, p.Name
			mux := http.NewServeMux()
			mux.HandleFunc("GET /metrics", func(rw http.ResponseWriter, r *http.Request) { e.serveVLLM(rw, r, namespace, pod) })
			want[p.IP+":"+strconv.Itoa(w.MetricsPort)] = mux
		}
	}
	for address, end := range e.direct {
		if want[address] == nil {
			end()
			delete(e.direct, address)
		}
	}
	for address, handler := range want {
		if e.direct[address] != nil {
			continue
		}
		serving, end := context.WithCancel(ctx)
		if err := serve(serving, address, handler); err != nil {
			end()
			return err
		}
		e.direct[address] = end
	}
	return nil
}

// targets returns the scrape targets that the usual service discovery would find: the gateway, each ready vLLM server, and the DCGM
// exporter of each node. The labels namespace and pod of a DCGM target name the exporter's own pod. Prometheus therefore renames the labels
// of the workload to exported_namespace and exported_pod.
func (e *Exporter) targets() []stack.ScrapeTarget {
	target := func(path, job, namespace, pod string) stack.ScrapeTarget {
		return stack.ScrapeTarget{Address: e.address, Labels: map[string]string{
			"__metrics_path__": path, "job": job, "namespace": namespace, "pod": pod,
		}}
	}
	targets := []stack.ScrapeTarget{target("/gateway", "gateway", "gateway-system", "gateway-0")}
	nodes := map[string]bool{}
	for _, w := range e.workloads {
		for _, p := range w.Pods() {
			if p.Ready {
				targets = append(targets, target("/vllm/"+w.Namespace+"/"+p.Name, "vllm", w.Namespace, p.Name))
			}
			if exporter := e.exporters[p.Node]; exporter != "" && !nodes[p.Node] {
				nodes[p.Node] = true
				targets = append(targets, target("/dcgm/"+p.Node, "dcgm-exporter", dcgmNamespace, exporter))
			}
		}
	}
	return targets
}
