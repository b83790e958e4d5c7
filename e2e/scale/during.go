package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// conditions contains, for each condition that the flag -during can name, the method that measures gpuscaler during this fault or change.
var conditions = map[string]func(*faultRun, context.Context) error{
	"hang": (*faultRun).hang, "cut": (*faultRun).cut, "edit": (*faultRun).edit, "pods": (*faultRun).pods, "expire": (*faultRun).expire,
	"crash": (*faultRun).crash,
}

// order is the order in which conditions are measured.
var order = []string{"hang", "cut", "edit", "pods", "expire", "crash"}

// parseDuring parses the flag -during and returns the names of the conditions.
func parseDuring(text string) (names []string, err error) {
	if text == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		if conditions[name] == nil {
			return nil, fmt.Errorf("-during %q: use %s, separated by commas", name, strings.Join(order, ", "))
		}
		names = append(names, name)
	}
	return names, nil
}

// faultRun measures an installation of gpuscaler with two replicas during faults and changes.
type faultRun struct {
	*cluster
	ours    *controller.Controller
	report  *report
	d       time.Duration
	targets int // the current target of all policies
}

// during measures gpuscaler under each of the conditions that -during names. Before the call, the target of every policy must be 2.
func (c *cluster) during(ctx context.Context, ours *controller.Controller, r *report, d time.Duration) error {
	if len(r.during) == 0 {
		return nil
	}
	f := &faultRun{c, ours, r, d, 2}
	began := f.raise()
	if err := f.served(ctx, "change of all signals", began); err != nil {
		return err
	}
	for _, name := range order {
		if !slices.Contains(r.during, name) {
			continue
		}
		if err := conditions[name](f, ctx); err != nil {
			return fmt.Errorf("-during %s: %w", name, err)
		}
	}
	return nil
}

// raise changes all signals so that each policy needs one replica more, and returns the time of the change. gpuscaler can read the values
// only after the next scrape.
func (f *faultRun) raise() time.Time {
	f.targets++
	f.waiting.Store(int64(f.targets*10 - 5))
	return time.Now()
}

// served adds to the report the time from began until gpuscaler serves the current target of every policy.
func (f *faultRun) served(ctx context.Context, what string, began time.Time) error {
	leader, err := f.leader(ctx, f.ours)
	if err != nil {
		return err
	}
	s, err := leader.through.until(ctx, sample(f.n), strconv.Itoa(f.targets), began)
	f.report.events = append(f.report.events, fmt.Sprintf("%s: %s", what, s))
	return err
}

// reads measures the reads of a replica during a condition. It also adds to the report the queries, requests, Events and CPU time in this
// period.
func (f *faultRun) reads(ctx context.Context, t *target, what string) error {
	t.during = what
	text, err := f.activity(ctx, what, func() error { return f.measure(ctx, t, f.report, f.d) })
	f.report.events = append(f.report.events, text)
	return err
}

func (f *faultRun) readsOfLeader(ctx context.Context, what string) error {
	leader, err := f.leader(ctx, f.ours)
	if err != nil {
		return err
	}
	return f.reads(ctx, leader, what)
}

// hang measures the reads of the leader while Prometheus accepts queries but does not respond. Then it changes all signals, ends the fault,
// and measures the time until all targets are served.
func (f *faultRun) hang(ctx context.Context) error {
	f.prometheus.fail(1, faults.Hang)
	defer f.prometheus.fail(0, faults.None)
	if err := f.readsOfLeader(ctx, "Prometheus hangs"); err != nil {
		return err
	}
	f.raise()
	if err := f.scraped(ctx); err != nil {
		return err
	}
	f.prometheus.fail(0, faults.None)
	return f.served(ctx, "end of the hang, in which all signals changed", time.Now())
}

// scraped waits until Prometheus has scraped the current signals.
func (f *faultRun) scraped(ctx context.Context) error {
	return stack.Poll(ctx, time.Minute, func(ctx context.Context) error {
		for k := range templates {
			got, err := f.stack.Prometheus.Value(ctx, fmt.Sprintf("min(waiting_%d)", k))
			if err != nil {
				return err
			}
			if want := f.waiting.Load(); int64(got) != want {
				return fmt.Errorf("waiting_%d is %g, not %d", k, got, want)
			}
		}
		return nil
	})
}

// cut measures the reads of the leader while every second response of Prometheus ends after the first half of its body. Then it changes all
// signals and measures the time until all targets are served.
func (f *faultRun) cut(ctx context.Context) error {
	f.prometheus.fail(2, faults.Truncated)
	defer f.prometheus.fail(0, faults.None)
	if err := f.readsOfLeader(ctx, "half of the answers are cut off"); err != nil {
		return err
	}
	return f.served(ctx, "change of all signals while half of the answers are cut off", f.raise())
}

// edit raises minReplicas of half of the policies to one more than the target, and measures the reads of the leader during this change.
// Then it raises all signals to the same number of replicas, and measures the time until all targets are served.
func (f *faultRun) edit(ctx context.Context) error {
	if err := f.writePolicies(f.ours.Policies, f.targets+1, f.n/2, -1); err != nil {
		return err
	}
	if err := f.readsOfLeader(ctx, "half of the policies are edited"); err != nil {
		return err
	}
	return f.served(ctx, "change of all signals after half of the policies were edited", f.raise())
}
