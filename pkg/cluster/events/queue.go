package events

import (
	"slices"
	"sync"

	eventsv1 "k8s.io/api/events/v1"
)

// queue contains the Events that are not posted yet. It returns one Event of each namespace, and then starts again with the first
// namespace. A namespace with many Events, for example because of thousands of invalid policies, therefore neither delays nor displaces the
// Events of other namespaces.
type queue struct {
	added chan struct{} // receives a value after each push

	mu          sync.Mutex
	length      int
	byNamespace map[string][]*eventsv1.Event // Events of each namespace, oldest first
	turns       []string                     // the namespaces with queued Events; the next Event is from the first namespace
}

func newQueue() *queue {
	return &queue{added: make(chan struct{}, 1), byNamespace: map[string][]*eventsv1.Event{}}
}

// push adds an Event. If the queue is full, push drops the last Event of the namespace with the most Events and returns false.
func (q *queue) push(e *eventsv1.Event) (kept bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.byNamespace[e.Namespace]) == 0 {
		q.turns = append(q.turns, e.Namespace)
	}
	q.byNamespace[e.Namespace] = append(q.byNamespace[e.Namespace], e)
	q.length++
	if kept = q.length <= queueLength; !kept {
		q.dropLast()
	}
	select {
	case q.added <- struct{}{}:
	default:
	}
	return kept
}

// dropLast removes the last Event of the namespace with the most Events.
func (q *queue) dropLast() {
	most := slices.MaxFunc(q.turns, func(a, b string) int { return len(q.byNamespace[a]) - len(q.byNamespace[b]) })
	all := q.byNamespace[most]
	q.byNamespace[most] = all[:len(all)-1]
	if q.length--; len(all) == 1 {
		delete(q.byNamespace, most)
		q.turns = slices.DeleteFunc(q.turns, func(n string) bool { return n == most })
	}
}

// pop removes the next Event and returns it. It returns nil if the queue is empty.
func (q *queue) pop() *eventsv1.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.length == 0 {
		return nil
	}
	namespace := q.turns[0]
	all := q.byNamespace[namespace]
	q.turns, q.byNamespace[namespace] = q.turns[1:], all[1:]
	if q.length--; len(all) > 1 {
		q.turns = append(q.turns, namespace)
	} else {
		delete(q.byNamespace, namespace)
	}
	return all[0]
}
