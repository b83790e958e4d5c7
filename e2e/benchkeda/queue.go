package main

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// queues contains the queue length of each workload and serves the lengths as the metrics of a gateway. It does not read pods, so that it
// causes no load on the API server.
type queues struct {
	mu      sync.Mutex
	waiting []int
	scraped map[int]time.Time // time of the first scrape after the last change of a queue, by workload; zero: no scrape yet
}

func newQueues(n int) *queues {
	return &queues{waiting: slices.Repeat([]int{5}, n), scraped: map[int]time.Time{}}
}

func (q *queues) set(i, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting[i], q.scraped[i] = waiting, time.Time{}
}

// scrapedAt returns the time of the first scrape after the last change of queue i.
func (q *queues) scrapedAt(i int) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.scraped[i]
}

func (q *queues) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	fmt.Fprintln(w, "# TYPE gateway_waiting gauge")
	for i, n := range q.waiting {
		fmt.Fprintf(w, "gateway_waiting{namespace=%q,app=%q} %d\n", namespace, name(i), n)
	}
	for i, at := range q.scraped {
		if at.IsZero() {
			q.scraped[i] = time.Now()
		}
	}
}
