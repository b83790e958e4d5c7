package exporter

import (
	"math"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

// Knobs is a Load that a test turns by hand. Every replica reports the same.
type Knobs struct {
	mu     sync.Mutex
	values Values
}

// Set replaces what every replica reports.
func (k *Knobs) Set(v Values) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.values = v
}

// At implements Load.
func (k *Knobs) At(time.Time, int) Values {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.values
}

// Total is a Load of that many requests over the workload, spread evenly: what
// a policy on a total sees stays the same however many replicas share it.
type Total struct {
	Knobs
}

// Set replaces the requests that wait in all engines together.
func (t *Total) Set(waiting float64) { t.Knobs.Set(Values{Waiting: waiting, Upstream: waiting}) }

// At implements Load.
func (t *Total) At(now time.Time, ready int) Values {
	v := t.Knobs.At(now, ready)
	if ready > 0 {
		v.Waiting /= float64(ready)
		v.GPUBusy = math.Min(1, v.Waiting/10)
		v.Upstream = 0
	}
	return v
}

// Queue is a Load that serves recorded arrivals: each replica works on up to
// Slots requests at once, each for Hold; what does not fit waits in the engines,
// and with no replica at the gateway. It is a fluid model: good for how queues
// grow and drain, not for single requests.
type Queue struct {
	Arrivals trace.Stream
	Start    time.Time     // when the trace's first second is played
	Speed    float64       // trace seconds per second; 0 is 1
	Slots    int           // requests that a replica works on at once
	Hold     time.Duration // of the trace's time, for one request in a slot

	mu      sync.Mutex
	at      time.Duration  // how far the trace has been played
	next    *trace.Request // the first that has not come yet; nil before the start and after the end
	started bool
	backlog float64 // requests in the system
	served  float64 // per replica, cumulative
}

// At implements Load: it plays the trace up to now and reports where it stands.
func (q *Queue) At(now time.Time, ready int) Values {
	q.mu.Lock()
	defer q.mu.Unlock()
	speed := q.Speed
	if speed == 0 {
		speed = 1
	}
	q.play(time.Duration(float64(now.Sub(q.Start))*speed), ready)
	return q.report(ready)
}

// step is short against Hold, or a whole burst would be served in one.
const step = 100 * time.Millisecond

func (q *Queue) play(until time.Duration, ready int) {
	for q.at < until {
		next := min(q.at+step, until)
		q.backlog += float64(q.arrivals(next))
		rate := math.Min(q.backlog, float64(ready*q.Slots)) / q.Hold.Seconds()
		done := math.Min(q.backlog, rate*(next-q.at).Seconds())
		q.backlog -= done
		if ready > 0 {
			q.served += done / float64(ready)
		}
		q.at = next
	}
}

// arrivals takes the requests up to a time off the stream.
func (q *Queue) arrivals(until time.Duration) (n int) {
	if !q.started {
		q.started = true
		q.advance()
	}
	for q.next != nil && q.next.At <= until {
		n++
		q.advance()
	}
	return n
}

func (q *Queue) advance() {
	q.next = nil
	if r, ok := q.Arrivals.Next(); ok {
		q.next = &r
	}
}

func (q *Queue) report(ready int) Values {
	if ready == 0 {
		return Values{Upstream: q.backlog, Served: q.served}
	}
	each := q.backlog / float64(ready)
	running := math.Min(each, float64(q.Slots))
	waiting := each - running
	busy := running / float64(q.Slots)
	return Values{
		Running: running, Waiting: waiting, KVCache: busy, GPUBusy: busy, Served: q.served,
		TTFT: 0.05 + waiting/float64(q.Slots)*q.Hold.Seconds(), // its turn, then the prefill
	}
}
