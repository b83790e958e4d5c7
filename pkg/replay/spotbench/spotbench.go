// Package spotbench simulates gpuscaler, Karpenter alone, SkyServe and on-demand nodes on traces of spot capacity. Each trace is the market
// of one spot NodePool. Each run keeps a fixed number of replicas. The report has the availability and the cost of each run, and the lowest
// cost of a plan that knows all traces.
//
// Compare runs a Case and returns its Report.
package spotbench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Case is the input of a comparison: traces of spot capacity, the number of replicas to keep available, and the prices of a node per hour.
type Case struct {
	Name           string              // name of the traces in the report; empty: the name of the first trace
	Spot           []*spotmarket.Trace // the market of each spot NodePool, at least one; the shortest trace limits the duration
	Replicas       int32               // number of replicas, each with one GPU
	SpotHourly     float64
	OnDemandHourly float64
	ColdStart      time.Duration // time from a node that is ready until the replica on it is ready
	Seed           uint64
	Only           []string // names of the runs; empty: all of them
}

// Run is the result of one autoscaler on a Case. OverLeast is Cost divided by Report.Least. Losses is the number of lost spot nodes.
type Run struct {
	Name         string  `json:"name"`
	Availability float64 `json:"availability"` // share of the requested replica time with a ready replica
	Cost         float64 `json:"cost"`
	OverLeast    float64 `json:"costOverOmniscient"`
	Spot         float64 `json:"spotCost"`
	Losses       int64   `json:"spotLosses"`
	Starts       int64   `json:"replicaStarts"`
	Ledger       Ledger  `json:"ledger"`
}

// Ledger contains the node hours that a run paid for, by kind and by cause, and the replica minutes in which fewer replicas than requested
// were ready.
type Ledger struct {
	SpotHours     float64 `json:"spotHours"`
	OnDemandHours float64 `json:"onDemandHours"`
	Excess        float64 `json:"excessOnDemandHours"` // on-demand hours above what the missing spot capacity requires
	Starting      float64 `json:"startingHours"`       // hours of nodes that start and of replicas that load their model
	Empty         float64 `json:"emptyHours"`          // hours of nodes without a replica, including terminating nodes
	Missing       float64 `json:"missingMinutes"`      // replica minutes in which a requested replica was not ready
	WithoutNode   float64 `json:"withoutNodeMinutes"`  // part of Missing in which the replica had no node, not even a starting one
}

// Report contains the runs of all autoscalers on one trace. Least is the lowest possible cost for an autoscaler that knows the future of
// the spot market, computed by lowestCost.
type Report struct {
	Trace    string        `json:"trace"`
	Duration time.Duration `json:"duration"`
	Replicas int32         `json:"replicas"`
	Least    float64       `json:"omniscientCost"`
	Runs     []Run         `json:"runs"`
}

// Names of runs that other packages compare.
const (
	Ours     = "gpuscaler"
	Fallback = "SkyServe, dynamic fallback"
)

const (
	spotPool     = "spot"
	onDemandPool = "on-demand"
	tick         = 2 * time.Second
)

// Compare simulates gpuscaler and each baseline on the case and returns the results. The result is reproducible: it depends only on the
// case.
func Compare(ctx context.Context, c Case) (*Report, error) {
	out := &Report{Trace: cmp.Or(c.Name, c.Spot[0].Name), Duration: c.duration(), Replicas: c.Replicas, Least: c.lowestCost()}
	for _, way := range []struct {
		name   string
		config func() (simulator.Config, error)
	}{
		{Ours, c.gpuscaler},
		{"Karpenter, weighted pools", func() (simulator.Config, error) { return c.karpenterOnly(false), nil }},
		{"Karpenter, consolidating to cheaper nodes", func() (simulator.Config, error) { return c.karpenterOnly(true), nil }},
		{Fallback, func() (simulator.Config, error) { return c.skyServe(0, 0), nil }},
		{"SkyServe, one extra replica", func() (simulator.Config, error) { return c.skyServe(1, 0), nil }},
		{"on demand only", func() (simulator.Config, error) { return c.onDemand(), nil }},
	} {
		if !c.includes(way.name) {
			continue
		}
		config, err := way.config()
		if err != nil {
			return nil, err
		}
		run, err := c.simulate(ctx, config)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", way.name, err)
		}
		run.Name, run.OverLeast = way.name, run.Cost/out.Least
		out.Runs = append(out.Runs, run)
	}
	if len(c.Only) > 0 {
		return out, nil
	}
	best, err := c.leastReserve(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", best.Name, err)
	}
	best.OverLeast = best.Cost / out.Least
	out.Runs = append(out.Runs, best)
	return out, nil
}

