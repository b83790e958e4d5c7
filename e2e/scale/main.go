// Command scale measures gpuscaler with thousands of policies on a real API server, aggregation layer and Prometheus, and compares its
// reads with the reads of a null adapter. The null adapter uses the same library and returns a constant. The null adapter is measured
// before and after gpuscaler, and gpuscaler twice in between, so that ratios hold on a busy machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	ossignal "os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gpuscaler/gpuscaler/e2e/audit"
	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
)

// lease is the duration of gpuscaler's Lease, which is also its default.
const lease = 15 * time.Second

var apiServiceKind = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}

func main() {
	if len(os.Args) > 1 && os.Args[1] == nullCommand {
		if err := runNull(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	n := flag.Int("n", 1000, "number of policies")
	measure := flag.Duration("measure", 20*time.Second, "duration of each measurement")
	limit := flag.Duration("limit", 15*time.Minute, "time after which the benchmark is stopped")
	during := flag.String("during", "", "also measure during these faults and changes: "+strings.Join(order, ","))
	flag.Parse()
	names, err := parseDuring(*during)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if *n < 100 {
		fmt.Fprintf(os.Stderr, "-n %d: use at least 100, because a p99 needs many reads\n", *n)
		os.Exit(2)
	}
	log.SetLogger(logr.Discard())
	ctx, stop := ossignal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	r := &report{n: *n, during: names}
	err = run(ctx, r, *measure)
	r.print(os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1) //nolint:gocritic // os.Exit skips the deferred functions, which only release the context
	}
}

// step prints the current step of the benchmark.
func step(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
}

// run runs all measurements. It fills the report even if it returns an error.
func run(ctx context.Context, r *report, measure time.Duration) error {
	step("starting the control plane and creating %d Deployments", r.n)
	requests, err := audit.New("system:serviceaccount:" + controller.Namespace + ":" + controller.Name)
	if err != nil {
		return err
	}
	defer requests.Close()
	c, err := newCluster(ctx, r.n, requests)
	if err != nil {
		return err
	}
	defer c.stack.Stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.null(ctx, r, measure); err != nil {
		return fmt.Errorf("null adapter: %w", err)
	}
	if err := c.gpuscaler(ctx, r, measure); err != nil {
		return fmt.Errorf("gpuscaler: %w", err)
	}
	if err := c.null(ctx, r, measure); err != nil {
		return fmt.Errorf("null adapter: %w", err)
	}
	return nil
}

// null starts the null adapter, measures it and removes it.
func (c *cluster) null(ctx context.Context, r *report, measure time.Duration) error {
	step("null adapter")
	a, err := c.startNull(ctx)
	if err != nil {
		return err
	}
	return errors.Join(c.measure(ctx, a.target, r, measure), c.stop(ctx, a))
}

// gpuscaler installs gpuscaler, measures it and removes it.
func (c *cluster) gpuscaler(ctx context.Context, r *report, measure time.Duration) error {
	step("gpuscaler: start")
	policies := controller.Policies{Dir: c.stack.Dir + "/policies"}
	if err := errors.Join(os.MkdirAll(policies.Dir, 0o755), policies.Put("platform", c.platform()),
		c.writePolicies(policies, 1, c.n)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ours, err := controller.Up(ctx, c.stack, controller.Options{LeaseDuration: lease})
	if err != nil {
		return err
	}
	g, err := c.leader(ctx, ours)
	if err != nil {
		return err
	}
	if _, err := g.through.until(ctx, c.n, "1", time.Now()); err != nil {
		return err
	}
	if err := c.measure(ctx, g, r, measure); err != nil {
		return err
	}
	if r.quiet, err = c.quiet(ctx, measure); err != nil {
		return err
	}
	if err := c.measure(ctx, g, r, measure); err != nil {
		return err
	}
	if err := c.changes(ctx, ours, g, r); err != nil {
		return err
	}
	if err := c.during(ctx, ours, r, measure); err != nil {
		return err
	}
	step("gpuscaler: end")
	return errors.Join(c.stack.Client.Delete(ctx, ours.Deployment()), stack.Poll(ctx, time.Minute, func(context.Context) error {
		if pods, err := ours.Pods(ctx); err != nil || len(pods) > 0 {
			return fmt.Errorf("%d pods still exist: %w", len(pods), err)
		}
		return nil
	}), c.unregister(ctx))
}

// changes measures how long gpuscaler needs after an edit, a restart and a crash of the leader.
func (c *cluster) changes(ctx context.Context, ours *controller.Controller, g *target, r *report) (err error) {
	all := func(what, value string, began time.Time) error {
		s, err := g.through.until(ctx, c.n, value, began)
		r.events = append(r.events, fmt.Sprintf("%s: %s", what, s))
		return err
	}
	step("gpuscaler: edits")
	began := time.Now()
	if err := c.writePolicies(ours.Policies, 2, c.n); err != nil {
		return err
	}
	if err := all(fmt.Sprintf("edit of all %d policies", c.n), "2", began); err != nil {
		return err
	}
	step("gpuscaler: crash of the only replica")
	if began, err = killLeader(ctx, ours); err != nil {
		return err
	}
	if err := all("crash of the only replica, which is restarted after 1 s", "2", began); err != nil {
		return err
	}
	step("gpuscaler: crash of the leader of two replicas")
	if err := c.stack.Client.Patch(ctx, ours.Deployment(), client.RawPatch("application/merge-patch+json",
		[]byte(`{"spec":{"replicas":2}}`))); err != nil {
		return err
	}
	if err := stack.Poll(ctx, time.Minute, ours.Ready(2)); err != nil {
		return err
	}
	if began, err = killLeader(ctx, ours); err != nil {
		return err
	}
	s, err := g.through.until(ctx, c.n, "2", began)
	r.events = append(r.events, fmt.Sprintf("crash of the leader of two replicas: %s: all served after %s", s, inLeases(s.last)))
	return err
}

// killLeader kills the process of the leader and returns the time.
func killLeader(ctx context.Context, ours *controller.Controller) (time.Time, error) {
	leader, err := ours.Leader(ctx)
	if err != nil {
		return time.Time{}, err
	}
	p := ours.Kubelet.Process(controller.Namespace, leader.Name)
	if p == nil {
		return time.Time{}, fmt.Errorf("pod %s has no process", leader.Name)
	}
	p.Kill()
	return time.Now(), nil
}
