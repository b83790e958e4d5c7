package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/externalmetrics"
	"github.com/gpuscaler/gpuscaler/pkg/replay/demo"
	"github.com/gpuscaler/gpuscaler/pkg/serve"
)

// demoOptions are the flags of `gpuscaler demo`.
type demoOptions struct {
	requests          string
	trace             traceFlags
	speed             float64
	duration          time.Duration
	seed              uint64
	output            string
	pageAddress       string
	metricsAPIAddress string
}

func demoCommand() *cobra.Command {
	o := demoOptions{}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Simulate a day of GPU workloads in minutes, without a cluster",
		Long: `Run the engine of the controller on a simulated cluster. The workloads of three teams have a diurnal curve, bursts, an
idle night and spot losses, and capacity groups change the NodePools of a simulated Karpenter. By default, a minute of
simulated time takes a second.

The demo prints each decision with its reason, and serves the web page and the external metrics API on loopback
addresses. It ends after --for (simulated time) or on Ctrl-C, and then prints a summary. The summary compares cost,
requests on time and idle GPU time with KEDA and with a static fleet, and the cost with a lower bound that no
autoscaler can reach.`,
		Example: `  gpuscaler demo
  gpuscaler demo --requests requests.csv --speed 120
  gpuscaler demo --for 24h --speed 100000 -o json
  curl -skG https://127.0.0.1:6443/apis/external.metrics.k8s.io/v1beta1/namespaces/team-chat/gpuscaler-desired-replicas \
    -d labelSelector=gpuscaler.io/policy=llama-chat`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr()) },
	}
	f := c.Flags()
	f.StringVar(&o.requests, "requests", "", "recorded traffic of the chat service: CSV, JSON lines, rates; also .gz")
	o.trace.register(f)
	f.Float64Var(&o.speed, "speed", demo.DefaultSpeed, "simulated seconds per second")
	f.DurationVar(&o.duration, "for", 0, "simulated time after which the demo ends; 0: on Ctrl-C, or with --requests shortly after the "+
		"last request")
	f.Uint64Var(&o.seed, "seed", 1, "seed of all random numbers; the same seed gives the same run")
	f.StringVarP(&o.output, "output", "o", "text", "text: each decision and a summary; json: the summary")
	f.StringVar(&o.pageAddress, "page-address", "127.0.0.1:8081", "address of the page; loopback only")
	f.StringVar(&o.metricsAPIAddress, "external-metrics-address", "127.0.0.1:6443", "address of the external metrics API; loopback only")
	return c
}

func (o *demoOptions) run(ctx context.Context, out, progress io.Writer) error {
	if o.output != "text" && o.output != "json" {
		return fmt.Errorf("-o %q: use text or json", o.output)
	}
	options := demo.Options{Speed: o.speed, For: o.duration, Seed: o.seed, Clock: time.Now}
	if o.output == "text" {
		options.OnTransition = logTransition(out)
	}
	if o.requests != "" || o.trace.fetched.enabled() {
		requests, err := o.trace.open(ctx, o.requests)
		if err != nil {
			return err
		}
		options.Requests = requests
	}
	d, err := demo.New(options)
	if err != nil {
		return err
	}
	if err := o.live(ctx, d, progress); err != nil {
		return err
	}
	summary := d.Summary()
	if err := compare(ctx, d, &summary, progress); err != nil {
		return err
	}
	if o.output == "json" {
		return commandline.WriteJSON(out, summary)
	}
	return summary.WriteText(out)
}

// maxCompared is the longest simulated time of a demo for which the other autoscalers are simulated for comparison. Simulating one day
// takes some seconds for each autoscaler.
const maxCompared = 48 * time.Hour

