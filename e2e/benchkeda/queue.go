package main

import (
	"fmt"
	"net/http"
	"sync"
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
