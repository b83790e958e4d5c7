package main

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
	// stalledAfter is how long a leader may go without finishing a tick before its liveness probe fails.
	stalledAfter = 15 * time.Second
)

// loop is the ticker: the one place where the controller's clock is read for decisions.
type loop struct {
	engine     *engine.Engine
	synced     func() bool
	log        *slog.Logger
	leading    atomic.Bool
	started    atomic.Int64 // Unix nanoseconds of the term's start
	duration   prometheus.Histogram
	failures   prometheus.Counter
	panics     prometheus.Counter
	lead       prometheus.Gauge
	unrecorded prometheus.Gauge
	recorder   *record.Recorder // nil: nothing is written down, or not any more
}

func newLoop(e *engine.Engine, synced func() bool, r prometheus.Registerer, log *slog.Logger) *loop {
	l := &loop{engine: e, synced: synced, log: log,
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gpuscaler_tick_duration_seconds", Help: "Time that one tick over all policies took.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}),
		failures:   prometheus.NewCounter(prometheus.CounterOpts{Name: "gpuscaler_tick_failures_total", Help: "Ticks in which a workload failed or an action was not carried out."}),
		panics:     prometheus.NewCounter(prometheus.CounterOpts{Name: "gpuscaler_tick_panics_total", Help: "Panics that were recovered while a workload, team or capacity group was decided; the log has the stack."}),
		lead:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "gpuscaler_leader", Help: "1 while this process decides and serves."}),
		unrecorded: prometheus.NewGauge(prometheus.GaugeOpts{Name: "gpuscaler_recording_failed", Help: "1 once the recording of --record could not be written: it has ended, deciding goes on; the log says why."}),
	}
	r.MustRegister(l.duration, l.failures, l.panics, l.lead, l.unrecorded)
	return l
}

// run ticks once a second while ctx lasts. It starts once the caches are synced: a target that is not seen yet is not decided.
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

// tick runs the engine once and logs its errors. reported has the errors of the tick before by text; tick returns those of this one.
func (l *loop) tick(ctx context.Context, reported map[string]bool) map[string]bool {
	start := time.Now()
	now := start.Round(0) // without the monotonic clock, which a recording cannot hold
	out := l.engine.Tick(ctx, now)
	l.duration.Observe(time.Since(start).Seconds())
	if l.recorder != nil {
		l.recorded(l.recorder.Tick(l.engine.Decisions(), now))
	}
	return l.report(out.Errors, reported)
}

// report counts the errors of a tick and logs those that the tick before did not have, each with the stack of its panic.
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
			l.log.Error("tick", fields...)
		}
		current[text] = true
	}
	return current
}

// groupDecided writes down a decision for nodes, in the tick that made it.
func (l *loop) groupDecided(g engine.GroupTick) {
	if l.recorder != nil {
		l.recorder.GroupTick(g)
	}
}

// recorded ends the recording where writing failed: a full disk must not keep anybody from deciding.
func (l *loop) recorded(err error) {
	if err != nil {
		l.log.Error("recording ends", "error", err)
		l.recorder = nil
		l.unrecorded.Set(1)
	}
}

// healthy reports whether the loop goes on; a standby has none to stall.
func (l *loop) healthy(now time.Time) bool {
	if !l.leading.Load() || !l.synced() {
		return true
	}
	last := l.engine.Decisions().LastTick()
	if started := time.Unix(0, l.started.Load()); last.Before(started) {
		last = started
	}
	return now.Sub(last) < stalledAfter
}
