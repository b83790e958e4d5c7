package scenario

import (
	"context"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

// Scenario is a set of workloads with the cluster that they run in.
type Scenario struct {
	Name, Words string
	Start       time.Time
	For         time.Duration
	Seed        uint64
	Workloads   []Workload
	NodePools   []karpenter.NodePool // NodePools; empty: GPUs are billed per second at Hourly
	Hourly      float64              // price of a GPU per hour in $, if there are no NodePools
}

// Workload is one workload of a scenario: its policy, its traffic and how it serves requests.
type Workload struct {
	Policy   *policy.Compiled
	Traffic  *trace.Trace
	Service  simulator.Service
	SLO      evaluate.SLO
	GPUs     int32 // GPUs per replica
	Initial  int32
	Static   int32 // replicas of the static fleet
	Pools    []string
	Measures map[string]measure.Measure
}

// Cases returns one evaluate.Case for each workload, including the size of its static fleet.
func (s *Scenario) Cases() []evaluate.Case {
	var out []evaluate.Case
	for _, w := range s.Workloads {
		out = append(out, evaluate.Case{
			Policy: w.Policy, Traffic: w.Traffic, Start: s.Start, For: s.For, Service: w.Service, Measures: w.Measures, SLO: w.SLO,
			NodePools: s.NodePools, Pools: w.Pools, GPUs: w.GPUs, Initial: w.Initial, Static: w.Static, Hourly: s.Hourly, Seed: s.Seed,
		})
	}
	return out
}

// Evaluate runs the cases and returns the report. The parameter cases is the result of Cases, in which the caller may have set further
// options. The same cases always give the same report.
func (s *Scenario) Evaluate(ctx context.Context, cases []evaluate.Case, progress evaluate.Progress) (*evaluate.Report, error) {
	out, err := evaluate.Workloads(ctx, cases, progress)
	if err == nil {
		out.Words = s.Name + ": " + s.Words
	}
	return out, err
}
