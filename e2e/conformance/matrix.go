package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/conformance/judge"
	"github.com/gpuscaler/gpuscaler/e2e/conformance/lab"
	"github.com/gpuscaler/gpuscaler/e2e/conformance/record"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// timing contains the durations of the phases of a run, in the order of the phases.
type timing struct {
	steady  time.Duration // how long all values must be correct before the fault
	hold    time.Duration // minimum duration of each fault; fault.hold can prolong it
	settle  time.Duration // how long all values must be correct after the fault
	recover time.Duration // time after the end of the fault within which the target must recover
}

// standard contains the durations of `make conformance`. settle is longer than the stabilization window of scale-downs plus a sync of the
// HPA. A wrong decrease that the window or the sync delays is therefore recorded.
var standard = timing{steady: 3 * time.Second, hold: 20 * time.Second, settle: 8 * time.Second, recover: 2 * time.Minute}

// steadyWithin is the time within which the target must serve all correct values before a fault.
const steadyWithin = 4 * time.Minute

// errTooSlow is returned if many control reads failed although the API server should have recovered. The run is not recorded, because its
// result would show the speed of the machine and not a defect of the target.
var errTooSlow = errors.New("the machine is too slow for a verdict")

// errNoCluster is returned if the cluster or the target did not start.
var errNoCluster = errors.New("no cluster")

// mostStarts is the number of failed starts of the cluster that the command tolerates. After the next failed start, the command ends.
const mostStarts = 5

// reachableAfter is the time after the end of a fault within which the API server must respond again.
const reachableAfter = 30 * time.Second

// matrix runs faults against one target.
type matrix struct {
	target lab.Target
	faults []fault
	runs   int
	until  time.Time // no run begins after this time; zero: no limit
	record string    // path of the CSV file to which the results are appended
	dir    string    // directory of logs and of evidence about failed runs
	timing timing
	say    func(format string, args ...any)

	lab  *lab.Lab
	seen *watcher
	stop context.CancelFunc // ends the lab's goroutines
}

