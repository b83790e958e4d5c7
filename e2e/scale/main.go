// Command scale measures gpuscaler with thousands of policies on a real API server, aggregation layer and Prometheus, and compares its
// reads with the reads of a null adapter. The null adapter uses the same library and returns a constant. The null adapter is measured
// before and after gpuscaler, and gpuscaler is measured twice in between, so that the ratios are also valid on a busy machine.
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
	crashes := flag.Int("crashes", 1, "number of times that the leader of two replicas is lost")
	rate := flag.Int("rate", 0, "maximum number of reads a second; 0: each policy is read every 15 s, as by an HPA")
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
	r := &report{n: *n, during: names, crashes: *crashes, rate: *rate}
	r.loads = append(r.loads, machineLoad())
	err = run(ctx, r, *measure)
	r.loads = append(r.loads, machineLoad())
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

// run runs all measurements and adds them to the report. If it returns an error, the report contains the measurements before the error.
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := c.surroundings(ctx); err != nil {
		return err
	}
	a, err := c.startNull(ctx)
	if err != nil {
		return err
	}
	if err := c.measure(ctx, a.target, r, measure); err != nil {
		return err
	}
	text, err := c.quiet(ctx, "null adapter", measure)
	r.quiet = append(r.quiet, text)
	return errors.Join(err, c.stop(ctx, a))
}

// gpuscaler installs gpuscaler, measures it and removes it.
func (c *cluster) gpuscaler(ctx context.Context, r *report, measure time.Duration) error {
	step("gpuscaler: start")
	policies := controller.Policies{Dir: c.stack.Dir + "/policies"}
	if err := errors.Join(os.MkdirAll(policies.Dir, 0o755), policies.Put("platform", c.platform()),
		c.writePolicies(policies, 1, c.n, -1)); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ours, err := controller.Up(ctx, c.stack, controller.Options{LeaseDuration: lease})
	if err != nil {
		return err
	}
	c.ours = ours
	defer func() { c.ours = nil }()
	g, err := c.leader(ctx, ours)
	if err != nil {
		return err
	}
	if _, err := g.through.until(ctx, sample(c.n), "1", time.Now()); err != nil {
		return err
	}
	if err := c.measure(ctx, g, r, measure); err != nil {
		return err
	}
	text, err := c.quiet(ctx, "gpuscaler", measure)
	if err != nil {
		return err
	}
	r.quiet = append(r.quiet, text)
	if err := c.measure(ctx, g, r, measure); err != nil {
		return err
	}
	if text, err = c.ship(ctx, policies); err != nil {
		return err
	}
	r.events = append(r.events, text)
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
