package audit

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// scraped is the scrape interval of the simulated Prometheus server.
const scraped = 15 * time.Second

// midnight is the start of a Monday.
var midnight = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// autoscaled is a workload of a simulated cluster. The field actuator scales it in the simulator. The field autoscaler contains the
// settings for the snapshot.
type autoscaled struct {
	name       string
	preset     string
	rate       float64
	actuator   autoscaler.Factory
	autoscaler Autoscaler
	initial    int32
	slots      int
	seed       uint64 // seed of the traffic; 0: the position of the workload, counted from 1
	pools      []string
}

const (
	slo     = 10 * time.Second
	service = 8 * time.Second
	hourly  = 2.0
)

// simulated runs workloads in the simulator. It returns the result of the simulator, and the snapshot that the audit would read from a
// Prometheus server with the same history. If pools is empty, each replica has its own node.
func simulated(t testing.TB, length, step time.Duration, pools []karpenter.NodePool, all ...autoscaled) (*Snapshot, *simulator.Result) {
	t.Helper()
	config := simulator.Config{
		Start: midnight, Seed: 1, NodePools: pools, Fleet: karpenter.Fleet{HourlyPerGPU: hourly}, Resolution: scraped,
	}
	for i, a := range all {
		p, ok := trace.Preset(a.preset)
		if !ok {
			t.Fatalf("no preset %s", a.preset)
		}
		p.Duration, p.Rate, p.Seed, p.Start = length, a.rate, cmp.Or(a.seed, uint64(i+1)), midnight
		traffic, err := trace.Generate(p)
		if err != nil {
			t.Fatal(err)
		}
		config.Workloads = append(config.Workloads, simulator.Workload{
			Key: scaling.Key{Namespace: "team", Name: a.name}, Actuator: a.actuator, Initial: a.initial, Traffic: traffic, SLO: slo,
			Service: simulator.Service{Slots: a.slots, Fixed: service}, Pools: a.pools,
		})
	}
	s, err := simulator.New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background(), length, nil); err != nil {
		t.Fatal(err)
	}
	r := s.Result()
	return recorded(r, step, all), r
}

// recorded converts the series of the simulator to a snapshot. The value of a step is the mean of the samples in the step; for numbers of
// requests it is their sum.
func recorded(r *simulator.Result, step time.Duration, all []autoscaled) *Snapshot {
	n := int(step / scraped)
	out := &Snapshot{
		Schema: SnapshotSchema, Cluster: "sample", From: midnight, Step: step.Seconds(), Steps: len(r.Series.Cost) / n, Wait: slo.Seconds(),
	}
	sum := func(columns ...[]int32) Values {
		v := make(Values, out.Steps)
		for i := range v {
			for _, c := range columns {
				for _, x := range c[i*n : (i+1)*n] {
					v[i] += float64(x)
				}
			}
		}
		return v
	}
	mean := func(columns ...[]int32) Values {
		v := sum(columns...)
		for i := range v {
			v[i] /= float64(n)
		}
		return v
	}
	for i := range r.Series.Loads {
		l := &r.Series.Loads[i]
		var of *autoscaled
		for k := range all {
			if all[k].name == l.Key.Name {
				of = &all[k]
			}
		}
		w := Workload{
			Namespace: l.Key.Namespace, Name: l.Key.Name, Kind: "Deployment", Autoscaler: of.autoscaler, GPUs: 1, Slots: float64(of.slots),
			SlotsFrom: "--max-num-seqs", Service: service.Seconds(), Spec: mean(l.Target), Ready: mean(l.Ready),
			Held:    []Held{{Pool: poolOf(of), GPUs: mean(l.Ready, l.Loading, l.Draining)}},
			Running: mean(l.Running), Waiting: mean(l.Queue), Started: sum(l.Started),
		}
		late := sum(l.Late)
		w.OnTime = make(Values, out.Steps)
		for k := range late {
			w.OnTime[k] = w.Started[k] - late[k]
		}
		out.Workloads = append(out.Workloads, w)
	}
	for i := range r.Series.Pools {
		p := &r.Series.Pools[i]
		pool := Pool{Name: p.Name, CapacityType: p.CapacityType, PerNode: 1, Hourly: hourly, PriceFrom: "the simulator", GPUs: mean(p.Nodes)}
		if len(all[0].pools) == 0 {
			pool.Name = "gpu"
		}
		out.Pools = append(out.Pools, pool)
	}
	return out
}

// seeded returns the workload with another seed of its traffic, other slots of a replica, and a load that changes with the slots, so that
// the number of replicas remains about the same.
func seeded(a autoscaled, seed uint64, slots int) autoscaled {
	a.rate *= float64(slots) / float64(a.slots)
	a.seed, a.slots = seed, slots
	return a
}

func poolOf(a *autoscaled) string {
	if len(a.pools) > 0 {
		return a.pools[0]
	}
	return "gpu"
}