// run runs all faults once, then all faults a second time, and so on, until each fault has m.runs runs.
func (m *matrix) run(ctx context.Context) error {
	defer m.end()
	starts := 0 // number of failed starts of the cluster
	for n := 1; n <= m.runs; n++ {
		for i, f := range m.faults {
			if ctx.Err() != nil || m.over() {
				return ctx.Err()
			}
			if done, err := m.done(ctx, f); err != nil {
				return err
			} else if done >= n {
				continue
			}
			m.say("%s run %d of %d, fault %d of %d, %s", m.target.Name(), n, m.runs, i+1, len(m.faults), f.name)
			r, err := m.once(ctx, f)
			if errors.Is(err, errTooSlow) || errors.Is(err, errNoCluster) && starts < mostStarts && ctx.Err() == nil {
				m.say("  not recorded: %v", err)
				m.end()
				if errors.Is(err, errNoCluster) {
					starts++
				}
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			if err := record.Append(m.record, r); err != nil {
				return err
			}
			m.say("  %s", r)
		}
	}
	return nil
}

// over is true if the time limit is over, after which no run begins.
func (m *matrix) over() bool { return !m.until.IsZero() && time.Now().After(m.until) }

// done returns how many of the required runs of a fault the CSV file has.
func (m *matrix) done(ctx context.Context, f fault) (int, error) {
	s, err := record.Read(m.record)
	if err != nil {
		return 0, err
	}
	version, err := m.target.Version(ctx)
	return s.Done(m.target.Name(), version, f.recorded()), err
}

// begin starts the cluster and the target.
func (m *matrix) begin(ctx context.Context) error {
	m.say("starting a cluster with %s", m.target.Name())
	ctx, m.stop = context.WithCancel(ctx)
	l, err := lab.New(ctx)
	if err != nil {
		return err
	}
	return m.attach(ctx, l)
}

// attach starts the target in a cluster.
func (m *matrix) attach(ctx context.Context, l *lab.Lab) error {
	m.lab, l.Lifetime = l, ctx
	var err error
	if l.Version, err = m.target.Version(ctx); err != nil {
		return err
	}
	if err := m.target.Start(ctx, l); err != nil {
		return fmt.Errorf("start %s: %w", m.target.Name(), err)
	}
	m.seen, err = watch(ctx, l, m.target)
	return err
}

// end stops the cluster.
func (m *matrix) end() {
	if m.stop != nil {
		m.stop()
	}
	if m.lab != nil {
		m.lab.Stack.Stop()
	}
	m.lab, m.stop = nil, nil
}

// once runs a fault once: it waits for the steady state, injects the fault, waits, ends the fault and waits for the recovery. If the target
// does not recover, once stops the cluster, so that the next run starts a new cluster.
func (m *matrix) once(ctx context.Context, f fault) (r record.Result, err error) {
	if m.lab == nil {
		if err := m.begin(ctx); err != nil {
			return r, fmt.Errorf("%w: %w", errNoCluster, err)
		}
	}
	m.seen.forget()
	if err := stack.Poll(ctx, steadyWithin, m.steady); err != nil {
		return r, fmt.Errorf("no steady state before the fault: %w", err)
	}
	r = record.Result{Target: m.target.Name(), Fault: f.name, Definition: f.definition(), Version: m.lab.Version, At: time.Now().UTC()}
	run := judge.Run{Correct: m.correct(), Injected: time.Now()}
	repair, err := f.inject(ctx, m.lab)
	var reason lab.NotApplicable
	if errors.As(err, &reason) {
		r.Outcome, r.Note = record.Inapplicable, string(reason)
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("inject: %w", err)
	}
	if repair != nil {
		hold(ctx, max(f.hold, m.timing.hold))
	}
	run.Ended = time.Now()
	if repair != nil {
		if err := repair(context.WithoutCancel(ctx)); err != nil {
			return r, fmt.Errorf("repair: %w", err)
		}
	}
	verdict := m.settled(ctx, run)
	r.Judged(verdict)
	r.Load = machineLoad()
	if refused, all := m.seen.snapshot().Unreachable(run.Ended.Add(reachableAfter)); r.Outcome == record.Lost && refused*10 > all {
		return r, fmt.Errorf("%w: %d of %d control reads failed, load %.0f", errTooSlow, refused, all, r.Load)
	}
	if r.Failure() != "" {
		err = m.keepEvidence(r, verdict)
	}
	if r.Outcome == record.Lost {
		m.end()
	}
	return r, errors.Join(err, ctx.Err())
}

func hold(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// correct returns the correct values of the workloads that the target serves.
func (m *matrix) correct() map[string]judge.Correct {
	all := map[string]judge.Correct{}
	for _, w := range lab.Workloads {
		if served, ok := m.target.Metric(w); ok {
			all[w.Name] = judge.Correct{Value: served.Correct, Replicas: w.Replicas()}
		}
	}
	return all
}

// steady returns an error unless all values and replicas have been correct for the duration timing.steady.
func (m *matrix) steady(context.Context) error {
	record := m.seen.snapshot()
	if len(record.Reads) == 0 || time.Since(record.Reads[0].Began) < m.timing.steady {
		return errors.New("too few reads")
	}
	run := judge.Run{Correct: m.correct(), Injected: record.Reads[0].Began, Ended: record.Reads[0].Began}
	v := run.Judge(record)
	for name, c := range run.Correct {
		if err := m.seen.has(name, c.Replicas); err != nil {
			return err
		}
	}
	since := run.Ended.Add(time.Duration(v.Recovery * float64(time.Second)))
	if !v.Recovered || time.Since(since) < m.timing.steady {
		return fmt.Errorf("%d of %d reads refused (%s), %v", v.Refused, v.Reads, v.Refusal, v.Decreases)
	}
	return nil
}

// settled waits until the target has recovered and has served correct values for the duration timing.settle, or until timing.recover is
// over. It returns the verdict.
func (m *matrix) settled(ctx context.Context, run judge.Run) (v judge.Verdict) {
	for limit := run.Ended.Add(m.timing.recover); ; {
		v = run.Judge(m.seen.snapshot())
		since := run.Ended.Add(time.Duration(v.Recovery * float64(time.Second)))
		if ctx.Err() != nil || v.Recovered && time.Since(since) >= m.timing.settle {
			return v
		}
		if time.Now().After(limit) {
			v.Recovered = false
			return v
		}
		hold(ctx, 200*time.Millisecond)
	}
}

// keepEvidence writes the recorded reads and replicas of a failed run and the end of each log of the target into the directory m.dir.
func (m *matrix) keepEvidence(r record.Result, verdict judge.Verdict) error {
	dir := filepath.Join(m.dir, "failures", fmt.Sprintf("%s-%s-%s", r.Target, r.Fault, r.At.Format("150405")))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(struct {
		Result  record.Result
		Verdict judge.Verdict
		Record  judge.Record
	}{r, verdict, m.seen.snapshot()}, "", " ")
	if err != nil {
		return err
	}
	err = os.WriteFile(filepath.Join(dir, "record.json"), text, 0o644)
	for _, pattern := range append(m.lab.Parts.Logs, filepath.Join(m.lab.Stack.Dir, "logs", "kube-controller-manager.log")) {
		files, _ := filepath.Glob(pattern) // no error, because the pattern is valid
		for _, file := range files {
			log, failed := os.ReadFile(file)
			end := log[max(0, len(log)-logBytes):]
			err = errors.Join(err, failed, os.WriteFile(filepath.Join(dir, filepath.Base(file)), end, 0o644))
		}
	}
	return err
}

// logBytes is the number of bytes at the end of each log that are kept after a failed run.
const logBytes = 512 << 10

// machineLoad returns the load average of the machine over the last minute. 0: unknown.
func machineLoad() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0 // not Linux
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, _ := strconv.ParseFloat(first, 64) // no error is possible, because the kernel writes a number
	return load
}
