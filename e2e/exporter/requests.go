package exporter

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

// Requests is a Load that serves each request of a trace in real time. Requests wait in one queue at the gateway, first in, first out. The
// ready pod that serves the fewest requests serves the next request. A deleted pod has the time Grace to finish its requests. Requests that
// it cannot finish are put back at the head of the queue. The replay's simulator serves requests in the same way.
type Requests struct {
	Arrivals trace.Stream
	Slots    int           // requests that a pod serves at once
	Limit    time.Duration // a request is late if it waits longer than this time
	Grace    time.Duration
	// Takes returns the service time of a request in a pod with the given image.
	Takes func(r trace.Request, image string) time.Duration

	mu       sync.Mutex
	start    time.Time // time at which the trace starts; zero: not started
	at       time.Time // time up to which the simulation has advanced
	upcoming *trace.Request
	queue    []waiting
	servers  []*server
	opened   int     // number of pods that have been ready
	finished float64 // number of finished requests of a pod that has existed since the start
	tally    Served
	states   []State
}

// waiting is a request in the queue.
type waiting struct {
	request trace.Request
	since   time.Time // time of its arrival
	again   bool      // the request was returned to the queue, because its pod ended before it was finished
}

// server is a pod that serves requests, or a deleted pod that finishes its requests.
type server struct {
	pod     Pod
	running []served
	ends    time.Time // end of the grace period of a deleted pod
	deleted bool
	order   int // number of servers that became ready before this server
}

// served is a request that is being served.
type served struct {
	waiting
	until time.Time
}

// Served contains the totals of a Requests load.
type Served struct {
	Arrived, Started, Late int
	Paid                   float64 // sum over the pods of the seconds from their scheduling until they had finished their requests
}

// OnTime returns the share of the requests whose service began in time.
func (s Served) OnTime() float64 { return 1 - float64(s.Late)/float64(max(s.Started, 1)) }

// State is the state of a Requests load from the time At on.
type State struct {
	At                     time.Time
	Arrived                int // requests that arrived so far
	Queued, Running, Ready int
}

// Begin starts the trace at the time now. The totals begin at that time.
func (q *Requests) Begin(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance(now)
	q.start, q.tally = now, Served{}
	q.read()
}

// Began returns the time at which the trace started, or the zero time.
func (q *Requests) Began() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.start
}

// Totals returns the totals from the start of the trace up to now.
func (q *Requests) Totals(now time.Time) Served {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance(now)
	out := q.tally
	for _, w := range q.queue { // waiting requests that have waited longer than the limit are late
		if !w.again && now.Sub(w.since) > q.Limit {
			out.Started, out.Late = out.Started+1, out.Late+1
		}
	}
	return out
}

// Between returns the state at the time from, and each later state up to the time until.
func (q *Requests) Between(from, until time.Time) []State {
	q.mu.Lock()
	defer q.mu.Unlock()
	first, _ := slices.BinarySearchFunc(q.states, from, func(s State, t time.Time) int { return s.At.Compare(t) })
	last, _ := slices.BinarySearchFunc(q.states, until, func(s State, t time.Time) int { return s.At.Compare(t) })
	return slices.Clone(q.states[max(first-1, 0):last])
}

// At implements Load.
func (q *Requests) At(now time.Time, _ int) Values {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance(now)
	state := q.state(now)
	v := Values{Upstream: float64(state.Queued), Arrived: float64(state.Arrived)}
	if state.Ready > 0 {
		v.Running = float64(state.Running) / float64(state.Ready)
		v.KVCache = v.Running / float64(q.Slots)
		v.GPUBusy = v.KVCache
		v.Served = q.finished
	}
	return v
}

// Follow implements Follower.
func (q *Requests) Follow(now time.Time, pods []Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.advance(now)
	for _, s := range q.servers {
		if !s.deleted && !slices.ContainsFunc(pods, func(p Pod) bool { return p.Name == s.pod.Name }) {
			s.deleted, s.ends = true, now.Add(q.Grace)
		}
	}
	for _, p := range pods {
		i := slices.IndexFunc(q.servers, func(s *server) bool { return s.pod.Name == p.Name })
		switch {
		case i < 0:
			q.servers = append(q.servers, &server{pod: p})
			i = len(q.servers) - 1
			fallthrough
		case p.Ready && !q.servers[i].pod.Ready:
			q.opened++
			q.servers[i].order = q.opened
			fallthrough
		default:
			q.servers[i].pod = p
		}
	}
	q.end(now)
	q.dispatch(now)
	q.note(now)
}

