package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/record"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// caseFlags say what a policy is tried on; replay and tune share them.
type caseFlags struct {
	policies  []string
	name      string
	requests  []string
	spot      string
	trace     traceFlags
	slos      []string
	coldStart time.Duration
	initial   int32
	gpus      int32
	hourly    float64
	spotPrice float64
	service   simulator.Service
	measures  map[string]string
	seed      uint64
}

func (o *caseFlags) register(f *pflag.FlagSet) {
	o.service = simulator.Chat8B
	f.StringArrayVar(&o.policies, "policy", nil, "file or directory of policies; a platform.yaml beside it or a folder above is read too where none of them holds a PlatformConfig")
	f.StringVar(&o.name, "policy-name", "", "NAMESPACE/NAME of the policy to try, where there are several")
	f.StringArrayVar(&o.requests, "requests", nil, "recorded traffic: CSV, JSON lines, windowed rates, Prometheus; also .gz; of several workloads NAMESPACE/NAME=FILE for each")
	f.StringVar(&o.spot, "spot", "", "a trace of spot capacity; replicas then run on spot nodes first, and on demand where spot is gone")
	o.trace.register(f)
	f.StringArrayVar(&o.slos, "slo", []string{defaultSLO}, "`SHARE:WAIT`, the share of requests that must be served before they waited so long; NAMESPACE/NAME=99%:10s for one of several workloads")
	f.DurationVar(&o.coldStart, "cold-start", time.Minute, "from the request for a replica until it is ready; 0: by phases with their spread, as assumed")
	f.Int32Var(&o.initial, "initial", evaluate.AutoInitial, "replicas ready at the start, of every run; -1: what the first ten minutes need")
	f.Int32Var(&o.gpus, "gpus", 1, "GPUs per replica")
	f.Float64Var(&o.hourly, "hourly", evaluate.DefaultHourly, "$ for an hour of a GPU on demand")
	f.Float64Var(&o.spotPrice, "spot-hourly", evaluate.DefaultSpotHourly, "$ for an hour of a spot GPU")
	f.IntVar(&o.service.Slots, "slots", o.service.Slots, "requests that a replica serves at once")
	f.DurationVar(&o.service.Base, "service-base", o.service.Base, "service time of a request, besides its tokens")
	f.DurationVar(&o.service.Prefill, "service-per-input-token", o.service.Prefill, "service time of an input token")
	f.DurationVar(&o.service.Decode, "service-per-output-token", o.service.Decode, "service time of an output token, with all slots taken")
	f.DurationVar(&o.service.Fixed, "service-fixed", 0, "service time of every request; 0: by its tokens")
	f.StringToStringVar(&o.measures, "measure", nil, "what a signal of one's own reads, `SIGNAL=WHAT`: backlog=inSystem (else: a query of rate() or increase() arrivals, any other a queue); queue, inSystem, arrivals, waiting, running, cacheUse, activity, queueTime")
	f.Uint64Var(&o.seed, "seed", 1, "seed of everything drawn; one seed, the same bytes")
}

