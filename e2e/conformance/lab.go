package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	deployment "github.com/gpuscaler/gpuscaler/e2e/workload"
)

// lab is a cluster with workloads and with the adapter under test. Its parts can be made to fail.
type lab struct {
	stack    *stack.Stack
	exporter *exporter.Exporter // metrics pages of the model servers
	gateway  *gatewayPage

	prometheus *faults.Prometheus // proxy of the HTTP responses from Prometheus to the adapter
	source     *faults.TCP        // the adapter's connections to Prometheus
	redis      *faults.TCP        // the adapter's connections to Redis
	etcd       *faults.TCP        // proxy of the connections from the API server to etcd
	path       *faults.TCP        // proxy of the connections from the API server to the adapter; nil until the adapter is started

	parts    parts           // the parts of the running adapter
	lifetime context.Context // ends when the adapter is stopped
	version  string          // of the adapter
}

// newLab starts the cluster and creates the workloads with their correct number of replicas. apiServer contains additional flags of the API
// server.
func newLab(ctx context.Context, apiServer ...string) (*lab, error) {
	l := &lab{gateway: &gatewayPage{}}
	// While the API server is down, kwok cannot renew the heartbeats of the nodes. Without this flag, all pods would then be marked as not
	// ready, and kwok, unlike a kubelet, would not report them as ready again.
	nodes := []string{"--node-monitor-grace-period=1h"}
	k8s, err := stack.Up(ctx, stack.Options{Out: io.Discard, APIServer: apiServer, ControllerManager: nodes, Etcd: func(url string) (string,
		error) {
		var err error
		l.etcd, err = faults.NewTCP(ctx, "127.0.0.1:0", strings.TrimPrefix(url, "http://"))
		if err != nil {
			return "", err
		}
		return "http://" + l.etcd.Address, nil
	}})
	if err != nil {
		return nil, err
	}
	l.stack = k8s
	if err := errors.Join(l.serveSources(ctx), l.createWorkloads(ctx)); err != nil {
		k8s.Stop()
		return nil, err
	}
	return l, nil
}

// serveSources starts Redis, the metrics pages, and the proxies through which the adapter reads Prometheus and Redis.
func (l *lab) serveSources(ctx context.Context) error {
	var err error
	if l.prometheus, err = faults.NewPrometheus(l.stack.Prometheus.URL); err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: l.prometheus, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	go server.Serve(listener) //nolint:errcheck // always ErrServerClosed, after the line above closes the server
	if l.source, err = l.proxy(ctx, listener.Addr().String()); err != nil {
		return err
	}
	redis, err := l.stack.Redis(ctx)
	if err != nil {
		return err
	}
	if err := fillLists(ctx, redis); err != nil {
		return err
	}
	if l.redis, err = l.proxy(ctx, redis); err != nil {
		return err
	}
	return l.stack.ServeMetrics(ctx, "gateway", l.gateway)
}

// proxy starts a TCP proxy on a port of the stack.
func (l *lab) proxy(ctx context.Context, target string) (*faults.TCP, error) {
	port, err := l.stack.Port()
	if err != nil {
		return nil, err
	}
	return faults.NewTCP(ctx, "127.0.0.1:"+strconv.Itoa(port), target)
}

// sourceURL returns the URL at which the adapter reads Prometheus.
func (l *lab) sourceURL() string { return "http://" + l.source.Address }

func fillLists(ctx context.Context, address string) error {
	c := goredis.NewClient(&goredis.Options{Addr: address})
	defer c.Close()
	for _, w := range workloads {
		if w.origin != list {
			continue
		}
		if err := c.RPush(ctx, w.name, jobs(w.waiting)...).Err(); err != nil {
			return fmt.Errorf("fill the list %s: %w", w.name, err)
		}
	}
	return nil
}

func jobs(n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func (l *lab) createWorkloads(ctx context.Context) error {
	if err := errors.Join(l.stack.Nodes(ctx, "gpu", 4, 16), l.stack.Namespace(ctx, namespace)); err != nil {
		return err
	}
	var exported []*exporter.Workload
	for _, w := range workloads {
		if err := l.stack.Client.Create(ctx, deployment.Deployment(namespace, w.name, w.replicas())); err != nil {
			return err
		}
		if w.origin == servers {
			load := &exporter.Total{}
			load.Set(float64(w.waiting))
			exported = append(exported, deployment.Metrics(namespace, w.name, load))
		}
	}
	for _, w := range workloads {
		if err := stack.Poll(ctx, time.Minute, deployment.HasReplicas(l.stack.Client, namespace, w.name, w.replicas())); err != nil {
			return err
		}
	}
	var err error
	l.exporter, err = exporter.Run(ctx, l.stack, exported...)
	return err
}

// machineLoad returns the load average of the machine over one minute.
func machineLoad() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0 // not Linux
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64) // the kernel writes a number
	return load
}