// includes reports whether the case has a run with the given name.
func (c *Case) includes(name string) bool { return len(c.Only) == 0 || slices.Contains(c.Only, name) }

// targetAvailability is the required availability: the time with a ready replica, summed over the requested replicas, as a share of their
// total time.
const targetAvailability = 0.999

// leastReserve simulates SkyServe's fallback with 1, 2, 4, ... additional on-demand replicas and returns the first run that reaches
// targetAvailability, or the last run if none does. An operator cannot know the necessary number of additional replicas before the trace
// ends.
func (c *Case) leastReserve(ctx context.Context) (run Run, err error) {
	for over := int32(1); over <= c.Replicas; over *= 2 {
		if run, err = c.simulate(ctx, c.skyServe(0, over)); err != nil {
			return run, err
		}
		run.Name = fmt.Sprintf("SkyServe, %d more on demand", over)
		if run.Availability >= targetAvailability {
			break
		}
	}
	return run, nil
}

func (c *Case) simulate(ctx context.Context, config simulator.Config) (out Run, err error) {
	w, err := simulator.New(config)
	if err != nil {
		return out, err
	}
	ready, demanded := int64(0), int64(0)
	var withoutNode int64
	var excess time.Duration
	for duration := c.duration(); w.Now() < duration; {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		w.Step(ctx)
		ready += int64(min(w.Ready(), c.Replicas))
		demanded += int64(c.Replicas)
		withoutNode += int64(min(w.ReplicasWithoutNode(), max(c.Replicas-w.Ready(), 0)))
		excess += time.Duration(max(w.Nodes(onDemandPool)-max(int(c.Replicas)-c.available(w.Now()), 0), 0)) * tick
	}
	r := w.Result()
	out = Run{Availability: float64(ready) / float64(demanded), Cost: r.Cost, Spot: r.CostBy[karpenter.Spot]}
	out.Ledger = Ledger{
		Excess:      excess.Hours(),
		Starting:    (r.Ledger[ledger.Launching] + r.Ledger[ledger.Loading]).Hours(),
		Empty:       (r.Ledger[ledger.Empty] + r.Ledger[ledger.Terminating]).Hours(),
		Missing:     (time.Duration(demanded-ready) * tick).Minutes(),
		WithoutNode: (time.Duration(withoutNode) * tick).Minutes(),
	}
	for i := range r.Pools {
		if p := &r.Pools[i]; p.CapacityType == karpenter.Spot {
			out.Ledger.SpotHours += p.Paid.Hours()
		} else {
			out.Ledger.OnDemandHours += p.Paid.Hours()
		}
	}
	for i := range r.Pools {
		out.Losses += r.Pools[i].SpotLosses
	}
	for i := range r.Loads {
		out.Starts += r.Loads[i].ReplicaStarts
	}
	return out, nil
}

// duration returns the duration of the shortest trace.
func (c *Case) duration() time.Duration {
	return slices.MinFunc(c.Spot, func(a, b *spotmarket.Trace) int { return cmp.Compare(a.Duration, b.Duration) }).Duration
}

// available returns the number of available spot nodes of all NodePools.
func (c *Case) available(at time.Duration) (n int) {
	for _, s := range c.Spot {
		n += s.Available(at)
	}
	return n
}

// lowestCost returns the lowest cost of keeping all replicas available all the time. At each time it includes the cost of spot nodes up to
// the available spot capacity of all NodePools, and of on-demand nodes for the other replicas. A replacement does not overlap with the node
// that it replaces.
func (c *Case) lowestCost() float64 {
	changes, available := []spotmarket.Event{{At: c.duration()}}, 0
	for _, s := range c.Spot {
		available += s.Initial
		for _, e := range s.Events {
			if e.At < c.duration() {
				changes = append(changes, e)
			}
		}
	}
	slices.SortFunc(changes, func(a, b spotmarket.Event) int { return cmp.Compare(a.At, b.At) })
	now, hours := time.Duration(0), 0.0
	for _, e := range changes {
		hours += float64(min(int64(available), int64(c.Replicas))) * (e.At - now).Hours()
		now, available = e.At, available+e.Added-e.Lost
	}
	all := float64(c.Replicas) * c.duration().Hours()
	cheap := min(c.SpotHourly, c.OnDemandHourly)
	return hours*cheap + (all-hours)*c.OnDemandHourly
}

// spotPools returns the names of the spot NodePools.
func (c *Case) spotPools() (names []string) {
	if len(c.Spot) == 1 {
		return []string{spotPool}
	}
	for i := range c.Spot {
		names = append(names, fmt.Sprintf("%s-%d", spotPool, i+1))
	}
	return names
}