// open reads everything that the flags name: a case for each workload.
func (o *caseFlags) open(ctx context.Context, notes io.Writer) ([]evaluate.Case, error) {
	c := evaluate.Case{Service: o.service, ColdStart: o.coldStart, Initial: o.initial, GPUs: o.gpus, Hourly: o.hourly, SpotHourly: o.spotPrice, Seed: o.seed}
	if len(o.policies) == 0 || len(o.requests) == 0 && !o.trace.fetched.wanted() {
		return nil, errors.New("--policy and --requests (or --prometheus and --query) say what to try, and on what")
	}
	var err error
	if c.Measures, err = simulator.ParseMeasures(o.measures); err != nil {
		return nil, fmt.Errorf("--measure %w", err)
	}
	names, files, err := o.recordings()
	if err != nil {
		return nil, err
	}
	found, err := openPolicies(o.policies, names, notes)
	if err != nil {
		return nil, err
	}
	slo, err := o.objectives(found)
	if err != nil {
		return nil, err
	}
	if o.spot != "" {
		if c.Spot, err = trace.OpenSpot(o.spot); err != nil {
			return nil, err
		}
	}
	out := make([]evaluate.Case, len(found))
	for i := range found {
		out[i] = c
		out[i].Policy, out[i].SLO = found[i], slo[i]
		if out[i].Traffic, err = o.trace.open(ctx, files[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// recordings are the workloads that --requests names, with their files. One without a name belongs to --policy-name, or to the only
// policy.
func (o *caseFlags) recordings() (names, files []string, err error) {
	if len(o.requests) == 0 {
		return []string{o.name}, []string{""}, nil
	}
	for _, text := range o.requests {
		name, file := ofWorkload(text)
		switch {
		case name == "" && len(o.requests) > 1:
			return nil, nil, fmt.Errorf("--requests %s: of several, say which workload's each is: NAMESPACE/NAME=FILE", text)
		case name == "":
			name = o.name
		case slices.Contains(names, name):
			return nil, nil, fmt.Errorf("--requests %s: %s has traffic already", text, name)
		}
		names, files = append(names, name), append(files, file)
	}
	return names, files, nil
}

// ofWorkload cuts NAMESPACE/NAME= off a flag; the name is empty where there is none: a path may hold an = too.
func ofWorkload(text string) (name, rest string) {
	before, after, ok := strings.Cut(text, "=")
	if namespace, name, two := strings.Cut(before, "/"); !ok || !two || namespace == "" || name == "" || strings.ContainsAny(name, "/.") || strings.Contains(namespace, ".") {
		return "", text
	}
	return before, after
}

// objectives are the workloads' SLOs: their own, or the one without a name.
func (o *caseFlags) objectives(of []*policy.Compiled) ([]evaluate.SLO, error) {
	common, own := defaultSLO, map[string]string{}
	for _, text := range o.slos {
		if name, slo := ofWorkload(text); name != "" {
			own[name] = slo
		} else {
			common = text
		}
	}
	out := make([]evaluate.SLO, len(of))
	for i, c := range of {
		name := c.Workload.Key.String()
		var err error
		if out[i], err = evaluate.ParseSLO(cmp.Or(own[name], common)); err != nil {
			return nil, fmt.Errorf("--slo %w", err)
		}
		delete(own, name)
	}
	for name := range own {
		return nil, fmt.Errorf("--slo %s=...: no --requests names that workload", name)
	}
	return out, nil
}

const defaultSLO = "99%:10s"

// openPolicy reads policies as the controller does, and picks one.
func openPolicy(paths []string, name string, notes io.Writer) (*policy.Compiled, error) {
	found, err := openPolicies(paths, []string{name}, notes)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// openPolicies reads policies as the controller does, and picks those of the given names; an empty name is the only one.
func openPolicies(paths, names []string, notes io.Writer) ([]*policy.Compiled, error) {
	store := policy.NewStore(policy.Options{})
	problems := store.Load(paths...).Problems
	if store.Platform().Origin == "" {
		if beside := platformNear(paths[0]); beside != "" {
			fmt.Fprintln(notes, "with", beside)
			store = policy.NewStore(policy.Options{})
			problems = store.Load(append([]string{beside}, paths...)...).Problems
		}
	}
	if policy.Errors(problems) > 0 {
		return nil, fmt.Errorf("the policies would be refused:\n%s", strings.TrimSpace(policy.Render(problems)))
	}
	all := store.Compiled()
	var there []string
	for _, c := range all {
		there = append(there, c.Workload.Key.String())
	}
	if len(there) == 0 {
		return nil, fmt.Errorf("%s: no policy there", strings.Join(paths, ", "))
	}
	out := make([]*policy.Compiled, len(names))
	for i, name := range names {
		at := slices.Index(there, name)
		switch {
		case name == "" && len(all) == 1:
			at = 0
		case at < 0:
			return nil, fmt.Errorf("--policy-name %q: want one of %s", name, strings.Join(there, ", "))
		}
		out[i] = all[at]
	}
	return out, nil
}

// platformNear is the platform.yaml in the policy's folder or the one above; empty where there is none.
func platformNear(path string) string {
	folder := filepath.Dir(path)
	for _, dir := range []string{folder, filepath.Join(folder, "..")} {
		near := filepath.Join(dir, "platform.yaml")
		if info, err := os.Stat(near); err == nil && info.Mode().IsRegular() {
			return near
		}
	}
	return ""
}

// replayOptions are the flags of `gpuscaler replay`.
type replayOptions struct {
	caseFlags
	reportFlags
	verify string
}

func replayCommand() *cobra.Command {
	o := replayOptions{}
	c := &cobra.Command{
		Use:   "replay --policy FILE --requests FILE",
		Short: "Try a policy on recorded traffic, beside its rivals and the least that anybody could have paid",
		Long: `Run the very engine of the controller on recorded traffic in a simulated cluster, and judge it: what it
costs and who waits, beside HPA, KEDA and a static fleet with their defaults and tuned, and beside the
clairvoyant bound. A run that misses the SLO is never called cheap. Every assumption is printed.

Several workloads run in one cluster, each judged by its own SLO: name the policies, and each one's traffic
with --requests NAMESPACE/NAME=FILE. Their bounds add up.

--fail-if makes it a gate for CI: NAME<NUMBER with <, <=, > or >=; exit code 1 when one fails. Names:
  ` + strings.Join(evaluate.GateNames(), "\n  "),
		Example: `  gpuscaler replay --policy chat.yaml --requests requests.csv --baselines all --bound
  gpuscaler replay --policy chat.yaml --requests requests.csv --baselines hpa-queue,keda -o html --file report.html
  gpuscaler replay --policy chat.yaml --requests requests.csv.gz --fail-if 'slo<0.99' --fail-if 'p99>30s' -o json
  gpuscaler replay --policy policies/ --requests team/chat=chat.csv --requests team/embed=embed.csv --slo 99%:10s --slo team/embed=95%:2m
  gpuscaler replay --policy chat.yaml --prometheus http://127.0.0.1:9090 --query 'sum(rate(gateway_requests_total[1m]))' --start -7d
  gpuscaler replay --verify recording.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr()) },
	}
	f := c.Flags()
	o.caseFlags.register(f)
	o.reportFlags.register(f)
	c.AddCommand(replayBenchCommand(), replayScenarioCommand(), spotBenchCommand())
	f.StringVar(&o.verify, "verify", "", "decide the recording in `FILE`, which run --record wrote, again, and fail on the first outcome that differs; --policy hands in formulas")
	return c
}

// verifyRecording decides a recording again. Formulas are not in it: they come from the policies, where these are given.
func verifyRecording(path string, policies []string, out io.Writer) error {
	store := policy.NewStore(policy.Options{})
	if len(policies) > 0 {
		if problems := store.Load(policies...).Problems; policy.Errors(problems) > 0 {
			return fmt.Errorf("--policy:\n%s", strings.TrimSpace(policy.Render(problems)))
		}
	}
	v, err := record.VerifyFiles(path, func(key string) scaling.Formula {
		for _, w := range store.Current() {
			if w.Key.String() == key {
				return w.Policy.Formula
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if v.Decisions+v.Groups == 0 && len(v.LeftOut) == 0 {
		return fmt.Errorf("%s holds no whole tick: nothing was decided again", path)
	}
	slices.Sort(v.LeftOut)
	for _, key := range slices.Compact(v.LeftOut) {
		fmt.Fprintf(out, "left out: %s has a formula, which a recording does not hold; name its file with --policy\n", key)
	}
	groups := ""
	if v.Groups > 0 {
		groups = fmt.Sprintf(", and %d for capacity groups,", v.Groups)
	}
	fmt.Fprintf(out, "%d decisions in %d ticks%s from %s to %s came out the same, byte for byte\n", v.Decisions, v.Ticks, groups,
		v.From.Format(time.RFC3339), v.To.Format(time.RFC3339))
	return nil
}

func (o *replayOptions) run(ctx context.Context, out, progress io.Writer) error {
	if o.verify != "" {
		return verifyRecording(o.verify, o.policies, out)
	}
	if err := o.prepare(); err != nil {
		return err
	}
	cases, err := o.open(ctx, progress)
	if err != nil {
		return err
	}
	bar := newProgress(progress)
	r, err := evaluate.Workloads(ctx, o.asked(cases), bar.report)
	bar.end()
	if err != nil {
		return err
	}
	return o.write(out, progress, r)
}
