package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/judge"
	"github.com/gpuscaler/gpuscaler/pkg/replay/record"
	"github.com/gpuscaler/gpuscaler/pkg/replay/report"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/world"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// caseFlags say what a policy is tried on; replay and tune share them.
type caseFlags struct {
	policies  []string
	name      string
	requests  string
	spot      string
	trace     traceFlags
	slo       string
	coldStart time.Duration
	initial   int32
	gpus      int32
	hourly    float64
	spotPrice float64
	service   world.Service
	measures  map[string]string
	seed      uint64
}

func (o *caseFlags) register(f *pflag.FlagSet) {
	o.service = world.Chat8B
	f.StringArrayVar(&o.policies, "policy", nil, "file or directory of policies; a platform.yaml beside it or a folder above is read too where none of them holds a PlatformConfig")
	f.StringVar(&o.name, "policy-name", "", "NAMESPACE/NAME of the policy to try, where there are several")
	f.StringVar(&o.requests, "requests", "", "recorded traffic: CSV, JSON lines, windowed rates, Prometheus; also .gz")
	f.StringVar(&o.spot, "spot", "", "a trace of spot capacity; replicas then run on spot nodes first, and on demand where spot is gone")
	o.trace.register(f)
	f.StringVar(&o.slo, "slo", "99%:10s", "share of requests : the longest that they may wait for their service")
	f.DurationVar(&o.coldStart, "cold-start", time.Minute, "from the request for a replica until it is ready; 0: by phases with their spread, as assumed")
	f.Int32Var(&o.initial, "initial", judge.AutoInitial, "replicas ready at the start, of every run; -1: what the first ten minutes need")
	f.Int32Var(&o.gpus, "gpus", 1, "GPUs per replica")
	f.Float64Var(&o.hourly, "hourly", judge.DefaultHourly, "$ for an hour of a GPU on demand")
	f.Float64Var(&o.spotPrice, "spot-hourly", judge.DefaultSpotHourly, "$ for an hour of a spot GPU")
	f.IntVar(&o.service.Slots, "slots", o.service.Slots, "requests that a replica serves at once")
	f.DurationVar(&o.service.Base, "service-base", o.service.Base, "service time of a request, besides its tokens")
	f.DurationVar(&o.service.Prefill, "service-per-input-token", o.service.Prefill, "service time of an input token")
	f.DurationVar(&o.service.Decode, "service-per-output-token", o.service.Decode, "service time of an output token, with all slots taken")
	f.DurationVar(&o.service.Fixed, "service-fixed", 0, "service time of every request; 0: by its tokens")
	f.StringToStringVar(&o.measures, "measure", nil, "what a signal of one's own reads, by its name: backlog=inSystem; queue, inSystem, arrivals, waiting, running, cacheUse, activity, queueTime")
	f.Uint64Var(&o.seed, "seed", 1, "seed of everything drawn; one seed, the same bytes")
}

// open reads everything that the flags name.
func (o *caseFlags) open(ctx context.Context, notes io.Writer) (judge.Case, error) {
	c := judge.Case{Service: o.service, ColdStart: o.coldStart, Initial: o.initial, GPUs: o.gpus, Hourly: o.hourly, SpotHourly: o.spotPrice, Seed: o.seed}
	if len(o.policies) == 0 || o.requests == "" && !o.trace.fetched.wanted() {
		return c, errors.New("--policy and --requests (or --prometheus and --query) say what to try, and on what")
	}
	var err error
	if c.SLO, err = parseSLO(o.slo); err != nil {
		return c, err
	}
	if c.Measures, err = world.ParseMeasures(o.measures); err != nil {
		return c, fmt.Errorf("--measure %w", err)
	}
	if c.Policy, err = openPolicy(o.policies, o.name, notes); err != nil {
		return c, err
	}
	if c.Traffic, err = o.trace.open(ctx, o.requests); err != nil {
		return c, err
	}
	if o.spot != "" {
		c.Spot, err = trace.OpenSpot(o.spot)
	}
	return c, err
}

// parseSLO reads 99%:10s or 0.99:10s.
func parseSLO(text string) (judge.SLO, error) {
	bad := fmt.Errorf("--slo %q: want a share of requests and the longest wait, e.g. 99%%:10s", text)
	share, wait, ok := strings.Cut(text, ":")
	if !ok {
		return judge.SLO{}, bad
	}
	scale := 1.0
	if s, cut := strings.CutSuffix(share, "%"); cut {
		share, scale = s, 100
	}
	v, err := strconv.ParseFloat(share, 64)
	if v /= scale; err != nil || !(v > 0 && v <= 1) {
		return judge.SLO{}, bad
	}
	d, err := time.ParseDuration(wait)
	if err != nil || d <= 0 {
		return judge.SLO{}, bad
	}
	return judge.SLO{Share: v, Wait: d}, nil
}

