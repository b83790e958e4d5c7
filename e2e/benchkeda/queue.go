package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// queues holds the queue length of each workload and serves it as the metrics of a gateway. It does not read pods, so that it causes no
// load on the API server.
type queues struct {
	mu      sync.Mutex
	waiting []int
}

func (q *queues) set(i, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting[i] = waiting
}

func (q *queues) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	fmt.Fprintln(w, "# TYPE gateway_waiting gauge")
	for i, n := range q.waiting {
		fmt.Fprintf(w, "gateway_waiting{namespace=%q,app=%q} %d\n", namespace, name(i), n)
	}
}

// serve makes Prometheus scrape the queues until ctx ends.
func (q *queues) serve(ctx context.Context, s *stack.Stack) error {
	port, err := s.Port()
	if err != nil {
		return err
	}
	address := "127.0.0.1:" + strconv.Itoa(port)
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: q, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	go server.Serve(l) //nolint:errcheck // the error is ErrServerClosed, from the line above
	return s.Prometheus.Targets("gateway", stack.ScrapeTarget{Address: address, Labels: map[string]string{"job": "gateway"}})
}
