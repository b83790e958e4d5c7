package scenario

import (
	"context"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/world"
)

// Scenario is several workloads and where they run.
type Scenario struct {
	Name, Words string
	Start       time.Time
	For         time.Duration
	Seed        uint64
	Workloads   []Workload
	NodePools   []world.NodePool // empty: GPUs by the second at Hourly
	Hourly      float64          // $ for a GPU where there are no NodePools
}

// Workload is one of them.
type Workload struct {
	Policy   *policy.Compiled
	Traffic  *trace.Trace
	Service  world.Service
	Share    float64       // of the requests, 0..1, that are to wait at most Wait
	Wait     time.Duration // the longest wait of those
	GPUs     int32         // per replica
	Initial  int32
	Static   int32 // replicas of the fleet that stands there where nobody scales
	Pools    []string
	Measures map[string]world.Measure
}

// Report is the scenario with gpuscaler, and with fleets that stand.
type Report struct {
	Name   string        `json:"name"`
	Words  string        `json:"words"`
	For    float64       `json:"hours"`
	Scaled Side          `json:"gpuscaler"`
	Static Side          `json:"static"`
	Saved  float64       `json:"savedShare"` // of the static fleets' cost; below 0 where scaling costs more
	By     []WorkloadRow `json:"workloads"`
}

// Side is one way to run it.
type Side struct {
	Cost       float64            `json:"cost"`
	CostBy     map[string]float64 `json:"costByCapacityType"`
	GPUHours   float64            `json:"gpuHours"`
	Productive float64            `json:"servingShare"` // of the GPU time that is paid for, the share in which requests are served
	SpotLosses int64              `json:"spotLosses"`
}

// WorkloadRow is one workload on both sides.
type WorkloadRow struct {
	Policy       string  `json:"policy"`
	Arrived      int64   `json:"requests"`
	Share        float64 `json:"sloShare"`
	Wait         float64 `json:"sloWaitSeconds"`
	OnTime       float64 `json:"onTime"`
	OnTimeStatic float64 `json:"onTimeStatic"`
	P99          float64 `json:"p99Seconds"`
	AtZero       float64 `json:"atZeroHours"`
	Starts       int64   `json:"replicaStarts"`
}

// Meets reports whether the workload keeps its SLO.
func (r *WorkloadRow) Meets() bool { return r.OnTime >= r.Share }

// Run plays both sides. The same scenario gives the same report.
func (s *Scenario) Run(ctx context.Context) (*Report, error) {
	ours, err := s.play(ctx, false)
	if err != nil {
		return nil, err
	}
	standing, err := s.play(ctx, true)
	if err != nil {
		return nil, err
	}
	out := &Report{Name: s.Name, Words: s.Words, For: s.For.Hours(), Scaled: sideOf(ours), Static: sideOf(standing)}
	if out.Static.Cost > 0 {
		out.Saved = 1 - out.Scaled.Cost/out.Static.Cost
	}
	for i := range ours.Loads {
		l := &ours.Loads[i]
		row := WorkloadRow{Policy: l.Key.String(), Arrived: l.Arrived, OnTime: l.OnTime, OnTimeStatic: standing.Loads[i].OnTime, P99: l.P99.Seconds(),
			AtZero: l.AtZero.Hours(), Starts: l.ReplicaStarts}
		for _, w := range s.Workloads {
			if w.Policy.Workload.Key == l.Key {
				row.Share, row.Wait = w.Share, w.Wait.Seconds()
			}
		}
		out.By = append(out.By, row)
	}
	return out, nil
}

func (s *Scenario) play(ctx context.Context, static bool) (*world.Result, error) {
	c := world.Config{Start: s.Start, Seed: s.Seed, NodePools: s.NodePools, Fleet: world.Fleet{HourlyPerGPU: s.Hourly}, Resolution: -1}
	for _, w := range s.Workloads {
		load := world.Workload{Key: w.Policy.Workload.Key, Traffic: w.Traffic, Service: w.Service, SLO: w.Wait, GPUs: w.GPUs, Initial: w.Initial, Pools: w.Pools, Measures: w.Measures}
		if static {
			load.Actuator, load.Initial = world.Static(w.Static), w.Static
		} else {
			load.Policy = w.Policy
		}
		c.Workloads = append(c.Workloads, load)
	}
	w, err := world.New(c)
	if err != nil {
		return nil, err
	}
	if err := w.Run(ctx, s.For, nil); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func sideOf(r *world.Result) Side {
	out := Side{Cost: r.Cost, CostBy: r.CostBy, GPUHours: r.Paid.Hours()}
	if r.Paid > 0 {
		out.Productive = float64(r.Ledger[world.Serving]) / float64(r.Paid)
	}
	for i := range r.Pools {
		out.SpotLosses += r.Pools[i].SpotLosses
	}
	return out
}
