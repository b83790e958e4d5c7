package telemetry

import (
	"context"
	"slices"
	"sync"
)

// maxConcurrentPolls limits the concurrent polls of one data source. More than four would make a slow Prometheus server slower. With only
// one, its slowest query would delay all others. If several namespaces use the data source, the polls that serve only one namespace have
// two further limits: at most maxPollsPerNamespace polls of the same namespace run at a time, and at most maxConcurrentPolls-1 such polls
// of all namespaces together. The remaining place is for polls that several namespaces share.
const (
	maxConcurrentPolls   = 4
	maxPollsPerNamespace = 2
)

// pollQueue is the queue of the polls of one data source. Namespaces take turns, so that many polls of one namespace do not delay the polls
// of another. A poll that several namespaces share has the namespace "".
type pollQueue struct {
	mu      sync.Mutex
	running map[string]int // number of running polls; key: namespace
	total   int
	waiting map[string][]chan struct{} // waiting polls of each namespace, oldest first
	order   []string                   // namespaces with waiting polls; the namespace whose turn is next is first
}

func newPollQueue() *pollQueue {
	return &pollQueue{running: map[string]int{}, waiting: map[string][]chan struct{}{}}
}

// acquire waits until a poll of the namespace may run, and returns a function that the caller calls at the end of the poll. If ctx ends
// first, it returns ctx's error.
func (q *pollQueue) acquire(ctx context.Context, namespace string) (release func(), err error) {
	q.mu.Lock()
	admitted := make(chan struct{})
	if len(q.waiting[namespace]) == 0 {
		q.order = append(q.order, namespace)
	}
	q.waiting[namespace] = append(q.waiting[namespace], admitted)
	q.admit()
	q.mu.Unlock()
	select {
	case <-admitted:
	case <-ctx.Done():
		if !q.remove(namespace, admitted) {
			q.release(namespace) // the poll was admitted at the same time as ctx ended
		}
		return nil, ctx.Err()
	}
	return func() { q.release(namespace) }, nil
}

// admit starts waiting polls as long as the limits permit. The caller holds the lock.
func (q *pollQueue) admit() {
	for {
		i := slices.IndexFunc(q.order, q.allows)
		if i < 0 {
			return
		}
		namespace := q.order[i]
		q.order = slices.Delete(q.order, i, i+1)
		close(q.waiting[namespace][0])
		q.waiting[namespace] = q.waiting[namespace][1:]
		if len(q.waiting[namespace]) > 0 {
			q.order = append(q.order, namespace)
		} else {
			delete(q.waiting, namespace)
		}
		q.running[namespace]++
		q.total++
	}
}

// allows reports whether one more poll of a namespace may run now.
func (q *pollQueue) allows(namespace string) bool {
	if q.total >= maxConcurrentPolls {
		return false
	}
	return namespace == "" || (q.running[namespace] < maxPollsPerNamespace && q.total-q.running[""] < maxConcurrentPolls-1)
}

func (q *pollQueue) release(namespace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running[namespace]--; q.running[namespace] == 0 {
		delete(q.running, namespace)
	}
	q.total--
	q.admit()
}

// remove removes a waiting poll from the queue. It returns false if the poll was already admitted.
func (q *pollQueue) remove(namespace string, admitted chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting[namespace], admitted)
	if i < 0 {
		return false
	}
	q.waiting[namespace] = slices.Delete(q.waiting[namespace], i, i+1)
	if len(q.waiting[namespace]) == 0 {
		delete(q.waiting, namespace)
		q.order = slices.DeleteFunc(q.order, func(n string) bool { return n == namespace })
	}
	return true
}
