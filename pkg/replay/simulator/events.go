package simulator

import "time"

// kind is the type of an event.
type kind uint8

const (
	arrive       kind = iota // the next request of a load arrives
	finish                   // a request of a replica finishes
	phase                    // a phase of a replica's cold start ends
	graceEnd                 // the grace period of a terminating replica ends
	scrape                   // a load's metrics are sampled
	poll                     // the newest sample becomes a reading
	act                      // an actuator runs
	boot                     // a phase of a node's start ends
	spotTurn                 // the spot market of a pool changes
	lose                     // a spot node is lost
	provide                  // the provisioner processes pending replicas
	disrupt                  // the disruption loop searches for nodes to remove
	validate                 // a planned removal of nodes is checked again, and carried out if it is still valid
	retire                   // the termination of a node ends
	sample                   // the series record a point
	reportBegins             // the report part begins
)

// event is one entry of the queue. The fields a and b identify the object of the event. An event whose gen differs from the generation of
// its object is skipped, because it belongs to an object that was removed.
type event struct {
	at   time.Duration
	seq  uint64 // events with equal times are processed in the order of creation
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

// next removes and returns the first event that is due at or before the given time.
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

// sink inserts e at the root and restores the heap.
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