func (c *Case) config() simulator.Config {
	a := simulator.DefaultAssumptions()
	part := (c.ColdStart / 4).Truncate(time.Second)
	a.NodeLaunch, a.GPUReady, a.ImagePull = reproducible.Fixed(part), reproducible.Fixed(part), reproducible.Fixed(part)
	a.ModelLoad = reproducible.Fixed(c.ColdStart - 3*part)
	pool := func(name, kind string, weight int32, hourly float64) karpenter.NodePool {
		return karpenter.NodePool{Name: name, CapacityType: kind, InstanceType: name, GPUs: 1, Hourly: hourly, Weight: weight,
			ConsolidateAfter: time.Minute, OnlyWhenEmpty: true, Budgets: []karpenter.Budget{{Percent: 100}}}
	}
	out := simulator.Config{Seed: c.Seed, Tick: tick, Assumptions: &a, Resolution: -1}
	for i, name := range c.spotPools() {
		spot := pool(name, karpenter.Spot, 80, c.SpotHourly)
		spot.Market = c.Spot[i]
		out.NodePools = append(out.NodePools, spot)
	}
	out.NodePools = append(out.NodePools, pool(onDemandPool, karpenter.OnDemand, 20, c.OnDemandHourly))
	return out
}

func (c *Case) load(name string, n int32, factory autoscaler.Factory, pools ...string) simulator.Workload {
	return simulator.Workload{Key: scaling.Key{Namespace: "spotbench", Name: name}, Actuator: factory, GPUs: 1, Initial: n, Pools: pools}
}

func (c *Case) gpuscaler() (simulator.Config, error) {
	config := c.config()
	var pools []capacity.Pool
	for _, name := range c.spotPools() {
		pools = append(pools, capacity.Pool{Name: name, Type: capacity.Spot})
	}
	pools = append(pools, capacity.Pool{Name: onDemandPool, Type: capacity.OnDemand})
	g, err := capacity.NewGroup(capacity.Group{Name: "spotbench", Resource: "nvidia.com/gpu", Pools: pools})
	if err != nil {
		return config, err
	}
	p := &scaling.Policy{MinReplicas: c.Replicas, MaxReplicas: 2 * c.Replicas}
	service := scaling.Workload{Key: scaling.Key{Namespace: "spotbench", Name: "service"}, Policy: p, Group: g.Name}
	config.Groups = []*capacity.Group{g}
	config.Workloads = []simulator.Workload{{Initial: c.Replicas, GPUs: 1, Policy: &policy.Compiled{Workload: service}}}
	return config, nil
}

func (c *Case) karpenterOnly(cheaper bool) simulator.Config {
	config := c.config()
	for i := range config.NodePools {
		config.NodePools[i].OnlyWhenEmpty = !cheaper
	}
	config.Workloads = []simulator.Workload{c.load("service", c.Replicas, baseline.Static(c.Replicas))}
	return config
}

// skyServe returns the configuration of SkyServe. It requests Replicas + over replicas on spot nodes. It also requests
// Replicas + reserve on-demand replicas, minus one for each ready spot replica.
func (c *Case) skyServe(over, reserve int32) simulator.Config {
	config := c.config()
	// All replicas are ready at the start, as in the other runs. Replicas for which the initial spot capacity is too small start on
	// on-demand nodes.
	short := max(c.Replicas+reserve-min(c.Replicas, int32(c.available(0))), 0)
	config.Workloads = []simulator.Workload{
		c.load("spot", c.Replicas, baseline.Static(c.Replicas+over), c.spotPools()...),
		c.load("fallback", short, baseline.SkyFallback{Spot: "spot", Demanded: c.Replicas + reserve}.NewActuator, onDemandPool),
	}
	return config
}

func (c *Case) onDemand() simulator.Config {
	config := c.config()
	config.Workloads = []simulator.Workload{c.load("service", c.Replicas, baseline.Static(c.Replicas), onDemandPool)}
	return config
}

// WriteText prints the report as a table.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "%s: %d replicas for %s; omniscient $%.2f\n", r.Trace, r.Replicas, r.Duration.Round(time.Minute), r.Least)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RUN\tAVAILABLE\tCOST\tCOST/OMNISCIENT\t"+
		"SPOT h\tON DEMAND h\tEXCESS h\tSTARTING h\tEMPTY h\tLOSSES\tSTARTS\tMISSING min\tNO NODE")
	for _, run := range r.Runs {
		l := &run.Ledger
		fmt.Fprintf(t, "%s\t%.3f%%\t$%.2f\t%.3f\t", run.Name, 100*run.Availability, run.Cost, run.OverLeast)
		fmt.Fprintf(t, "%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%d\t%d\t%.0f\t%.0f\n",
			l.SpotHours, l.OnDemandHours, l.Excess, l.Starting, l.Empty, run.Losses, run.Starts, l.Missing, l.WithoutNode)
	}
	return t.Flush()
}