// advance processes all events up to now, in the order of time.
func (q *Requests) advance(now time.Time) {
	if q.at.IsZero() {
		q.at = now
	}
	for {
		next := now
		if arrival, ok := q.nextArrival(); ok && arrival.Before(next) {
			next = arrival
		}
		for _, s := range q.servers {
			for i := range s.running {
				if s.running[i].until.Before(next) {
					next = s.running[i].until
				}
			}
			if s.deleted && s.ends.Before(next) {
				next = s.ends
			}
		}
		if next.Before(q.at) {
			next = q.at
		}
		q.tally.Paid += float64(len(q.servers)) * next.Sub(q.at).Seconds()
		q.at = next
		changed := q.arrive(next)
		changed = q.end(next) || changed
		q.dispatch(next)
		if changed {
			q.note(next)
		}
		if !next.Before(now) {
			return
		}
	}
}

func (q *Requests) nextArrival() (time.Time, bool) {
	if q.upcoming == nil || q.start.IsZero() {
		return time.Time{}, false
	}
	return q.start.Add(q.upcoming.At), true
}

func (q *Requests) read() {
	q.upcoming = nil
	if r, ok := q.Arrivals.Next(); ok {
		q.upcoming = &r
	}
}

// arrive adds the requests that arrive until now to the queue.
func (q *Requests) arrive(now time.Time) (changed bool) {
	for {
		at, ok := q.nextArrival()
		if !ok || at.After(now) {
			return changed
		}
		q.queue = append(q.queue, waiting{request: *q.upcoming, since: at})
		q.tally.Arrived++
		q.read()
		changed = true
	}
}

// end removes the requests that are finished, and the deleted pods that have finished or whose grace period is over.
func (q *Requests) end(now time.Time) (changed bool) {
	var cut []waiting
	ready := max(q.state(now).Ready, 1)
	q.servers = slices.DeleteFunc(q.servers, func(s *server) bool {
		before := len(s.running)
		s.running = slices.DeleteFunc(s.running, func(r served) bool { return !r.until.After(now) })
		q.finished += float64(before-len(s.running)) / float64(ready)
		changed = changed || len(s.running) != before
		if !s.deleted || len(s.running) > 0 && now.Before(s.ends) {
			return false
		}
		for _, r := range s.running {
			cut = append(cut, waiting{request: r.request, since: r.since, again: true})
		}
		changed = true
		return true
	})
	slices.SortFunc(cut, func(a, b waiting) int { return a.since.Compare(b.since) })
	q.queue = append(cut, q.queue...)
	return changed
}

// dispatch starts waiting requests while a pod has a free slot.
func (q *Requests) dispatch(now time.Time) {
	for len(q.queue) > 0 {
		var best *server
		for _, s := range q.servers {
			if s.deleted || !s.pod.Ready || len(s.running) >= q.Slots {
				continue
			}
			if best == nil || cmp.Or(cmp.Compare(len(s.running), len(best.running)), cmp.Compare(s.order, best.order)) < 0 {
				best = s
			}
		}
		if best == nil {
			return
		}
		w := q.queue[0]
		q.queue = q.queue[1:]
		if !w.again {
			q.tally.Started++
			if now.Sub(w.since) > q.Limit {
				q.tally.Late++
			}
		}
		best.running = append(best.running, served{w, now.Add(q.Takes(w.request, best.pod.Image))})
	}
}

// state returns the current state.
func (q *Requests) state(now time.Time) (s State) {
	s = State{At: now, Arrived: q.tally.Arrived, Queued: len(q.queue)}
	for _, v := range q.servers {
		if !v.deleted && v.pod.Ready {
			s.Ready++
			s.Running += len(v.running)
		}
	}
	return s
}

func (q *Requests) note(now time.Time) {
	q.states = append(q.states, q.state(now))
}
