package outage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/exporter"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/workload"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// blindFor is the duration of each fault. It is longer than the maximum age of a reading, the stabilization window and several polls.
const blindFor = 12 * time.Second

func TestPrometheusStopsAndStarts(t *testing.T) {
	blind(t, failingSource{"stopped", "prom", []string{"connection refused"}},
		func(*exporter.Exporter) error { return suite.Stack.Prometheus.Stop() },
		func(*exporter.Exporter) error {
			ctx := context.WithoutCancel(t.Context()) // the cleanup of a failed test needs a context that is not canceled, to repair the source
			if err := suite.Stack.Prometheus.Start(ctx); err != nil {
				return err
			}
			// Prometheus answers queries some seconds before its first scrape, so wait until it has new samples
			return stack.Poll(ctx, time.Minute, fresh("stopped", 6))
		})
}

// fresh returns a check that exactly the given number of vLLM servers has samples in Prometheus that are less than two seconds old.
func fresh(namespace string, engines float64) func(context.Context) error {
	return func(ctx context.Context) error {
		n, err := suite.Stack.Prometheus.Value(ctx, fmt.Sprintf(`count(time() - timestamp(vllm:num_requests_waiting{namespace=%q}) < 2)`,
			namespace))
		if err == nil && n != engines {
			err = fmt.Errorf("%g of %g engines scraped", n, engines)
		}
		return err
	}
}

func TestPrometheusHangsAndResumes(t *testing.T) {
	blind(t, failingSource{"frozen", "prom", []string{"timeout"}},
		func(*exporter.Exporter) error { return suite.Stack.Prometheus.Freeze(t.Context()) },
		func(*exporter.Exporter) error { return suite.Stack.Prometheus.Thaw() })
}

func TestPrometheusReturnsInvalidData(t *testing.T) {
	t.Parallel()
	for f, reasons := range map[faults.Fault][]string{
		faults.Empty:     {"no data"},
		faults.NaN:       {"invalid value"},
		faults.Inf:       {"invalid value"},
		faults.Truncated: {"cut off"},
		faults.Huge:      {"too many series"},
		faults.HalfPods:  {"50% of the ready pods"},
		faults.Error:     {"HTTP error"},
		faults.Hang:      {"timeout"},
	} {
		t.Run(slug(f), func(t *testing.T) {
			t.Parallel()
			blind(t, failingSource{slug(f), sourceOf(f), reasons},
				func(*exporter.Exporter) error { broken[f].Set(f); return nil },
				func(*exporter.Exporter) error { broken[f].Set(faults.None); return nil })
		})
	}
}

// The fault Huge is not tested here, because Prometheus also scrapes these replicas and such large responses would slow down the machine.
func TestDirectScrapesReturnInvalidData(t *testing.T) {
	t.Parallel()
	for f, reasons := range map[faults.Fault][]string{
		faults.Empty:     {"no data"},
		faults.NaN:       {"invalid value"},
		faults.Inf:       {"invalid value"},
		faults.Truncated: {"cut off"},
		faults.HalfPods:  {"of the ready pods"},
		faults.Error:     {"HTTP error"},
		faults.Hang:      {"timeout"},
	} {
		t.Run(slug(f), func(t *testing.T) {
			t.Parallel()
			blind(t, failingSource{"direct-" + slug(f), "engines", reasons},
				func(e *exporter.Exporter) error { e.VLLM.Set(f); return nil },
				func(e *exporter.Exporter) error { e.VLLM.Set(faults.None); return nil })
		})
	}
}

// failingSource is a data source that a test makes fail.
type failingSource struct {
	test, source string   // prefix of the test's namespace; name of the data source
	reasons      []string // reasons of which explain must name one
}

// blind tests a failure of a data source. While the source fails, the queue becomes empty, but the target must not decrease, and explain
// must name one of the reasons of f. Then the queue grows beyond its first length and the source is repaired. The target must follow the
// signal again.
func blind(t *testing.T, f failingSource, breakIt, repair func(*exporter.Exporter) error) {
	t.Helper()
	ns, load := suite.Namespace(t, f.test), &exporter.Total{}
	load.Set(57)
	metrics := workload.Metrics(ns, "chat", load)
	metrics.MetricsPort = enginePort
	e := suite.Export(t, metrics)
	s := suite.Workload(t, workload.Deployment(ns, "chat", 6), spec(f.source))
	stack.Eventually(t, time.Minute, "six replicas for 57 requests", s.HasTarget(6))

	broke := time.Now()
	t.Cleanup(func() {
		if t.Failed() { // repair the source after a failure, because the other tests use the same Prometheus
			_ = repair(e) // ignored, because the test has already failed
		}
	})
	if err := breakIt(e); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * pollEvery) // a query that began before the fault must not read the next value
	load.Set(3)
	time.Sleep(blindFor)
	held(t, s, broke)
	stack.Eventually(t, time.Minute, "explain reports missing signals and the cause", s.Explained(func(e explain.Explanation) error {
		note := e.Signals[0].Note
		for _, reason := range f.reasons {
			if e.Degraded && e.Target == 6 && strings.Contains(note, reason) {
				return nil
			}
		}
		return fmt.Errorf("%d, degraded %t, %q; want 6 and one of %q", e.Target, e.Degraded, note, f.reasons)
	}))

	load.Set(83)
	if f.source == "prom" { // Prometheus was stopped or frozen, so all samples after the repair are new
		time.Sleep(2 * time.Second)
	} else { // with other faults, the first valid response may contain old values
		stack.Eventually(t, time.Minute, "Prometheus has new samples", func(ctx context.Context) error {
			n, err := suite.Stack.Prometheus.Value(ctx, fmt.Sprintf(`sum(vllm:num_requests_waiting{namespace=%q})`, ns))
			if f.source != "engines" && (err != nil || n < 80) {
				return fmt.Errorf("it has %g (%v)", n, err)
			}
			return nil
		})
	}
	if err := repair(e); err != nil {
		t.Fatal(err)
	}
	repaired := time.Now()
	stack.Eventually(t, time.Minute, "the target follows the signal again", s.Explained(func(e explain.Explanation) error {
		if e.Target <= 6 {
			return fmt.Errorf("target %d for 83 requests: %+v", e.Target, e.Signals)
		}
		return nil
	}))
	if steps := s.Targets(t).Since(repaired); len(steps) > 1 { // uses the times in gpuscaler's log, because this test may be delayed
		t.Logf("the target followed %s after the source was repaired", steps[1].At.Sub(repaired))
	}
	// The signals of new replicas are missing until they are scraped for the first time, so the target may reach nine only after several
	// ticks.
	stack.Eventually(t, time.Minute, "nine replicas for 83 requests", s.HasTarget(9))
	held(t, s, broke)
	load.Set(28)
	stack.Eventually(t, time.Minute, "three replicas for 28 requests", s.HasReplicas(3))
}

// held fails the test if the target or the Deployment's replicas have decreased since the given time.
func held(t *testing.T, s controller.Workload, since time.Time) {
	t.Helper()
	targets := s.Targets(t).Since(since)
	replicas, err := s.Replicas.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if f := targets.Fall(); f != nil {
		t.Errorf("the target decreased to %d: %v", f.N, targets)
	}
	if f := replicas.Since(since).Fall(); f != nil {
		t.Errorf("the replicas decreased to %d: %v", f.N, replicas)
	}
}
