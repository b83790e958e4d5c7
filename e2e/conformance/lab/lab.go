// Package lab starts the cluster in which conformance injects faults: its workloads, its data sources, and the proxies with which
// connections are broken. It also defines what an adapter under test must provide.
package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	deployment "github.com/gpuscaler/gpuscaler/e2e/workload"
)

// Lab is a cluster with workloads, data sources and the adapter under test. Faults use its fields to make components fail.
type Lab struct {
	Stack    *stack.Stack
	Exporter *exporter.Exporter // metrics pages of the model servers
	Gateway  *GatewayPage

	Prometheus *faults.Prometheus // proxy of the HTTP responses from Prometheus to the adapter
	Source     *faults.TCP        // proxy of the connections from the adapter to Prometheus
	Redis      *faults.TCP        // proxy of the connections from the adapter to Redis
	Etcd       *faults.TCP        // proxy of the connections from the API server to etcd
	Path       *faults.TCP        // proxy of the connections from the API server to the adapter; nil until the adapter is started

	Parts    Parts           // processes and functions of the running adapter, set by Target.Start
	Lifetime context.Context // ends when the adapter is stopped
	Version  string          // version of the adapter; empty: unknown
}

// New starts the cluster and creates the workloads with their correct number of replicas. apiServer contains additional flags of the API
// server.
func New(ctx context.Context, apiServer ...string) (*Lab, error) {
	l := &Lab{Gateway: &GatewayPage{}}
	// While the API server is down, kwok cannot send the heartbeats of the nodes. Without this flag, the controller manager would mark all
	// pods as not ready, and kwok, unlike a kubelet, would not report the pods as ready after the fault.
	nodes := []string{"--node-monitor-grace-period=1h"}
	k8s, err := stack.Up(ctx, stack.Options{Out: io.Discard, APIServer: apiServer, ControllerManager: nodes, Etcd: func(url string) (string,
		error) {
		var err error
		l.Etcd, err = faults.NewTCP(ctx, "127.0.0.1:0", strings.TrimPrefix(url, "http://"))
		if err != nil {
			return "", err
		}
		return "http://" + l.Etcd.Address, nil
	}})
	if err != nil {
		return nil, err
	}
	l.Stack = k8s
	if err := errors.Join(l.serveSources(ctx), l.createWorkloads(ctx)); err != nil {
		k8s.Stop()
		return nil, err
	}
	return l, nil
}

// serveSources starts Redis, the metrics pages, and the proxies through which the adapter reads Prometheus and Redis.
func (l *Lab) serveSources(ctx context.Context) error {
	var err error
	if l.Prometheus, err = faults.NewPrometheus(l.Stack.Prometheus.URL); err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: l.Prometheus, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	go server.Serve(listener) //nolint:errcheck // always ErrServerClosed, after the line above closes the server
	if l.Source, err = l.Proxy(ctx, listener.Addr().String()); err != nil {
		return err
	}
	redis, err := l.Stack.Redis(ctx)
	if err != nil {
		return err
	}
	if err := fillLists(ctx, redis); err != nil {
		return err
	}
	if l.Redis, err = l.Proxy(ctx, redis); err != nil {
		return err
	}
	return l.Stack.ServeMetrics(ctx, "gateway", l.Gateway)
}

// Proxy starts a TCP proxy on a port of the stack.
func (l *Lab) Proxy(ctx context.Context, target string) (*faults.TCP, error) {
	port, err := l.Stack.Port()
	if err != nil {
		return nil, err
	}
	return faults.NewTCP(ctx, "127.0.0.1:"+strconv.Itoa(port), target)
}

// SourceURL returns the URL at which the adapter reads Prometheus.
func (l *Lab) SourceURL() string { return "http://" + l.Source.Address }

func fillLists(ctx context.Context, address string) error {
	c := goredis.NewClient(&goredis.Options{Addr: address})
	defer c.Close()
	for _, w := range Workloads {
		if w.Origin != List {
			continue
		}
		if err := c.RPush(ctx, w.Name, jobs(w.Waiting)...).Err(); err != nil {
			return fmt.Errorf("fill the list %s: %w", w.Name, err)
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

func (l *Lab) createWorkloads(ctx context.Context) error {
	if err := errors.Join(l.Stack.Nodes(ctx, "gpu", 4, 16), l.Stack.Namespace(ctx, Namespace)); err != nil {
		return err
	}
	var exported []*exporter.Workload
	for _, w := range Workloads {
		if err := l.Stack.Client.Create(ctx, deployment.Deployment(Namespace, w.Name, w.Replicas())); err != nil {
			return err
		}
		if w.Origin == Servers {
			load := &exporter.Total{}
			load.Set(float64(w.Waiting))
			exported = append(exported, deployment.Metrics(Namespace, w.Name, load))
		}
	}
	for _, w := range Workloads {
		if err := stack.Poll(ctx, time.Minute, deployment.HasReplicas(l.Stack.Client, Namespace, w.Name, w.Replicas())); err != nil {
			return err
		}
	}
	var err error
	l.Exporter, err = exporter.Run(ctx, l.Stack, exported...)
	return err
}
