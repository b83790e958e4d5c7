// Package events contains the virtual time of a simulation and the queue of its future events.
package events

import "time"

// Kind is the type of an event. The package whose objects an event changes defines the kind. Kinds of package simulator are less than the
// constant Karpenter, and kinds of package karpenter are equal to it or greater.
type Kind uint8

// Karpenter is the first kind of event that package karpenter defines.
const Karpenter Kind = 128

// Event is one entry of a queue. A and B identify the object of the event. An event whose Gen differs from the generation of its object is
// skipped, because it belongs to an object that was removed.
type Event struct {
	At   time.Duration // virtual time since the start
	seq  uint64        // events with equal times are processed in the order of creation
	Gen  uint32
	A, B int32
	Kind Kind
}

func (e *Event) before(o *Event) bool { return e.At < o.At || e.At == o.At && e.seq < o.seq }

// Queue has the virtual time and the future events. It is a binary heap. The zero value is an empty queue at time 0.
type Queue struct {
	Now  time.Duration // virtual time since the start
	heap []Event
	seq  uint64
}

// Add adds an event. Events with equal times are processed in the order in which they are added.
func (q *Queue) Add(e Event) {
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

// Next removes and returns the first event that is due at or before the given time, and sets Now to the time of the event. If there is no
// such event, it sets Now to the given time and returns false.
func (q *Queue) Next(by time.Duration) (Event, bool) {
	if len(q.heap) == 0 || q.heap[0].At > by {
		q.Now = by
		return Event{}, false
	}
	first, n := q.heap[0], len(q.heap)-1
	last := q.heap[n]
	q.heap = q.heap[:n]
	if n > 0 {
		q.sink(last)
	}
	q.Now = first.At
	return first, true
}

// sink inserts e at the root and restores the heap.
func (q *Queue) sink(e Event) {
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
