package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/record"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// leadsSince marks a controller as leading since the given time, as run does.
func leadsSince(c *controller, since time.Time) {
	c.loop.synced = func() bool { return true }
	c.loop.started.Store(since.UnixNano())
	c.loop.leading.Store(true)
}

func TestLivenessProbeDependsOnTheLoop(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	x := offline(t)
	for _, c := range []struct {
		name          string
		standby       bool
		unsynced      bool
		started, last time.Time // when it became the leader, and last tick; zero: never
		want          int
	}{
		{"a recent tick", false, false, ago(time.Hour), ago(time.Second), http.StatusOK},
		{"a slow tick", false, false, ago(time.Hour), ago(stallTimeout - 5*time.Second), http.StatusOK},
		{"it stalled", false, false, ago(time.Hour), ago(stallTimeout + time.Second), http.StatusServiceUnavailable},
		{"the first tick does not end", false, false, ago(stallTimeout + time.Second), time.Time{}, http.StatusServiceUnavailable},
		{"just became the leader", false, false, ago(time.Second), time.Time{}, http.StatusOK},
		{"leads again after a long time", false, false, ago(time.Second), ago(time.Hour), http.StatusOK},
		{"a standby that never led", true, false, time.Time{}, time.Time{}, http.StatusOK},
		{"a standby that led once", true, false, ago(2 * time.Hour), ago(time.Hour), http.StatusOK},
		{"caches not synced: only readiness fails", false, true, ago(time.Hour), time.Time{}, http.StatusOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			x.loop.engine = engine.New(x.policies, x.poller, x.cluster, engine.Options{})
			leadsSince(x, c.started)
			x.loop.leading.Store(!c.standby)
			x.loop.synced = func() bool { return !c.unsynced }
			if !c.last.IsZero() {
				x.loop.engine.Tick(t.Context(), c.last)
			}
			if got := x.loop.healthy(now); got != (c.want == http.StatusOK) { // with a fixed time; the probe uses the current time
				t.Errorf("healthy: %t, want the status %d", got, c.want)
			}
			if c.want == http.StatusOK && !c.standby && !c.unsynced {
				return // a slow machine may exceed stallTimeout before the probe
			}
			w := httptest.NewRecorder()
			x.probes().Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", nil))
			if w.Code != c.want {
				t.Errorf("/healthz answers %d %s, want %d", w.Code, w.Body, c.want)
			}
		})
	}
}

// The liveness probe must succeed while the loop runs and after it ended.
func TestRunningLoopIsHealthyAndEndedLoopIsAStandby(t *testing.T) {
	c := offline(t)
	c.loop.synced = func() bool { return true }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { c.loop.run(ctx); close(ended) }()
	for end := time.Now().Add(time.Minute); c.engine.Decisions().LastTick().IsZero(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no tick within a minute")
		}
	}
	last := c.engine.Decisions().LastTick()
	if !c.loop.healthy(last.Add(stallTimeout/2)) || c.loop.healthy(last.Add(2*stallTimeout)) {
		t.Error("healthy must be true for stallTimeout and then false")
	}
	cancel()
	<-ended
	if !c.loop.healthy(last.Add(2 * stallTimeout)) {
		t.Error("an ended loop is reported as stalled")
	}
}

