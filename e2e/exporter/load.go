package exporter

import (
	"math"
	"sync"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

// Knobs is a Load whose values a test sets directly. Every replica reports the same values.
type Knobs struct {
	mu     sync.Mutex
	values Values
}

// Set replaces the values that every replica reports.
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

// Total is a Load with a fixed number of waiting requests, divided equally among the ready replicas. The sum over the replicas therefore
// does not change with the number of replicas.
type Total struct {
	Knobs
}

// Set replaces the total number of waiting requests.
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

// Work is a Load of constant GPU work without requests. The ready replicas share the work equally.
type Work struct {
	mu   sync.Mutex
	gpus float64
}

// Set replaces the amount of work, as a number of GPUs that are busy all the time.
func (w *Work) Set(gpus float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gpus = gpus
}

// At implements Load.
func (w *Work) At(_ time.Time, ready int) Values {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Values{GPUBusy: min(1, w.gpus/float64(max(1, ready)))}
}

// Queue is a Load that serves the requests of a trace. Each replica serves at most Slots requests at a time, each for the duration Hold.
// The other requests wait in the replicas, or at the gateway if there is no replica. It is a fluid model: it computes the length of the
// queue, but does not track single requests.
type Queue struct {
	Arrivals trace.Stream
	Start    time.Time     // time at which the trace starts
	Speed    float64       // trace seconds per second of real time; 0 means 1
	Slots    int           // number of requests that a replica serves at the same time
	Hold     time.Duration // service time of a request, in the trace's time

	mu      sync.Mutex
	at      time.Duration  // current position in the trace
	next    *trace.Request // next request that will arrive; nil before the start and after the end
	started bool
	backlog float64 // number of requests that have arrived and are not finished
	served  float64 // number of requests that each replica has served since the start
}

// At implements Load. It advances the simulation to now and returns its state.
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

// step is the time step of the simulation. It is short compared with Hold, so that a burst is not served within one step.
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

// arrivals consumes the requests of the trace up to a time and returns their number.
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
		TTFT: 0.05 + waiting/float64(q.Slots)*q.Hold.Seconds(), // time to first token: the wait plus the prefill
	}
}