// openPolicy reads policies as the controller does, and picks one.
func openPolicy(paths []string, name string, notes io.Writer) (*policy.Compiled, error) {
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
	var names []string
	for _, c := range store.Compiled() {
		names = append(names, c.Workload.Key.String())
		if c.Workload.Key.String() == name || name == "" && len(store.Compiled()) == 1 {
			return c, nil
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no policy there", strings.Join(paths, ", "))
	}
	return nil, fmt.Errorf("--policy-name %q: want one of %s", name, strings.Join(names, ", "))
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
	rivals string
	tune   bool
	ours   bool
	bound  bool
	output string
	file   string
	gates  []string
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

--fail-if makes it a gate for CI: NAME<NUMBER with <, <=, > or >=; exit code 1 when one fails. Names:
` + strings.Join(judge.GateNames(), ", ") + `.`,
		Example: `  gpuscaler replay --policy chat.yaml --requests requests.csv --rivals all --bound
  gpuscaler replay --policy chat.yaml --requests requests.csv --rivals hpa-queue,keda -o html --file report.html
  gpuscaler replay --policy chat.yaml --requests requests.csv.gz --fail-if 'slo<0.99' --fail-if 'p99>30s' -o json
  gpuscaler replay --policy chat.yaml --prometheus http://127.0.0.1:9090 --query 'sum(rate(gateway_requests_total[1m]))' --start -7d
  gpuscaler replay --verify recording.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr()) },
	}
	f := c.Flags()
	o.register(f)
	f.StringVar(&o.rivals, "rivals", "", "all, or names: "+strings.Join(rivalNames(), ", ")+"; empty: none")
	f.BoolVar(&o.tune, "tune-rivals", true, "run each rival with its best settings on this traffic too")
	f.BoolVar(&o.ours, "tune-policy", false, "run the policy with its best settings on this traffic too")
	f.BoolVar(&o.bound, "bound", false, "find the least that any policy could have cost")
	f.StringVarP(&o.output, "output", "o", "text", "text, json or html")
	f.StringVar(&o.file, "file", "", "where to write the report; empty: standard output")
	c.AddCommand(replayBenchCommand(), replayScenarioCommand(), spotBenchCommand())
	f.StringVar(&o.verify, "verify", "", "decide a recording of `run --record` again, and fail on the first outcome that differs; --policy hands in formulas")
	f.StringArrayVar(&o.gates, "fail-if", nil, "fail where this holds: 'slo<0.99', 'cost/lb>1.5'; may be given several times")
	return c
}

// verifyRecording decides a recording again. Formulas are not in it: they come from the policies, where these are given.
func verifyRecording(path string, policies []string, out io.Writer) error {
	store := policy.NewStore(policy.Options{})
	if len(policies) > 0 {
		store.Load(policies...)
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
	slices.Sort(v.LeftOut)
	for _, key := range slices.Compact(v.LeftOut) {
		fmt.Fprintf(out, "left out: %s has a formula, which a recording does not hold; name its file with --policy\n", key)
	}
	fmt.Fprintf(out, "%d decisions in %d ticks from %s to %s came out the same, byte for byte\n", v.Decisions, v.Ticks,
		v.From.Format(time.RFC3339), v.To.Format(time.RFC3339))
	return nil
}

func rivalNames() (names []string) {
	for _, r := range world.Rivals() {
		names = append(names, r.Name)
	}
	return names
}

// pickRivals finds rivals by their names.
func pickRivals(text string) ([]world.Rival, error) {
	known := world.Rivals()
	switch text {
	case "", "none":
		return nil, nil
	case "all":
		return known, nil
	}
	var out []world.Rival
next:
	for name := range strings.SplitSeq(text, ",") {
		for _, r := range known {
			if r.Name == strings.TrimSpace(name) {
				out = append(out, r)
				continue next
			}
		}
		return nil, fmt.Errorf("--rivals: nobody is called %q; there are all, %s", name, strings.Join(rivalNames(), ", "))
	}
	return out, nil
}

func (o *replayOptions) run(ctx context.Context, out, progress io.Writer) error {
	if o.verify != "" {
		return verifyRecording(o.verify, o.policies, out)
	}
	write := map[string]func(io.Writer, *judge.Report) error{"text": report.WriteText, "json": report.WriteJSON, "html": report.WriteHTML}[o.output]
	if write == nil {
		return fmt.Errorf("-o %q: want text, json or html", o.output)
	}
	var gates []judge.Gate
	for _, text := range o.gates {
		g, err := judge.ParseGate(text)
		if err != nil {
			return err
		}
		gates = append(gates, g)
	}
	rivals, err := pickRivals(o.rivals)
	if err != nil {
		return err
	}
	c, err := o.open(ctx, progress)
	if err != nil {
		return err
	}
	c.Rivals, c.TuneRivals, c.TuneOurs, c.Bound = rivals, o.tune, o.ours, o.bound
	if o.output == "html" {
		c.SeriesPoints = 720
	}
	bar := newProgress(progress)
	r, err := judge.Judge(ctx, c, bar.tell)
	bar.end()
	if err != nil {
		return err
	}
	failed := r.Check(gates)
	if err := toFile(o.file, out, func(w io.Writer) error { return write(w, r) }); err != nil {
		return err
	}
	if failed > 0 {
		for _, g := range r.Gates {
			if g.Failed {
				fmt.Fprintf(progress, "gpuscaler: gate failed: %s (found %.6g) %s\n", g.Gate, g.Found, g.Why)
			}
		}
		return errReported
	}
	return nil
}

// progress is a line on standard error that says what is being worked on.
type progress struct {
	mu    sync.Mutex
	out   io.Writer
	begun time.Time
	shown time.Time
}

func newProgress(out io.Writer) *progress { return &progress{out: out, begun: time.Now()} }

func (p *progress) tell(what string, done float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.shown) >= 100*time.Millisecond {
		p.shown = now
		fmt.Fprintf(p.out, "\r\x1b[K%4.0fs  %-40s %3.0f%%", now.Sub(p.begun).Seconds(), what, 100*done)
	}
}

func (p *progress) end() {
	fmt.Fprintf(p.out, "\r\x1b[K%.1fs on %d cores\n", time.Since(p.begun).Seconds(), runtime.GOMAXPROCS(0))
}
