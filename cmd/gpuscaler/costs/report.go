package costs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	files "github.com/gpuscaler/gpuscaler/config"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/cost/report"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/exposition"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/history"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/usage"
)

// reportOptions are the flags of `gpuscaler report`.
type reportOptions struct {
	prometheus   commandline.Prometheus
	kube         commandline.Kube
	since, until string
	step         time.Duration
	exporters    []string
	prices       string
	config       []string
	cluster      string
	region       string
	notebooks    time.Duration
	output, file string
	printPrices  bool
}

func reportCommand() *cobra.Command {
	o := reportOptions{}
	c := &cobra.Command{
		Use:   "report --prometheus URL",
		Short: "Report what GPUs cost over past days, which workloads used them, and how much was idle",
		Long: `Read from Prometheus what each GPU did and which pod used it, and report the cost: per team, namespace, workload,
instance type and capacity type; idle cost, by activity if it is measured and otherwise by memory; GPUs that no pod
used; forgotten notebooks; and workloads that would fit into a MIG slice.

Prices come from overrides in the PlatformConfig, else from Karpenter's offering metric, else from the price book
(--prices; a small one is built in: --print-prices). An unknown price is reported as unknown, never as 0.

The command reads the metrics of dcgm-exporter and, if they exist, the metrics of Karpenter (karpenter_nodes_allocatable,
and karpenter_cloudprovider_instance_type_offering_price_estimate of the AWS provider) and of kube-state-metrics
(kube_pod_info, kube_pod_labels, kube_node_labels). It lists the missing ones. --kubeconfig adds the instance types
of the present NodeClaims and nodes.`,
		Example: `  gpuscaler report --prometheus http://127.0.0.1:9090 --since 7d
  gpuscaler report --prometheus http://127.0.0.1:9090 --since 30d -o html --file cost.html --config platform.yaml
  gpuscaler report --prometheus https://prom.example --http-config http.yaml --since 1d -o csv > chargeback.csv`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr()) },
	}
	f := c.Flags()
	o.prometheus.Register(f)
	o.kube.Register(f)
	f.StringVar(&o.since, "since", "7d", "length of the period: 12h, 7d, 4w")
	f.StringVar(&o.until, "until", "", "end of the period: a time (2026-11-21T00:00:00Z) or a day (2026-11-21, its start in UTC); empty: now")
	f.DurationVar(&o.step, "step", 0, "resolution; 0: depends on the length of the period, 5m for a week")
	f.StringSliceVar(&o.exporters, "exporter-namespace", nil,
		"namespaces of the DCGM exporters, whose labels name the pod of a GPU; empty: the exporters of the PlatformConfig, or gpu-operator "+
			"without a PlatformConfig")
	f.StringVar(&o.prices, "prices", "", "price book (kind PriceBook); empty: the price book of the PlatformConfig, or the built-in one")
	commandline.Config(f, &o.config, ", of which teams, cluster and prices are used")
	f.StringVar(&o.cluster, "cluster", "", "name of the cluster on every line; empty: the name in the PlatformConfig")
	f.StringVar(&o.region, "region", "", "region of nodes without a region label; empty: prices.region of the PlatformConfig")
	f.DurationVar(&o.notebooks, "notebook-idle", 8*time.Hour, "idle time after which a notebook is reported as forgotten")
	f.StringVarP(&o.output, "output", "o", "text", "text, html, csv (chargeback), json, or prom (metrics in Prometheus' text format)")
	f.StringVar(&o.file, "file", "", "output file; empty: standard output")
	f.BoolVar(&o.printPrices, "print-prices", false, "print the built-in price book and exit")
	return c
}

func (o *reportOptions) run(ctx context.Context, out, progress io.Writer) error {
	if o.printPrices {
		_, err := out.Write(files.Prices)
		return err
	}
	write := map[string]func(io.Writer, *cost.Bill) error{"text": report.WriteText, "html": report.WriteHTML, "csv": report.WriteCSV,
		"json": report.WriteJSON, "prom": report.WriteMetrics}[o.output]
	if write == nil {
		return fmt.Errorf("-o %q: use text, html, csv, json or prom", o.output)
	}
	period, err := o.period(time.Now())
	if err != nil {
		return err
	}
	platform, err := openPlatform(o.config)
	if err != nil {
		return err
	}
	book, err := o.book(platform)
	if err != nil {
		return err
	}
	server, err := o.prometheus.Open()
	if err != nil {
		return err
	}
	bill, err := o.bill(ctx, billed{server, platform, book, period}, progress)
	if err != nil {
		return err
	}
	return commandline.ToFile(o.file, out, func(w io.Writer) error { return write(w, bill) })
}

// billed contains the inputs of the cost report for a period.
type billed struct {
	server   *history.Server
	platform *policy.Platform
	book     *cost.Book
	period   cost.Period
}

