package scenario

import (
	"context"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

// Scenario is several workloads and where they run.
type Scenario struct {
	Name, Words string
	Start       time.Time
	For         time.Duration
	Seed        uint64
	Workloads   []Workload
	NodePools   []simulator.NodePool // empty: GPUs by the second at Hourly
	Hourly      float64              // $ for a GPU where there are no NodePools
}

// Workload is one of them.
type Workload struct {
	Policy   *policy.Compiled
	Traffic  *trace.Trace
	Service  simulator.Service
	SLO      evaluate.SLO
	GPUs     int32 // per replica
	Initial  int32
	Static   int32 // replicas of the fleet that stands there where nobody scales
	Pools    []string
	Measures map[string]simulator.Measure
}

// Cases are the scenario's workloads as they are judged together, beside the fleets that would stand there.
func (s *Scenario) Cases() []evaluate.Case {
	var out []evaluate.Case
	for _, w := range s.Workloads {
		out = append(out, evaluate.Case{
			Policy: w.Policy, Traffic: w.Traffic, Start: s.Start, For: s.For, NodePools: s.NodePools, Pools: w.Pools, Service: w.Service, Measures: w.Measures,
			SLO: w.SLO, GPUs: w.GPUs, Initial: w.Initial, Static: w.Static, Hourly: s.Hourly, Seed: s.Seed,
		})
	}
	return out
}

// Judge plays the cases, which are the scenario's own with what their caller asks for besides. The same cases give the same report.
func (s *Scenario) Judge(ctx context.Context, cases []evaluate.Case, progress evaluate.Progress) (*evaluate.Report, error) {
	out, err := evaluate.Workloads(ctx, cases, progress)
	if err == nil {
		out.Words = s.Name + ": " + s.Words
	}
	return out, err
}
