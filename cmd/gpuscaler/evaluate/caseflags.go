package evaluate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gpuscaler/gpuscaler/cmd/gpuscaler/commandline"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
)

// caseFlags are the flags that select policies, traffic and a simulated service. The commands replay, advise and tune use them.
type caseFlags struct {
	policies  []string
	name      string
	requests  []string
	spot      []string
	trace     traceFlags
	slos      []string
	coldStart time.Duration
	initial   int32
	gpus      int32
	hourly    float64
	spotPrice float64
	service   simulator.Service
	cache     int
	measures  map[string]string
	seed      uint64
}

func (o *caseFlags) register(f *pflag.FlagSet) {
	o.service = simulator.Chat8B
	commandline.Config(f, &o.policies, "; if no path has a PlatformConfig, platform.yaml in the same directory or its parent is read too")
	f.StringVar(&o.name, "policy-name", "", "NAMESPACE/NAME of the policy to replay; required if the files contain several")
	f.StringArrayVar(&o.requests, "requests", nil, "recorded traffic: CSV, JSON lines, windowed rates, Prometheus; also .gz; for several "+
		"workloads, NAMESPACE/NAME=FILE for each")
	f.StringArrayVar(&o.spot, "spot", nil, "trace of spot capacity; replicas then run on spot nodes first, and on demand while spot has no "+
		"capacity; may be repeated: each trace is the market of a NodePool of its own")
	o.trace.register(f)
	f.StringArrayVar(&o.slos, "slo", []string{defaultSLO},
		"share of the requests, and the longest time that these may wait, as `SHARE:WAIT`; NAMESPACE/NAME=99%:10s is for one of several "+
			"workloads")
	f.DurationVar(&o.coldStart, "cold-start", time.Minute,
		"time from the request for a replica until it is ready; 0: the sum of randomly drawn phases, see the printed assumptions")
	f.Int32Var(&o.initial, "initial", evaluate.AutoInitial,
		"replicas ready at the start of every run; -1: computed from the first ten minutes of traffic")
	f.Int32Var(&o.gpus, "gpus", 1, "GPUs per replica")
	f.Float64Var(&o.hourly, "hourly", evaluate.DefaultHourly, "price of an on-demand GPU in $ per hour")
	f.Float64Var(&o.spotPrice, "spot-hourly", evaluate.DefaultSpotHourly, "price of a spot GPU in $ per hour")
	f.IntVar(&o.service.Slots, "slots", o.service.Slots, "requests that a replica serves concurrently")
	f.IntVar(&o.cache, "cache-tokens", 0, "tokens in the KV cache of a replica; 0: 4000 for each slot")
	f.DurationVar(&o.service.Base, "service-base", o.service.Base, "fixed part of the service time of a request")
	f.DurationVar(&o.service.Prefill, "service-per-input-token", o.service.Prefill, "service time per input token")
	f.DurationVar(&o.service.Decode, "service-per-output-token", o.service.Decode, "service time per output token, with all slots in use")
	f.DurationVar(&o.service.Fixed, "service-fixed", 0,
		"service time of every request; 0: recorded in the traffic, or else computed from its tokens")
	f.StringToStringVar(&o.measures, "measure", nil, "what a custom signal measures, `SIGNAL=MEASURE`, for example backlog=inSystem; "+
		"MEASURE is queue, inSystem, arrivals, waiting, running, cacheUse, activity or queueTime; default: arrivals for a query of rate() or "+
		"increase(), queue for other queries")
	f.Uint64Var(&o.seed, "seed", 1, "seed of all random numbers; the same seed gives the same output")
}

// open reads the policies and traces that the flags name and returns one case for each workload.
func (o *caseFlags) open(ctx context.Context, notes io.Writer) ([]evaluate.Case, error) {
	if len(o.policies) == 0 || len(o.requests) == 0 && !o.trace.fetched.enabled() {
		return nil, errors.New("--config and --requests (or --prometheus and --query) are required")
	}
	c, err := o.simulation()
	if err != nil {
		return nil, err
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

// simulation returns a case with the service and the cluster that the flags describe, without a policy, traffic and SLO.
func (o *caseFlags) simulation() (c evaluate.Case, err error) {
	c = evaluate.Case{Service: o.service, ColdStart: o.coldStart, Initial: o.initial, GPUs: o.gpus, Hourly: o.hourly,
		SpotHourly: o.spotPrice, Seed: o.seed}
	if c.Service.CacheTokens = o.cache; o.cache == 0 {
		c.Service.CacheTokens = simulator.Chat8B.WithSlots(o.service.Slots).CacheTokens
	}
	if c.Measures, err = measure.Parse(o.measures); err != nil {
		return c, fmt.Errorf("--measure %w", err)
	}
	for _, path := range o.spot {
		market, err := spotmarket.Open(path)
		if err != nil {
			return c, err
		}
		c.Spot = append(c.Spot, market)
	}
	return c, nil
}

// recordings returns the names of the workloads in the --requests flags, and the trace file of each workload. A file without a workload
// belongs to the policy of --policy-name or, without that flag, to the only policy.
func (o *caseFlags) recordings() (names, files []string, err error) {
	if len(o.requests) == 0 {
		return []string{o.name}, []string{""}, nil
	}
	for _, text := range o.requests {
		name, file := ofWorkload(text)
		switch {
		case name == "" && len(o.requests) > 1:
			return nil, nil, fmt.Errorf("--requests %s: with several files, name the workload of each: NAMESPACE/NAME=FILE", text)
		case name == "":
			name = o.name
		case slices.Contains(names, name):
			return nil, nil, fmt.Errorf("--requests %s: %s already has traffic", text, name)
		}
		names, files = append(names, name), append(files, file)
	}
	return names, files, nil
}

// ofWorkload splits a flag value NAMESPACE/NAME=REST. For a value without this prefix, for example a file path with "=", the name is empty
// and rest is the whole value.
func ofWorkload(text string) (name, rest string) {
	before, after, ok := strings.Cut(text, "=")
	if namespace, name, two := strings.Cut(before, "/"); !ok || !two || namespace == "" || name == "" || strings.ContainsAny(name,
		"/.") || strings.Contains(namespace, ".") {
		return "", text
	}
	return before, after
}

// objectives returns the SLO of each policy's workload: the value of --slo with the workload's name, or else the value of --slo without a
// name.
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
