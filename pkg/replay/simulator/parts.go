package simulator

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/waits"
)

// tally contains the totals of a load (a simulated workload) since the start of the run.
type tally struct {
	arrived  int64
	served   int64
	requeued int64
	starts   int64         // replicas created after the start
	lost     int64         // replicas that ended because their node was lost or removed
	moves    [2]int64      // number of increases and of decreases of spec.replicas
	zeroTime time.Duration // how long the target was zero, until the last change of the target
	account
}

// train contains the totals of a load at the beginning of the report part. They are subtracted from the later results.
type train struct {
	tally
	left int64 // requests that arrived in the train part and were not finished when it ended
}

// reportedFrom returns the start of the time that the results cover: Config.ReportFrom if that time has passed, otherwise 0.
func (w *Simulator) reportedFrom() time.Duration {
	if w.queue.Now < w.config.ReportFrom {
		return 0
	}
	return w.config.ReportFrom
}

// beginReport stores the totals of the train part, so that later results do not include them.
func (w *Simulator) beginReport() {
	for i, l := range w.loads {
		l.train = train{l.total(), l.inSystem()}
		if w.series.before != nil {
			b := &w.series.before[i]
			b.started, b.late = b.started-l.waits.Count, b.late-l.waits.Late
		}
		l.waits = waits.Histogram{Limit: l.waits.Limit}
	}
	for _, p := range w.nodes.Pools() {
		p.BeginReport()
	}
}

// counts reports whether the results include a request. A request belongs to the part of the run in which it arrived.
func (l *load) counts(q *request) bool { return q.arrived >= l.w.reportedFrom() }

// inSystem returns the number of requests that wait or run.
func (l *load) inSystem() int64 { return int64(l.queue.n) + int64(l.running) + int64(l.drainRunning) }

// total returns the totals since the start of the run.
func (l *load) total() tally {
	l.touch()
	out := l.tally
	if l.target == 0 {
		out.zeroTime += l.w.queue.Now - l.zeroAt
	}
	return out
}

// reported returns the totals of the part that the results cover.
func (l *load) reported() tally {
	n, o := l.total(), &l.train
	n.arrived -= o.arrived
	n.served -= o.served
	n.requeued -= o.requeued
	n.starts -= o.starts
	n.lost -= o.lost
	n.zeroTime -= o.zeroTime
	n.readyTime -= o.readyTime
	n.runningTime -= o.runningTime
	n.busyTime -= o.busyTime
	for i := range n.moves {
		n.moves[i] -= o.moves[i]
	}
	for c := range n.parts {
		n.parts[c] -= o.parts[c]
	}
	return n
}
