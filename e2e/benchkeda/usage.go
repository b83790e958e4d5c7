package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/usage"
)

// used contains the cumulative resource usage of the processes at one time.
type used struct {
	at       time.Time
	cpu      time.Duration // CPU time of KEDA, gpuscaler, the API server, etcd, the HPA controller and Prometheus
	resident int64         // memory of KEDA and gpuscaler, in bytes
	queries  float64       // number of queries that Prometheus answered
	syncs    float64       // number of syncs of the HPA controller, each of which reads one metric
}

func (b *bench) usage(ctx context.Context) (u used, err error) {
	var hpas *stack.Process
	for _, p := range b.stack.Processes() {
		if ended, _ := p.Exited(); ended {
			continue
		}
		cpu, err := usage.CPU(p.Pid())
		if err != nil {
			return u, err
		}
		u.cpu += cpu
		if p.Name == "kube-controller-manager" {
			hpas = p
		}
		if strings.HasPrefix(p.Name, "keda-") || strings.Contains(p.Name, controller.Namespace) {
			resident, err := residentOf(p.Pid())
			if err != nil {
				return u, err
			}
			u.resident += resident
		}
	}
	u.at = time.Now()
	if u.queries, err = usage.Sum(ctx, http.DefaultClient, b.stack.Prometheus.URL+"/metrics", `prometheus_http_requests_total{`,
		`handler="/api/v1/query`); err != nil {
		return u, err
	}
	u.syncs, err = b.hpaSyncs(ctx, hpas)
	return u, err
}

func residentOf(pid int) (int64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, fmt.Errorf("/proc/%d/statm: %q", pid, text)
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err
}

// hpaSyncs returns the number of syncs since the HPA controller started. It reads this number from the metrics of kube-controller-manager,
// whose port is in the command line of the process.
func (b *bench) hpaSyncs(ctx context.Context, p *stack.Process) (float64, error) {
	if p == nil {
		return 0, errors.New("kube-controller-manager does not run")
	}
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.Pid()), "cmdline"))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(line), "--secure-port=")
	port, _, _ := strings.Cut(after, "\x00")
	config := rest.CopyConfig(b.stack.Config)
	config.Insecure, config.CAData, config.CAFile = true, nil, "" // the HPA controller has a self-signed certificate
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, err
	}
	return usage.Sum(ctx, client, "https://127.0.0.1:"+port+"/metrics", `horizontal_pod_autoscaler_controller_reconciliations_total{`, "")
}

// connect creates the client that reads metrics, without a client-side rate limit.
func (b *bench) connect() error {
	config := rest.CopyConfig(b.stack.Config)
	config.QPS = -1
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	b.reader = clients.RESTClient()
	return nil
}
