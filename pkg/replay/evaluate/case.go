package evaluate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// AutoInitial as Case.Initial means that the initial replicas are computed from the first ten minutes of the traffic.
const AutoInitial = -1

// SLO requires that a share of the requests, 0..1, waits at most Wait before service starts.
type SLO struct {
	Share float64       `json:"share"`
	Wait  time.Duration `json:"-"`
}

// ParseSLO parses an SLO: the share of the requests and the longest wait, for example 99%:10s or 0.99:10s.
func ParseSLO(text string) (SLO, error) {
	bad := fmt.Errorf("%q: want a share of requests and the longest wait, e.g. 99%%:10s", text)
	share, wait, ok := strings.Cut(text, ":")
	if !ok {
		return SLO{}, bad
	}
	scale := 1.0
	if s, cut := strings.CutSuffix(share, "%"); cut {
		share, scale = s, 100
	}
	v, err := strconv.ParseFloat(share, 64)
	if v /= scale; err != nil || !(v > 0 && v <= 1) {
		return SLO{}, bad
	}
	d, err := time.ParseDuration(wait)
	if err != nil || d <= 0 {
		return SLO{}, bad
	}
	return SLO{Share: v, Wait: d}, nil
}

// Case is one policy with its traffic. Cases that run together share one simulated cluster, so the settings of the cluster (spot,
// NodePools, prices, cold start, seed, start, length and report part) must be the same in each.
type Case struct {
	Policy  *policy.Compiled
	Traffic *trace.Trace
	Start   time.Time     // time at which the run starts; zero: start of the traffic
	For     time.Duration // duration of the run; 0: as long as the traffic
	// HeldOut is the share of the run, at its end, that is the report part; 0: the whole run. The time before it is the train part, in
	// which policies learn and settings are tuned. All results and bounds cover only the report part.
	HeldOut   float64
	Spot      []*spotmarket.Trace  // available spot nodes over time, one NodePool for each trace; empty: on-demand GPUs, billed per second
	NodePools []karpenter.NodePool // NodePools, if Spot is empty; empty: on-demand GPUs, billed per second
	Pools     []string             // names of the NodePools whose nodes the workload may use; empty: all
	Service   simulator.Service
	// what each signal measures, by the name of the signal; necessary only if the source of the signal does not imply it
	Measures map[string]measure.Measure
	SLO      SLO
	GPUs     int32 // GPUs per replica
	Initial  int32 // replicas ready at the start, or AutoInitial
	Static   int32 // fixed number of replicas in an additional run; 0: no additional run
	// ColdStart is the time from the request for a replica until it is ready, without variation. It is divided among the phases in
	// the proportions of the assumptions. 0: each phase is drawn as the assumptions specify.
	ColdStart     time.Duration
	Hourly        float64 // $ per hour of an on-demand GPU
	SpotHourly    float64 // $ per hour of a spot GPU
	Seed          uint64
	Baselines     []baseline.Baseline
	TuneBaselines bool
	TuneOurs      bool // an additional run uses settings of the policy that are tuned to the traffic, as for baselines
	Bound         bool
	SeriesPoints  int // number of points in the time series of each run; 0: no time series

	recorded trace.Kind // kind of the traffic as it was read, before random requests were drawn
}

// Default prices: g6e.xlarge (one L40S) in us-east-1, 2026-07; spot as estimated from the Spot Advisor.
const (
	DefaultHourly     = 1.861
	DefaultSpotHourly = 0.78
)

const slotLength = 10 * time.Second

func (c *Case) check() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(c.Policy == nil, "no policy")
	refuse(c.Traffic == nil, "no traffic")
	refuse(!(c.SLO.Share > 0 && c.SLO.Share <= 1) || c.SLO.Wait <= 0, "an SLO is a share above 0 and at most 1, and a wait above 0")
	refuse(c.ColdStart < 0, "a cold start of %s", c.ColdStart)
	refuse(!(c.Hourly >= 0) || !(c.SpotHourly >= 0), "prices are at least 0")
	refuse(c.Initial < AutoInitial, "%d initial replicas", c.Initial)
	refuse(c.Traffic != nil && c.Traffic.Duration <= 0, "the traffic has no duration")
	refuse(c.For < 0, "a length of %s", c.For)
	refuse(!(c.HeldOut >= 0 && c.HeldOut < 1), "a held-out share of %v: use a share above 0 and below 1, or 0 for no train part", c.HeldOut)
	refuse(len(c.Spot) > 0 && len(c.NodePools) > 0, "a spot trace and NodePools: a NodePool names its own market")
	if len(errs) > 0 {
		return fmt.Errorf("replay: %w", errors.Join(errs...))
	}
	return nil
}

func (c *Case) limits() *scaling.Policy { return c.Policy.Workload.Policy }

func (c *Case) bounds() baseline.Bounds {
	p := c.limits()
	return baseline.Bounds{Min: p.MinReplicas, Max: p.MaxReplicas, Schedules: p.Schedules}
}

// start returns the start time of the run; a Monday at midnight if neither the case nor the traffic has one.
func (c *Case) start() time.Time {
	for _, at := range []time.Time{c.Start, c.Traffic.Start} {
		if !at.IsZero() {
			return at
		}
	}
	return time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
}

// Horizon returns the virtual time that each run lasts and is billed for: Case.For, or the duration of the traffic if For is 0, rounded up
// to a whole number of slots.
func (c *Case) Horizon() time.Duration {
	if c.For > 0 {
		return (c.For + slotLength - 1) / slotLength * slotLength
	}
	return (c.Traffic.Duration/slotLength + 1) * slotLength
}

