package simulator

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/golden"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// A simulation with a given seed must return the same bytes on every architecture. The workloads are scaled by baselines only, so that the
// golden file does not change with gpuscaler's rules.
func TestSeedGivesTheGoldenBytes(t *testing.T) {
	spot, od := nodePool("spot", karpenter.Spot, 2, 1.6, 80), nodePool("on-demand", karpenter.OnDemand, 4, 7.44, 20)
	spot.ConsolidateAfter, od.ConsolidateAfter = time.Minute, 5*time.Minute
	spot.Market = &spotmarket.Trace{Duration: 3 * time.Hour, Initial: 6, Events: []spotmarket.Event{{At: 70 * time.Minute, Lost: 4},
		{At: 100 * time.Minute, Added: 4}}}
	c := Config{Seed: 42, NodePools: []karpenter.NodePool{od, spot}, Resolution: 30 * time.Minute}
	for i, r := range baseline.All() {
		c.Workloads = append(c.Workloads, Workload{
			Key: scaling.Key{Namespace: "baselines", Name: r.Name}, Actuator: r.Default(baseline.Bounds{Max: 4}), Service: Chat8B, Initial: 1,
			Traffic: generate(t, []string{"flat", "bursty", "diurnal", "spikes", "nights"}[i%5], 6*time.Hour, func(p *trace.Profile) { p.Rate = 1 }),
		})
	}
	got := append(encode(run(t, c, 6*time.Hour)), '\n')
	golden.Compare(t, "testdata/baselines.json", string(got))
}
