package costs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/audit"
	"github.com/gpuscaler/gpuscaler/pkg/audit/report"
	"github.com/gpuscaler/gpuscaler/pkg/printable"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
)

// auditOptions are the flags of `gpuscaler audit`.
type auditOptions struct {
	auditCluster
	offline, export string
	sample          bool
	slo             string
	replay, limit   time.Duration
	coldStart       time.Duration
	output, file    string
}

func auditCommand() *cobra.Command {
	o := auditOptions{}
	c := &cobra.Command{
		Use:   "audit --prometheus URL | --sample | --offline FILE",
		Short: "Show what the present HPAs and ScaledObjects of GPU workloads cost, and why, before gpuscaler is installed",
		Long: `Compute from the history of a cluster what each HPA and ScaledObject of a GPU workload cost: $ per month, the share
of the GPU time that served requests, and the SLO. The largest waste is first, with its cause: a floor, a schedule, a
cooldown, a wrong metric, or a stuck node. A replay of the traffic adds the least possible cost and the cost with
gpuscaler. What cannot be judged is listed with the missing data; missing data is never counted as 0.

The command reads the autoscalers, Deployments, StatefulSets and nodes of the cluster of --kubeconfig, and the history
in Prometheus: metrics of kube-state-metrics, vLLM and dcgm-exporter. It writes nothing to the cluster. --export writes
what it read to a file, and --offline audits such a file. --sample audits a small simulated cluster that is part of this
program.`,
		Example: `  gpuscaler audit --sample
  gpuscaler audit --prometheus http://127.0.0.1:9090 --since 7d --export snapshot.json
  gpuscaler audit --sample -o html --file audit.html
  gpuscaler audit --offline snapshot.json --slo 95%:10s`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr()) },
	}
	f := c.Flags()
	o.register(f)
	f.BoolVar(&o.sample, "sample", false, "audit the sample of this program")
	f.StringVar(&o.offline, "offline", "", "audit a snapshot file of --export instead of a cluster; - for standard input")
	f.StringVar(&o.export, "export", "", "file for the snapshot: names, settings and metrics, without secrets, queries and addresses")
	f.StringVar(&o.slo, "slo", "99%:10s", "share of the requests, and the longest wait in the queue of these")
	f.DurationVar(&o.replay, "replay", 6*time.Hour, "length of the replayed time at the end of the period; 0: all of it, negative: no replay")
	f.DurationVar(&o.limit, "replay-limit", time.Minute, "time limit of all replays; workloads that are left are reported as missing")
	f.DurationVar(&o.coldStart, "cold-start", 5*time.Minute,
		"cold start of a replica in the replay; 0: the sum of randomly drawn phases")
	f.StringVarP(&o.output, "output", "o", "text", "text, json or html")
	f.StringVar(&o.file, "file", "", "output file; empty: standard output")
	return c
}

func (o *auditOptions) run(ctx context.Context, out, progress io.Writer) error {
	write := map[string]func(io.Writer, *audit.Report) error{
		"text": report.WriteText, "json": report.WriteJSON, "html": report.WriteHTML,
	}[o.output]
	if write == nil {
		return fmt.Errorf("-o %q: use text, json or html", o.output)
	}
	slo, err := evaluate.ParseSLO(o.slo)
	if err != nil {
		return fmt.Errorf("--slo %w", err)
	}
	bar := commandline.NewProgress(progress)
	defer bar.Clear()
	options := audit.Options{SLO: slo, Replay: o.replay, ColdStart: o.coldStart, Budget: o.limit, Progress: bar.Report}
	snapshot, err := o.snapshot(ctx, &options)
	bar.Clear()
	for _, p := range o.problems {
		fmt.Fprintln(progress, "warning:", printable.Clean(p))
	}
	if err != nil {
		return err
	}
	if o.export != "" {
		if err := commandline.ToFile(o.export, nil, func(w io.Writer) error { return audit.WriteSnapshot(w, snapshot) }); err != nil {
			return err
		}
	}
	r, err := audit.Run(ctx, snapshot, options)
	if err != nil {
		return err
	}
	return commandline.ToFile(o.file, out, func(w io.Writer) error { return write(w, r) })
}

// snapshot returns the data for the audit. It reads the data from a file, or from a cluster and a Prometheus server.
func (o *auditOptions) snapshot(ctx context.Context, options *audit.Options) (*audit.Snapshot, error) {
	switch {
	case o.sample && o.offline != "":
		return nil, errors.New("--sample and --offline both name a snapshot: use one of them")
	case (o.sample || o.offline != "") && o.prometheus.Address != "":
		return nil, errors.New("--prometheus and a snapshot: use one of them")
	case o.sample:
		return audit.Sample()
	case o.offline == "" && o.prometheus.Address == "":
		return nil, errors.New("use --prometheus URL, --offline FILE or --sample")
	case o.offline == "":
		return o.read(ctx, options.SLO.Wait, options.Progress)
	case o.offline == "-":
		return audit.ReadSnapshot("standard input", os.Stdin)
	}
	f, err := os.Open(o.offline)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return audit.ReadSnapshot(o.offline, f)
}
