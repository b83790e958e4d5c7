package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/faults"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// source is the proxy through which gpuscaler queries Prometheus. It can apply a fault to some of the responses.
type source struct {
	url           string
	faulty, sound *faults.Prometheus
	every         atomic.Int64 // every nth query has the fault; 0: no query
	queries       atomic.Int64
}

// newSource serves a source until ctx ends.
func newSource(ctx context.Context, k8s *stack.Stack) (*source, error) {
	s := &source{}
	var err error
	if s.faulty, err = faults.NewPrometheus(k8s.Prometheus.URL); err != nil {
		return nil, err
	}
	if s.sound, err = faults.NewPrometheus(k8s.Prometheus.URL); err != nil {
		return nil, err
	}
	port, err := k8s.Port()
	if err != nil {
		return nil, err
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { server.Close() })
	go server.Serve(l) //nolint:errcheck // always ErrServerClosed, after the line above closes the server
	s.url = "http://" + l.Addr().String()
	return s, nil
}

func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, to := s.queries.Add(1), s.sound
	if every := s.every.Load(); every > 0 && n%every == 0 {
		to = s.faulty
	}
	to.ServeHTTP(w, r)
}

// fail applies the fault f to each query whose number is a multiple of `every`. 0 means that no query has a fault.
func (s *source) fail(every int64, f faults.Fault) {
	s.faulty.Set(f)
	s.every.Store(every)
}

// conditions maps each value of the flag -during to the method that measures gpuscaler during this condition.
var conditions = map[string]func(*faultRun, context.Context) error{
	"hang": (*faultRun).hang, "cut": (*faultRun).cut, "edit": (*faultRun).edit, "crash": (*faultRun).crash,
}

// order is the order in which conditions are measured.
var order = []string{"hang", "cut", "edit", "crash"}

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

// raise changes all signals so that each needs one replica more, and returns the time of the change. The values are visible only after the
// next scrape.
func (f *faultRun) raise() time.Time {
	f.targets++
	f.waiting.Store(int64(f.targets*10 - 5))
	return time.Now()
}

// served adds to the report how long after `began` every policy serves the current target.
func (f *faultRun) served(ctx context.Context, what string, began time.Time) error {
	leader, err := f.leader(ctx, f.ours)
	if err != nil {
		return err
	}
	s, err := leader.through.until(ctx, f.n, strconv.Itoa(f.targets), began)
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

// hang measures the reads of the leader while Prometheus accepts queries but does not respond. Then all signals change, Prometheus responds
// again, and hang measures the time until all targets are served.
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

// cut measures the reads of the leader while every second response of Prometheus is cut off in the middle. Then all signals change, and cut
// measures the time until all targets are served.
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
	if err := f.writePolicies(f.ours.Policies, f.targets+1, f.n/2); err != nil {
		return err
	}
	if err := f.readsOfLeader(ctx, "half of the policies are edited"); err != nil {
		return err
	}
	return f.served(ctx, "change of all signals after half of the policies were edited", f.raise())
}

// crash kills the leader, measures the reads of the other replica from then on, and adds to the report how long reads failed.
func (f *faultRun) crash(ctx context.Context) error {
	standby, err := f.standby(ctx)
	if err != nil {
		return err
	}
	f.d = max(f.d, 2*lease) // at least two leases, because all reads fail until the lease expires
	killed, err := killLeader(ctx, f.ours)
	if err != nil {
		return err
	}
	if err := f.reads(ctx, standby, "the leader was killed"); err != nil {
		return err
	}
	failed := f.report.rows[len(f.report.rows)-1].lastFailure.Sub(killed)
	f.report.events = append(f.report.events, "reads failed after the leader was killed for "+inLeases(failed))
	return nil
}

// inLeases returns a duration as text, also as a multiple of the lease duration. The aim is at most one lease duration plus 2 s.
func inLeases(d time.Duration) string {
	return fmt.Sprintf("%s, %.2f times the lease of %s", d.Round(100*time.Millisecond), d.Seconds()/lease.Seconds(), lease)
}

// standby returns the replica that is not the leader. Its metrics are read only through the API server.
func (f *faultRun) standby(ctx context.Context) (*target, error) {
	leader, err := f.ours.Leader(ctx)
	if err != nil {
		return nil, err
	}
	pods, err := f.ours.Pods(ctx)
	if err != nil {
		return nil, err
	}
	for _, pod := range pods {
		if p := f.ours.Kubelet.Process(controller.Namespace, pod.Name); p != nil && pod.Name != leader.Name {
			t, err := f.target("gpuscaler", pod.Status.PodIP+":6443", p)
			if err == nil {
				t.port = nil
			}
			return t, err
		}
	}
	return nil, errors.New("there is no standby")
}
