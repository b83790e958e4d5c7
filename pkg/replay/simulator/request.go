package simulator

import "time"

// request is one request in the queue or in a slot.
type request struct {
	arrived time.Duration
	queued  time.Duration // time at which the current wait began
	waited  time.Duration // sum of the earlier waits
	takes   time.Duration
	tokens  int32
	again   bool // the request was interrupted at least once
}

// ring is a double-ended queue.
type ring struct {
	slots   []request // the length is a power of two
	head, n int
}

func (q *ring) grow() {
	bigger := make([]request, max(16, 2*len(q.slots)))
	for i := range q.n {
		bigger[i] = q.slots[(q.head+i)&(len(q.slots)-1)]
	}
	q.slots, q.head = bigger, 0
}

func (q *ring) pushBack(r request) {
	if q.n == len(q.slots) {
		q.grow()
	}
	q.slots[(q.head+q.n)&(len(q.slots)-1)] = r
	q.n++
}

func (q *ring) pushFront(r request) {
	if q.n == len(q.slots) {
		q.grow()
	}
	q.head = (q.head - 1) & (len(q.slots) - 1)
	q.slots[q.head] = r
	q.n++
}

func (q *ring) popFront() request {
	r := q.slots[q.head]
	q.head = (q.head + 1) & (len(q.slots) - 1)
	q.n--
	return r
}

// at returns the i-th request from the head.
func (q *ring) at(i int) *request { return &q.slots[(q.head+i)&(len(q.slots)-1)] }

// buckets contains a list of ready replicas for each number of running requests. The replica with the fewest requests is found without a
// search. Each list is in the order in which the replicas were added.
type buckets struct {
	lists []list
	least int // all lists with a lower index are empty
}

type list struct{ first, last *replica }

func newBuckets(slots int) buckets { return buckets{lists: make([]list, slots+1), least: slots} }

// first returns the replica with the fewest running requests that has a free slot, or nil.
func (b *buckets) first() *replica {
	for b.least < len(b.lists)-1 {
		if r := b.lists[b.least].first; r != nil {
			return r
		}
		b.least++
	}
	return nil
}

func (b *buckets) add(r *replica) {
	k := int(r.running)
	l := &b.lists[k]
	r.prev, r.next = l.last, nil
	if l.last != nil {
		l.last.next = r
	} else {
		l.first = r
	}
	l.last = r
	b.least = min(b.least, k)
}

func (b *buckets) remove(r *replica) {
	l := &b.lists[r.running]
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		l.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	} else {
		l.last = r.prev
	}
	r.prev, r.next = nil, nil
}
