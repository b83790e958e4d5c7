package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile/timestamp"
)

// traceFlags are the flags that control how a trace is read. Every command that reads traces has these flags.
type traceFlags struct {
	options     tracefile.Options
	format      string
	unit        string
	serviceUnit string
	zone        string
	fetched     rangeFlags
}

func (t *traceFlags) register(f *pflag.FlagSet) {
	c := &t.options.Columns
	f.StringVar(&t.format, "format", "", "csv, jsonl, rates or prometheus; empty: detected from the file")
	f.StringVar(&c.Time, "time-column", "", "column of the timestamp: a header, a dotted JSON key, or #2 for the second")
	f.StringVar(&c.InputTokens, "input-tokens-column", "", "column of the input tokens")
	f.StringVar(&c.OutputTokens, "output-tokens-column", "", "column of the output tokens")
	f.StringVar(&c.Service, "service-column", "", "column of the time that a replica spent on a request, without waits; "+
		"used instead of token counts; detected if it is named like service_seconds or processing_time_ms")
	f.StringVar(&t.serviceUnit, "service-unit", "", "unit of that column: s, ms, us or ns; empty: the unit in its name, or s")
	f.StringVar(&c.Rate, "rate-column", "", "column of the rate, in a file of windowed rates")
	f.StringVar(&t.unit, "time-unit", "", "unit of numeric timestamps: s, ms, us or ns")
	f.StringVar(&t.zone, "timezone", "", "IANA zone of timestamps that have none; empty: UTC")
	f.StringToStringVar(&t.options.Where, "where", nil, "keep only the rows with this `COLUMN=VALUE`, for example model=llama")
	f.DurationVar(&t.options.From, "from", 0, "start of the part of the trace to keep, relative to the start of the trace")
	f.DurationVar(&t.options.To, "to", 0, "end of that part; 0: the end of the trace")
	f.Float64Var(&t.options.Scale, "scale", 0, "factor on rates; for a request log at most 1: a random sample of the requests is kept")
	f.BoolVar(&t.options.DropFailed, "drop-failed", false, "leave out requests that failed")
	f.Uint64Var(&t.options.Seed, "trace-seed", 1, "seed for arrivals that are drawn from rates")
	t.fetched.register(f)
}

// open reads the trace from the file at path, or from the Prometheus server that --prometheus names.
func (t *traceFlags) open(ctx context.Context, path string) (*trace.Trace, error) {
	switch {
	case path == "" && !t.fetched.enabled():
		return nil, errors.New("no trace given: name a file of recorded traffic, or a server with --prometheus and --query")
	case path != "" && t.fetched.enabled():
		return nil, fmt.Errorf("%s and --prometheus both name a trace: use one of them", path)
	}
	o := t.options
	o.Format, o.TimeUnit, o.ServiceUnit = tracefile.Format(t.format), timestamp.Unit(t.unit), timestamp.Unit(t.serviceUnit)
	if t.zone != "" {
		zone, err := time.LoadLocation(t.zone)
		if err != nil {
			return nil, fmt.Errorf("--timezone %q: not an IANA zone such as Europe/Berlin", t.zone)
		}
		o.Location = zone
	}
	if t.fetched.enabled() {
		return t.fetched.open(ctx, o)
	}
	return tracefile.Open(path, o)
}

func traceCommand() *cobra.Command {
	var flags traceFlags
	var output string
	var spot bool
	c := &cobra.Command{
		Use:   "trace FILE | --prometheus URL --query PROMQL",
		Short: "Show what a recorded trace contains",
		Long: `Read a trace as the replay does and print its requests, duration, rate profile, longest gap
and a picture. Request logs (CSV, JSON lines), windowed rates (a CSV, or a .tar.gz of one per client),
Prometheus range query results and spot traces are supported, also gzipped; --prometheus runs a range query.
A row that cannot be read is an error with file, line, the value found and the values allowed.`,
		Example: `  gpuscaler trace requests.csv.gz
  gpuscaler trace access.jsonl --time-column ts --where model=llama -o json
  gpuscaler trace --spot spot.csv
  gpuscaler trace requests.csv -o svg > rate.svg
  gpuscaler trace --prometheus http://127.0.0.1:9090 --query 'sum(rate(gateway_requests_total[1m]))' --start -7d --save week.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file := ""
			if len(args) > 0 {
				file = args[0]
			}
			if spot {
				return describeSpot(file, output, c.OutOrStdout())
			}
			t, err := flags.open(c.Context(), file)
			if err != nil {
				return err
			}
			return describeTrace(t, output, c.OutOrStdout())
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "text", "text, json or svg")
	c.Flags().BoolVar(&spot, "spot", false, "the file is a trace of spot capacity")
	flags.register(c.Flags())
	c.AddCommand(generateCommand())
	return c
}

func describeTrace(t *trace.Trace, output string, out io.Writer) error {
	s := trace.Summarize(t)
	switch output {
	case "text":
		return s.WriteText(out)
	case "json":
		return commandline.WriteJSON(out, s)
	case "svg":
		return s.WriteSVG(out)
	}
	return fmt.Errorf("-o %q: use text, json or svg", output)
}

func describeSpot(path, output string, out io.Writer) error {
	s, err := spotmarket.Open(path)
	if err != nil {
		return err
	}
	switch output {
	case "text":
		return s.Summarize().WriteText(out)
	case "json":
		return commandline.WriteJSON(out, s.Summarize())
	}
	return fmt.Errorf("-o %q: use text or json for a spot trace", output)
}

func generateCommand() *cobra.Command {
	var seed uint64
	var rate float64
	var duration time.Duration
	var file string
	c := &cobra.Command{
		Use:   "generate PRESET",
		Short: "Generate a workload from a seed",
		Long: `Generate a workload and write it as a request log that all commands read. A seed gives the same workload
on every machine. The presets are ` + strings.Join(trace.PresetNames(), ", ") + `.`,
		Example: `  gpuscaler trace generate office --for 24h --rate 2 --seed 7 --file office.csv
  gpuscaler trace generate bursty | gpuscaler trace /dev/stdin`,
		Args:      cobra.ExactArgs(1),
		ValidArgs: trace.PresetNames(),
		RunE: func(c *cobra.Command, args []string) error {
			p, ok := trace.Preset(args[0])
			if !ok {
				return fmt.Errorf("unknown preset %q: use one of %s", args[0], strings.Join(trace.PresetNames(), ", "))
			}
			p.Seed = seed
			if rate > 0 {
				p.Rate = rate
			}
			if duration > 0 {
				p.Duration = duration
			}
			t, err := trace.Generate(p)
			if err != nil {
				return err
			}
			return commandline.ToFile(file, c.OutOrStdout(), func(w io.Writer) error { return tracefile.WriteCSV(w, t) })
		},
	}
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of all random numbers")
	c.Flags().Float64Var(&rate, "rate", 0, "mean requests per second; 0: the default of the preset")
	c.Flags().DurationVar(&duration, "for", 0, "duration of the workload; 0: the default of the preset")
	c.Flags().StringVar(&file, "file", "", "output file; empty: standard output")
	return c
}
