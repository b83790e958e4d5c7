// Command benchkeda compares metrics servers for HPAs on one machine with the same workloads: KEDA alone, KEDA with gpuscaler's external
// scaler, and gpuscaler alone. It runs all modes once and then again in reverse order, so that a machine that becomes slower disadvantages
// no mode. A block that did not finish is reported without results. Times are medians, with the maximum in parentheses.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	ossignal "os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	sizes := flag.String("n", "100", "numbers of policies, with commas")
	measure := flag.Duration("measure", time.Minute, "duration of the measurement of a block")
	rate := flag.Int("rate", 20, "reads a second by the benchmark, in addition to the reads by the HPAs")
	only := flag.String("only", "", "only modes whose name matches this regular expression, e.g. 'default|adapter'")
	changes := flag.Int("changes", 100, "number of loads that are raised, at most the number of policies")
	limit := flag.Duration("limit", 10*time.Minute, "time after which a block is reported as not finished")
	flag.Parse()
	matches, err := regexp.Compile(*only)
	if err == nil {
		modes = slices.DeleteFunc(modes, func(m mode) bool { return !matches.MatchString(m.name) })
	}
	if err != nil || len(modes) == 0 || *changes < 1 {
		fmt.Fprintf(os.Stderr, "-only %q, -changes %d: use a regular expression that matches a mode, and a positive number\n", *only, *changes)
		os.Exit(2)
	}
	var policies []int
	for _, text := range strings.Split(*sizes, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "-n %q: use numbers separated by commas\n", *sizes)
			os.Exit(2)
		}
		policies = append(policies, n)
	}
	log.SetLogger(logr.Discard())
	ctx, stop := ossignal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for _, n := range policies {
		run(ctx, settings{policies: n, measure: *measure, rate: *rate, changes: *changes, limit: *limit})
	}
}

type settings struct {
	policies       int
	measure, limit time.Duration
	rate           int
	changes        int // number of workloads whose load the benchmark increases
}

// mode is one way to serve metrics to the HPAs.
type mode struct {
	name            string
	keda, gpuscaler bool
	trigger         string // the trigger of each ScaledObject, in YAML
}

var modes = []mode{
	{name: "KEDA, default", keda: true, trigger: "prometheus"},
	{name: "KEDA, tuned", keda: true, trigger: "cached"},
	{name: "KEDA + our trigger", keda: true, gpuscaler: true, trigger: "ours"},
	{name: "gpuscaler, adapter", gpuscaler: true},
}

// run runs the blocks of all modes for one number of policies, once in order and once in reverse order, and prints the table.
func run(ctx context.Context, s settings) {
	order := slices.Clone(modes)
	back := slices.Clone(modes)
	slices.Reverse(back)
	results := map[string][]result{}
	for i, m := range append(order, back...) {
		began := time.Now()
		limited, cancel := context.WithTimeout(ctx, s.limit)
		r, err := block(limited, m, s)
		cancel()
		if err != nil {
			r.failed = err
		}
		results[m.name] = append(results[m.name], r)
		fmt.Fprintf(os.Stderr, "block %d of %d, %s, N=%d: %s in %s\n", i+1, 2*len(modes), m.name, s.policies, r,
			time.Since(began).Round(time.Second))
		if ctx.Err() != nil {
			break
		}
	}
	show(s, results)
}

// show prints the table for one number of policies. Each mode has two rows, one for each of its blocks.
func show(s settings, results map[string][]result) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "N=%d\tGET p50\tp99\trefused\tCPU per 1,000 reads\tPrometheus queries/min\tresident\tHPA sync interval\tsignal to "+
		"target\tscrape to target\ttarget to replicas\tsignal to replicas\n", s.policies)
	for _, m := range modes {
		for i, r := range results[m.name] {
			label := m.name + map[int]string{0: " (forth)", 1: " (back)"}[i]
			if r.failed != nil {
				fmt.Fprintf(table, "%s\tdid not finish: %s\n", label, firstLine(r.failed))
				continue
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%d of %d\t%s\t%.0f\t%d MiB\t%s\t%s\t%s\t%s\t%s\n", label, r.p50.Round(100*time.Microsecond),
				r.p99.Round(100*time.Microsecond),
				r.refused, r.reads, r.cpuPerThousand.Round(time.Millisecond), r.queriesPerMinute, r.resident>>20,
				r.hpaEvery.Round(100*time.Millisecond),
				r.signal.served, r.signal.polled, r.signal.scaled, r.signal.total)
		}
	}
	_ = table.Flush() // an error means that standard output is closed
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
