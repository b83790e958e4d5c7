package simulator

import "time"

// kind is what happens at an event.
type kind uint8

const (
	arrive   kind = iota // the next request of a load
	finish               // a request leaves a slot of a replica
	phase                // a replica's cold start goes on
	graceEnd             // a replica that ends cuts what it still serves
	scrape               // a load's metrics are sampled
	poll                 // the newest sample reaches the readers
	act                  // an actuator is asked
	boot                 // a node's start goes on
	spotTurn             // the spot market of a pool moves
	lose                 // a spot node is taken away
	provide              // the provisioner looks at pending replicas
	disrupt              // the provisioner looks for nodes to remove
	validate             // it looks again at what it found
	retire               // a node that was to be removed is gone
	sample               // the series take a point
)

// event is one entry of the queue. a and b name what it happens to; gen tells whether that is still there.
type event struct {
	at   time.Duration
	seq  uint64 // events of one instant happen in the order in which they were made
	gen  uint32
	a, b int32
	kind kind
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// events is a binary heap.
type events struct {
	heap []event
	seq  uint64
}

func (q *events) add(e event) {
	e.seq = q.seq
	q.seq++
	q.heap = append(q.heap, e)
	h, i := q.heap, len(q.heap)-1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = e
}

// next takes the first event that is due by an instant.
func (q *events) next(by time.Duration) (event, bool) {
	if len(q.heap) == 0 || q.heap[0].at > by {
		return event{}, false
	}
	first, n := q.heap[0], len(q.heap)-1
	last := q.heap[n]
	q.heap = q.heap[:n]
	if n > 0 {
		q.sink(last)
	}
	return first, true
}

// sink puts e in at the root.
func (q *events) sink(e event) {
	h, i := q.heap, 0
	for {
		down := 2*i + 1
		if down >= len(h) {
			break
		}
		if down+1 < len(h) && h[down+1].before(&h[down]) {
			down++
		}
		if !h[down].before(&e) {
			break
		}
		h[i] = h[down]
		i = down
	}
	h[i] = e
}
