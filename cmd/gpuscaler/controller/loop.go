package controller

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/record"
)

const (
	tickPeriod = time.Second
	// stallTimeout is the time since the last finished tick after which the leader's liveness probe fails.
	stallTimeout = 15 * time.Second
	// keptChanges limits the memory that is kept between ticks: a slice of changes with a greater capacity is not reused.
	keptChanges = 256
)

// loop runs the engine once a second and passes the current time to it. All decisions of a tick use this time.
type loop struct {
	engine     *engine.Engine
	synced     func() bool
	publish    func() // makes policies that changed in the API server visible to the engine; called before each tick
	log        *slog.Logger
	leading    atomic.Bool
	started    atomic.Int64 // time at which this process became the leader, in Unix nanoseconds
	duration   prometheus.Histogram
	failures   prometheus.Counter
	panics     prometheus.Counter
	lead       prometheus.Gauge
	unrecorded prometheus.Gauge
	changed    []engine.Record // changes of targets in the current tick
	transition func(engine.Record)
	recorder   *record.Recorder // writes the recording; nil without --record, and after a write error
}

func newLoop(e *engine.Engine, synced func() bool, r prometheus.Registerer, log *slog.Logger) *loop {
	l := &loop{engine: e, synced: synced, publish: func() {}, transition: func(engine.Record) {}, log: log,
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gpuscaler_tick_duration_seconds", Help: "Duration of a tick over all policies.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "gpuscaler_tick_failures_total",
			Help: "Ticks in which the decision for a workload, a team or a capacity group failed."}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{Name: "gpuscaler_tick_panics_total",
			Help: "Panics that were recovered in the decision of a workload, team or capacity group; the log has the stack."}),
		lead: prometheus.NewGauge(prometheus.GaugeOpts{Name: "gpuscaler_leader", Help: "1 while this process decides and serves."}),
		unrecorded: prometheus.NewGauge(prometheus.GaugeOpts{Name: "gpuscaler_recording_failed",
			Help: "1 after the recording of --record failed and ended; decisions continue, and the log has the reason."}),
	}
	r.MustRegister(l.duration, l.failures, l.panics, l.lead, l.unrecorded)
	return l
}

// run runs a tick once a second until ctx ends. It runs no tick before the caches are synced, because the engine would not find all
// workloads.
func (l *loop) run(ctx context.Context) {
	l.started.Store(time.Now().UnixNano())
	l.leading.Store(true)
	l.lead.Set(1)
	defer l.lead.Set(0)
	defer l.leading.Store(false)
	if l.recorder != nil {
		l.recorded(l.recorder.Start())
	}
	ticker := time.NewTicker(tickPeriod)
	defer ticker.Stop()
	var reported map[string]bool
	for {
		if l.synced() {
			reported = l.tick(ctx, reported)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// tick runs the engine once and logs its errors. reported contains the error texts of the previous tick. tick returns the error texts of
// this tick.
func (l *loop) tick(ctx context.Context, reported map[string]bool) map[string]bool {
	start := time.Now()
	now := start.Round(0) // Round removes the monotonic clock, which a recording cannot store
	l.publish()
	out := l.engine.Tick(ctx, now)
	l.duration.Observe(time.Since(start).Seconds())
	if l.recorder != nil {
		l.recorded(l.recorder.Tick(l.engine.Decisions(), now))
	}
	l.logChanges()
	return l.report(out.Errors, reported)
}

// change stores the change of a target until the end of the tick.
func (l *loop) change(r engine.Record) { l.changed = append(l.changed, r) }

// logChanges logs the changes of a tick. It runs after the tick, when all targets are served. Logging a change takes several times as long
// as the decision. In the first tick of a leader every policy has a change, and logging during the tick would delay the targets of later
// policies.
func (l *loop) logChanges() {
	for i := range l.changed {
		l.transition(l.changed[i])
	}
	clear(l.changed)
	if l.changed = l.changed[:0]; cap(l.changed) > keptChanges {
		l.changed = nil
	}
}

// report increments the error counter for the errors of a tick or of the shutdown, and logs the errors that the previous tick did not have.
// It also logs the stack of a panic.
func (l *loop) report(errs []error, reported map[string]bool) map[string]bool {
	if len(errs) == 0 {
		return nil
	}
	l.failures.Inc()
	current := make(map[string]bool, len(errs))
	for _, err := range errs {
		text, fields := err.Error(), []any{"error", err}
		var panicked *engine.PanicError
		if errors.As(err, &panicked) {
			l.panics.Inc()
			fields = append(fields, "stack", string(panicked.Stack))
		}
		if !reported[text] {
			l.log.Error("a part of the tick failed; the other workloads and groups were decided", fields...)
		}
		current[text] = true
	}
	return current
}

// groupDecided adds the decision of a capacity group to the recording of the current tick.
func (l *loop) groupDecided(g engine.GroupTick) {
	if l.recorder != nil {
		l.recorder.GroupTick(g)
	}
}

// recorded ends the recording after a write error, because a full disk must not stop decisions.
func (l *loop) recorded(err error) {
	if err != nil {
		l.log.Error("recording failed and ended", "error", err)
		l.recorder = nil
		l.unrecorded.Set(1)
	}
}

// healthy reports whether the last tick of the leader is recent. It returns true on a standby, and while the caches are not synced, because
// no tick is expected then.
func (l *loop) healthy(now time.Time) bool {
	if !l.leading.Load() || !l.synced() {
		return true
	}
	last := l.engine.Decisions().LastTick()
	if started := time.Unix(0, l.started.Load()); last.Before(started) {
		last = started
	}
	return now.Sub(last) < stallTimeout
}