// perReplica returns the rate of requests that one replica can serve, and the rate at which requests arrive, both per second. It uses only
// the requests in the first part of the traffic, of length prefix. Without requests in that part, both are 0.
func (c *Case) perReplica(prefix time.Duration) (served, arrive float64) {
	return c.perReplicaOf(&c.Service, prefix)
}

// perReplicaOf returns the same rates as perReplica, for another service.
func (c *Case) perReplicaOf(s *simulator.Service, prefix time.Duration) (served, arrive float64) {
	var busy time.Duration
	n := 0
	for r := range c.Traffic.All() {
		if r.At > prefix {
			break
		}
		busy += s.Takes(r)
		n++
	}
	if n == 0 {
		return 0, 0
	}
	slots := float64(max(1, s.Slots))
	length := max(min(prefix, c.Traffic.Duration), time.Second) // the duration of traffic with one request is 0
	return slots * float64(n) / busy.Seconds(), float64(n) / length.Seconds()
}

// initial returns the number of replicas at the start. With AutoInitial these are the replicas that the first ten minutes of the traffic
// need, within minReplicas and maxReplicas.
func (c *Case) initial() int32 {
	if c.Initial >= 0 {
		return c.Initial
	}
	served, arrive := c.perReplica(10 * time.Minute)
	p := c.limits()
	if served == 0 {
		return p.MinReplicas
	}
	return min(max(int32(math.Ceil(arrive/served)), p.MinReplicas), p.MaxReplicas)
}

// assumptions returns the default assumptions of the simulator, with the cold start of the case if it sets one.
func (c *Case) assumptions() *simulator.Assumptions {
	a := simulator.DefaultAssumptions()
	if c.ColdStart > 0 {
		phases := []*reproducible.Spread{&a.NodeLaunch, &a.GPUReady, &a.ImagePull, &a.ModelLoad}
		var whole, given time.Duration
		for _, p := range phases {
			whole += p.Median
		}
		for i, p := range phases {
			part := time.Duration(float64(c.ColdStart) * (float64(p.Median) / float64(whole))).Truncate(time.Second)
			if i == len(phases)-1 {
				part = c.ColdStart - given
			}
			given += part
			*p = reproducible.Fixed(part)
		}
	}
	return &a
}

// leastColdStart returns the shortest time from launch to ready. If GPUs are billed per second, it includes all phases. Otherwise it is
// the model load alone, because a node that has the image can already exist.
func (c *Case) leastColdStart() time.Duration {
	a := c.assumptions()
	least := func(s reproducible.Spread) time.Duration {
		if s.Sigma == 0 {
			return s.Median
		}
		return s.Min
	}
	if len(c.pools()) > 0 {
		return least(a.ModelLoad)
	}
	return least(a.NodeLaunch) + least(a.GPUReady) + least(a.ImagePull) + least(a.ModelLoad)
}

// typicalColdStart returns the time from the request for a replica until it is ready on a new node.
func (c *Case) typicalColdStart() time.Duration {
	a := c.assumptions()
	return a.NodeLaunch.Median + a.GPUReady.Median + a.ImagePull.Median + a.ModelLoad.Median
}

// workload returns the case as a workload of the simulator. The parameter factory creates the actuator that scales the workload. If factory
// is nil, the policy scales it.
func (c *Case) workload(factory autoscaler.Factory) simulator.Workload {
	w := simulator.Workload{
		Key: c.Policy.Workload.Key, Actuator: factory, Traffic: c.Traffic, Service: c.Service, SLO: c.SLO.Wait, GPUs: max(1, c.GPUs),
		Initial: c.initial(), Measures: c.Measures, Pools: c.Pools,
	}
	if factory == nil {
		w.Policy = c.Policy
	}
	return w
}

// pools returns the NodePools of the case, or nil if GPUs are billed per second without NodePools. With spot traces there is a spot
// NodePool for each trace, and an on-demand NodePool, with one node per replica: spot is preferred, and on-demand is used while spot has no
// capacity. Nodes are removed when they are empty.
func (c *Case) pools() []karpenter.NodePool {
	if len(c.Spot) == 0 {
		return c.NodePools
	}
	pool := func(name, capacity string, weight int32, hourly float64) karpenter.NodePool {
		return karpenter.NodePool{
			Name: name, CapacityType: capacity, InstanceType: "one-replica", GPUs: max(1, c.GPUs), Hourly: hourly * float64(max(1, c.GPUs)),
			Weight: weight, ConsolidateAfter: time.Minute, OnlyWhenEmpty: true, Budgets: []karpenter.Budget{{Percent: 100}},
		}
	}
	var all []karpenter.NodePool
	for i, market := range c.Spot {
		name := "spot"
		if len(c.Spot) > 1 {
			name = fmt.Sprintf("spot-%d", i+1)
		}
		spot := pool(name, karpenter.Spot, 80, c.SpotHourly)
		spot.Market = market
		all = append(all, spot)
	}
	return append(all, pool("on-demand", karpenter.OnDemand, 20, c.Hourly))
}

// leastHourly returns the lowest price of a replica per hour, on the nodes that it may run on.
func (c *Case) leastHourly() float64 {
	perGPU := math.Inf(1)
	for _, p := range c.pools() {
		if len(c.Pools) == 0 || slices.Contains(c.Pools, p.Name) {
			perGPU = min(perGPU, p.Hourly/float64(p.GPUs))
		}
	}
	if math.IsInf(perGPU, 1) {
		perGPU = c.Hourly
	}
	return perGPU * float64(max(1, c.GPUs))
}

// withoutSeries returns a copy of the case without time series, for runs that are not part of a report.
func (c *Case) withoutSeries() *Case {
	withoutSeries := *c
	withoutSeries.SeriesPoints = 0
	return &withoutSeries
}