// bill returns the cost of the GPUs in the period. It reads their usage from Prometheus.
func (o *reportOptions) bill(ctx context.Context, in billed, progress io.Writer) (*cost.Bill, error) {
	platform, period := in.platform, in.period
	read := usage.Options{From: period.From, To: period.To, Step: period.Step, Matchers: o.prometheus.Matchers,
		Region: cmp.Or(o.region, platform.Prices.Region), NoPrices: platform.Prices.Source == "book"}
	o.exporter(platform, &read)
	if o.kube.Kubeconfig != "" || o.kube.Context != "" {
		var err error
		if read.Nodes, err = o.offers(ctx); err != nil {
			return nil, err
		}
	}
	bar := commandline.NewProgress(progress)
	read.Progress = func(done float64) { bar.Report("querying Prometheus", done) }
	ledger := cost.NewLedger(cost.Options{Book: in.book, Cluster: cmp.Or(o.cluster, platform.Cluster), Teams: platform.TeamNames(),
		Resolution: resolution(period)})
	notes, err := usage.Read(ctx, in.server, read, ledger)
	bar.Clear()
	if err != nil {
		return nil, err
	}
	b := ledger.Bill(period)
	b.Notes = notes
	for _, w := range in.server.Warnings() {
		b.Notes = append(b.Notes, "The server warned: "+w)
	}
	return b, nil
}

// exporter sets in read the namespaces of the DCGM exporters whose pod and node labels are trusted. It identifies an exporter only by its
// namespace, because Prometheus does not store the labels of deleted exporter pods.
func (o *reportOptions) exporter(platform *policy.Platform, read *usage.Options) {
	declared := policy.DefaultExporters()
	if source := platform.Prometheus(); source != nil {
		declared, read.Scrape = source.Exporters, exposition.ScrapeLabels{Namespace: source.NamespaceLabel, Pod: source.PodLabel}
	}
	namespaces := o.exporters
	if len(namespaces) == 0 {
		namespaces = policy.ExporterNamespaces(declared, policy.SourceDCGM)
	}
	read.Exporter = func(namespace, _ string) bool { return slices.Contains(namespaces, namespace) }
	read.Karpenter = policy.ExporterNamespaces(declared, policy.ExporterKarpenter)
	read.StateMetrics = policy.ExporterNamespaces(declared, policy.ExporterStateMetrics)
}

// period parses --since, --until and --step. The end is rounded to the step, so that two runs within a step send the same queries.
func (o *reportOptions) period(now time.Time) (p cost.Period, err error) {
	since, err := model.ParseDuration(o.since)
	if err != nil || since <= 0 {
		return p, fmt.Errorf("--since %q: use a duration such as 12h, 7d or 4w", o.since)
	}
	p = cost.Period{To: now, Step: o.step, Idle: o.notebooks}
	if o.until != "" {
		if p.To, err = time.Parse(time.RFC3339, o.until); err != nil {
			if p.To, err = time.Parse(time.DateOnly, o.until); err != nil {
				return p, fmt.Errorf("--until %q: use 2026-11-21 or 2026-11-21T00:00:00Z", o.until)
			}
		}
	}
	if p.Step == 0 {
		p.Step = stepFor(time.Duration(since))
	}
	if p.Step < time.Second || time.Duration(since) < 2*p.Step || p.Step%time.Second != 0 {
		return p, fmt.Errorf("--step %s: use whole seconds, and at least two steps in %s", p.Step, o.since)
	}
	p.To = p.To.Truncate(p.Step)
	p.From = p.To.Add(-time.Duration(since).Truncate(p.Step))
	return p, nil
}

// stepFor returns the time between two points of a report over the given duration. For up to three hours, the step is two minutes. For
// longer reports, it is the shortest of 5, 10, 15 and 30 minutes with at most 2,100 points, or an hour if all of these have more points.
// With a step below two scrape intervals, some points would have no sample, which looks like a missing GPU.
func stepFor(since time.Duration) time.Duration {
	if since <= 3*time.Hour {
		return 2 * time.Minute
	}
	for _, step := range []time.Duration{5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute} {
		if since <= 2100*step {
			return step
		}
	}
	return time.Hour
}

// resolution returns the time between two points of a chart, so that a chart of the period has at most about 340 points.
func resolution(p cost.Period) time.Duration {
	for _, r := range []time.Duration{p.Step, 5 * time.Minute, 15 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour} {
		if r >= p.Step && p.To.Sub(p.From) <= 340*r {
			return r
		}
	}
	return max(24*time.Hour, p.Step)
}

// openPlatform reads the PlatformConfig as the controller does. Without a path, it returns an empty PlatformConfig.
func openPlatform(paths []string) (*policy.Platform, error) {
	store := store.New(store.Options{})
	if len(paths) > 0 {
		problems := store.Load(paths...).Problems
		if store.Platform().Origin == "" {
			return nil, fmt.Errorf("--config: no PlatformConfig in %s\n%s", strings.Join(paths, ", "), strings.TrimSpace(policy.Render(problems)))
		}
	}
	return store.Platform(), nil
}

// book returns the price book. Prices in the PlatformConfig take precedence over the prices in the price book's file.
func (o *reportOptions) book(platform *policy.Platform) (*cost.Book, error) {
	book, err := commandline.OpenPriceBook(o.prices, platform)
	if err != nil {
		return nil, err
	}
	return platform.Book(book), nil
}

func (o *reportOptions) offers(ctx context.Context) (map[string]cost.Offer, error) {
	rest, err := o.kube.ClientConfig()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(rest)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, commandline.ConnectTimeout)
	defer cancel()
	offers, err := karpenter.Offers(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("present instance types (--kubeconfig): %w", err)
	}
	return offers, nil
}