// compare simulates the demo's traffic again with other autoscalers, and adds their results and the lower bound of the cost to the
// summary. The user ends the demo with Ctrl-C, which cancels ctx. compare runs after this cancellation, and a second Ctrl-C ends it.
func compare(ctx context.Context, d *demo.Demo, summary *demo.Summary, progress io.Writer) error {
	if length := summary.End.Sub(summary.Start); length > maxCompared {
		fmt.Fprintf(progress, "no comparison with other autoscalers: %s is more than %s; use gpuscaler replay\n", length, maxCompared)
		return nil
	}
	ctx, stop := signal.NotifyContext(context.WithoutCancel(ctx), os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Fprintln(progress, "simulating the same time with KEDA and with a static fleet; Ctrl-C skips this ...")
	outcomes, err := d.Compare(ctx)
	if err == nil {
		summary.Compared = outcomes
		var least float64
		if least, err = d.LeastCost(ctx); err == nil {
			summary.LeastCost = &least
		}
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// live runs the simulation and its servers until the simulation ends or ctx is canceled.
func (o *demoOptions) live(ctx context.Context, d *demo.Demo, progress io.Writer) error {
	if _, err := commandline.NewLogger("error"); err != nil { // only errors of libraries are printed between the decisions
		return err
	}
	page, err := serve.ListenLoopback(o.pageAddress)
	if err != nil {
		return fmt.Errorf("--page-address: %w; 127.0.0.1:0 takes a free port", err)
	}
	api, err := serve.ListenLoopback(o.metricsAPIAddress)
	if err != nil {
		return fmt.Errorf("--external-metrics-address: %w; 127.0.0.1:0 takes a free port", err)
	}
	certificate, err := externalmetrics.SelfSigned("localhost")
	if err != nil {
		return err
	}
	metrics, err := externalmetrics.NewServer(externalmetrics.ServerConfig{Listener: api, Certificate: certificate, Open: true},
		externalmetrics.NewProvider(d.Engine().Decisions(), d.Now))
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "page            http://%s/\nexternal metrics https://%s/apis/external.metrics.k8s.io/v1beta1\nexplain         "+
		"gpuscaler explain team-chat/llama-chat --server http://%s\nPress Ctrl-C to end the demo with a summary. The first decisions are "+
		"printed after the first readings.\n\n", page.Addr(), api.Addr(), page.Addr())
	over, end := context.WithCancel(ctx)
	defer end()
	bill := &demoBill{decisions: d.Engine().Decisions()}
	view := dashboard.NewPage(d.Engine().Decisions(), dashboard.Options{Cluster: "demo", Clock: d.Now, Done: over.Done(), Cost: bill.cost})
	d.OnTick(rateLimited(func(now time.Time) {
		view.Sample(now)
		bill.write(d)
	}))
	all, serving := errgroup.WithContext(over)
	all.Go(func() error {
		defer end()
		if err := d.Run(serving); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	all.Go(func() error { return serve.Loopback(serving, page, view) })
	all.Go(func() error { return metrics.Run(serving) })
	return all.Wait()
}

// demoBill computes what the GPUs of the demo cost now, with the same code as in a real cluster.
type demoBill struct {
	decisions *engine.DecisionStore
	latest    atomic.Pointer[cost.Bill]
}

func (b *demoBill) write(d *demo.Demo) {
	const length = time.Minute
	now, ledger := d.Now(), cost.NewLedger(cost.Options{})
	ledger.Add(d.Moment(length))
	b.latest.Store(ledger.Bill(cost.Period{From: now.Add(-length), To: now, Step: length}))
}

func (b *demoBill) cost() (dashboard.Cost, bool) {
	bill := b.latest.Load()
	if bill == nil {
		return dashboard.Cost{}, false
	}
	return dashboard.NewCost(bill, b.decisions), true
}

// rateLimited returns a function that calls f at most once in ten simulated seconds.
func rateLimited(f func(time.Time)) func(time.Time) {
	var last time.Time
	return func(now time.Time) {
		if now.Sub(last) >= 10*time.Second {
			last = now
			f(now)
		}
	}
}

// logTransition returns a function that prints a change of a target as one line.
func logTransition(out io.Writer) func(engine.Record) {
	var mu sync.Mutex
	return func(r engine.Record) {
		e := explain.FromRecord(r, "demo")
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(out, e.Line())
	}
}