// A full disk ends only the recording. A metric and a log line report it.
func TestFailedRecordingIsReportedAndTheLoopContinues(t *testing.T) {
	c := offline(t)
	var log strings.Builder
	c.loop.log = slog.New(slog.NewTextHandler(&log, nil))
	leadsSince(c, time.Now())
	recorder, err := record.New(filepath.Join(t.TempDir(), "recording.jsonl"), record.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.loop.recorder = recorder
	c.loop.tick(t.Context(), nil)
	if n := testutil.ToFloat64(c.loop.unrecorded); n != 0 || c.loop.recorder == nil {
		t.Fatalf("before it fails: gpuscaler_recording_failed %g", n)
	}
	if err := recorder.Close(); err != nil { // every later write fails
		t.Fatal(err)
	}
	failed := time.Now()
	for range 3 {
		c.loop.tick(t.Context(), nil)
	}
	if n := testutil.ToFloat64(c.loop.unrecorded); n != 1 {
		t.Errorf("gpuscaler_recording_failed %g, want 1", n)
	}
	if text := log.String(); strings.Count(text, "recording") == 0 || strings.Count(text, "\n") != 1 || !strings.Contains(text, "closed") {
		t.Errorf("logged %q, want one line that says why", text)
	}
	if c.engine.Decisions().LastTick().Before(failed) {
		t.Error("the loop did not continue")
	}
}

func TestEachFailedWorkloadIsLoggedOnceWithItsStackAndCounted(t *testing.T) {
	c := offline(t)
	var log strings.Builder
	c.loop.log = slog.New(slog.NewTextHandler(&log, nil))
	failed := []error{
		fmt.Errorf("team/a: decide: %w", &engine.PanicError{Value: "index out of range", Stack: []byte("goroutine 7: decide.go:12")}),
		fmt.Errorf("team/b: decide: %w", &engine.PanicError{Value: "nil map", Stack: []byte("goroutine 7: veto.go:3")}),
		errors.New("apply: timeout"),
	}
	var reported map[string]bool
	for range 5 {
		reported = c.loop.report(failed, reported)
	}
	for _, line := range []string{"team/a", "decide.go:12", "team/b", "veto.go:3", "apply: timeout"} {
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("%q is logged %d times, want once:\n%s", line, n, log.String())
		}
	}
	if panics, ticks := testutil.ToFloat64(c.loop.panics), testutil.ToFloat64(c.loop.failures); panics != 10 || ticks != 5 {
		t.Errorf("%g panics in %g ticks, want 10 in 5", panics, ticks)
	}
	if reported = c.loop.report(nil, reported); reported != nil {
		t.Errorf("after a tick without errors: %v", reported)
	}
	c.loop.report(failed[:1], reported)
	if n := strings.Count(log.String(), "team/a"); n != 2 {
		t.Errorf("an error that returns is logged %d times, want twice", n)
	}
}

// fleet simulates a cluster of workloads without readings of their signals. A tick calls viewed for each workload that it reads.
type fleet struct {
	workloads []scaling.Workload
	viewed    func()
}

func (f *fleet) Current() []scaling.Workload                  { return f.workloads }
func (f *fleet) Read(*scaling.Workload, []scaling.Reading)    {}
func (f *fleet) Apply(context.Context, []engine.Change) error { return nil }
func (f *fleet) View(*scaling.Workload) (v engine.View, ok bool) {
	f.viewed()
	return engine.View{Replicas: 1, Ready: 1, Operator: scaling.NoOperator}, true
}

// In the first tick of a leader, every policy has a change. Logging the changes must not delay the targets, so the first line must be
// logged after the decision about the last workload. Every change must be logged once, and the next tick must log nothing.
func TestChangesAreLoggedAfterAllTargetsAreServed(t *testing.T) {
	const policies = 2 * keptChanges
	l := offline(t).loop
	logged, logging := map[scaling.Key]int{}, 0
	l.transition = func(r engine.Record) { logged[r.Workload.Key]++; logging++ }
	f := &fleet{viewed: func() {
		if logging > 0 {
			t.Fatal("a change was logged before all workloads were decided")
		}
	}}
	for i := range policies {
		f.workloads = append(f.workloads, scaling.Workload{
			Key:    scaling.Key{Namespace: "team", Name: fmt.Sprint("chat-", i)},
			Policy: &scaling.Policy{MinReplicas: 1, MaxReplicas: 3},
		})
	}
	l.engine = engine.New(f, f, f, engine.Options{OnTransition: l.change})
	l.tick(t.Context(), nil)
	if len(logged) != policies || logging != policies {
		t.Errorf("%d changes of %d workloads were logged, want one of each of %d", logging, len(logged), policies)
	}
	logging = 0
	l.tick(t.Context(), nil)
	if logging > 0 {
		t.Errorf("%d changes were logged again", logging)
	}
}
