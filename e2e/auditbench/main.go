// Command auditbench measures `gpuscaler audit` on a real API server with 100 HPAs, and on a real Prometheus server with their history of a
// month. It prints the time of each phase, and the number and the size of the responses of the Prometheus server. `make bench-audit` runs
// it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gpuscaler/gpuscaler/e2e/controller"
	"github.com/gpuscaler/gpuscaler/e2e/stack"
	"github.com/gpuscaler/gpuscaler/e2e/usage"
	workloads "github.com/gpuscaler/gpuscaler/e2e/workload"
)

// margin is the time after the start of the benchmark for which samples are written: the period of the audit ends at the time at which it
// runs, and a history can be used again in this time.
const margin = 12 * time.Hour

// options are the flags.
type options struct {
	n, days int
	scrape  time.Duration
	since   string
	history string
}

func main() {
	var o options
	flag.IntVar(&o.n, "n", 100, "number of workloads")
	flag.IntVar(&o.days, "days", 30, "days of history")
	flag.DurationVar(&o.scrape, "scrape", 30*time.Second, "scrape interval of the history")
	flag.StringVar(&o.since, "since", "7d", "the flag --since of the audit; with several values such as 7d,4w it runs several times")
	flag.StringVar(&o.history, "history", "", "directory in which the history is written, or from which it is read again within 12 hours; "+
		"empty: a temporary directory")
	flag.Parse()
	log.SetLogger(logr.Discard())
	ctx, stop := ossignal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "auditbench:", err)
		os.Exit(1) //nolint:gocritic // os.Exit skips the deferred functions, which only release the context
	}
}

// run prepares the cluster and the history, and audits them.
func run(ctx context.Context, o *options) error {
	s, err := stack.Up(ctx, stack.Options{Retention: time.Duration(o.days+2) * 24 * time.Hour})
	if err != nil {
		return err
	}
	defer s.Stop()
	all := fleet(o.n)
	if err := create(ctx, s, all); err != nil {
		return err
	}
	if err := fill(ctx, s, o, all); err != nil {
		return err
	}
	binary, err := controller.Build(ctx, os.Stderr, s.Dir)
	if err != nil {
		return err
	}
	for since := range strings.SplitSeq(o.since, ",") {
		if err := audit(ctx, s, since, binary); err != nil {
			return err
		}
	}
	return nil
}

// create creates a Deployment and an HPA for each workload. The Deployments have no pods, because the history is about other times.
func create(ctx context.Context, s *stack.Stack, all []workload) error {
	for i := range all {
		w := &all[i]
		if err := s.Namespace(ctx, w.namespace); err != nil {
			return err
		}
		d := workloads.Deployment(w.namespace, w.name, 0)
		d.Spec.Template.Spec.Containers[0].Args = []string{fmt.Sprintf("--max-num-seqs=%d", w.slots)}
		if err := s.Client.Create(ctx, d); err != nil {
			return err
		}
		h := workloads.HPA(w.namespace, w.name, int32(w.most))
		least := int32(w.least)
		h.Spec.MinReplicas, h.Spec.Behavior = &least, &autoscalingv2.HorizontalPodAutoscalerBehavior{}
		if err := s.Client.Create(ctx, h); err != nil {
			return err
		}
	}
	return nil
}

// fill writes the history, unless the directory of the flag contains one, and adds it to the Prometheus server.
func fill(ctx context.Context, s *stack.Stack, o *options, all []workload) error {
	dir := o.history
	if dir == "" {
		dir = filepath.Join(s.Dir, "history")
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err := write(ctx, dir, o, all); err != nil {
			return err
		}
	}
	if err := s.Prometheus.Stop(); err != nil {
		return err
	}
	if err := os.CopyFS(s.Prometheus.Data(), os.DirFS(dir)); err != nil {
		return err
	}
	return s.Prometheus.Start(ctx)
}

// write writes the history and prints its size.
func write(ctx context.Context, dir string, o *options, all []workload) error {
	began := time.Now()
	end := began.Add(margin).Truncate(fleetStep)
	h := newHistory(end.Add(-time.Duration(o.days)*24*time.Hour), end, o.scrape, all)
	fmt.Printf("writing %d days of %d workloads with %d pods ...\n", o.days, o.n, len(h.pods))
	unfinished := dir + ".unfinished"
	if err := os.MkdirAll(unfinished, 0o755); err != nil {
		return err
	}
	if err := h.write(ctx, unfinished); err != nil {
		return err
	}
	bytes := int64(0)
	err := filepath.WalkDir(unfinished, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("%d million samples, %d MiB, scraped every %s, in %.0f s\n", h.samples.Load()/1e6, bytes>>20, o.scrape,
		time.Since(began).Seconds())
	return os.Rename(unfinished, dir)
}

// audit runs the command once through a proxy that counts the responses of the Prometheus server, and prints the results.
func audit(ctx context.Context, s *stack.Stack, since, binary string) error {
	p, err := newProxy(s)
	if err != nil {
		return err
	}
	defer p.close()
	snapshot, out := filepath.Join(s.Dir, "snapshot.json"), filepath.Join(s.Dir, "audit.json")
	c := exec.CommandContext(ctx, binary, "audit", "--prometheus", p.url, "--kubeconfig", s.Kubeconfig, "--since", since, "--export", snapshot,
		"-o", "json", "--file", out)
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	server := s.Process("prometheus").Pid()
	before, err := usage.CPU(server)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := c.Run(); err != nil {
		return fmt.Errorf("gpuscaler audit: %w", err)
	}
	total := time.Since(began)
	after, err := usage.CPU(server)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	var r struct {
		Workloads []struct{} `json:"workloads"`
		Missing   []struct{} `json:"missing"`
		Total     struct {
			Replayed int `json:"replayedWorkloads"`
			Bounded  int `json:"boundedWorkloads"`
		} `json:"total"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	fmt.Printf("\naudit --since %s of %d workloads: %.1f s, load %s\n", since, len(r.Workloads), total.Seconds(), machineLoad())
	fmt.Printf("  %d replayed, %d with a bound, %d missing\n", r.Total.Replayed, r.Total.Bounded, len(r.Missing))
	fmt.Printf("  CPU time: gpuscaler %.1f s, Prometheus %.1f s\n", (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds(),
		(after - before).Seconds())
	p.print(began, began.Add(total))
	return split(ctx, snapshot)
}
