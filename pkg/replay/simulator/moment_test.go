package simulator

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
)

// Three replicas without requests run on a node with four GPUs at $4 per hour. While the node starts, its GPUs are not measured. After
// that, one GPU has no pod, so it is unallocated. The other three GPUs are idle, both while the replicas load and when they are ready.
func TestMomentReportsBilledAndIdleGPUs(t *testing.T) {
	c := Config{Assumptions: exact(), NodePools: []karpenter.NodePool{nodePool("spot", karpenter.Spot, 4, 4, 0)},
		Workloads: []Workload{plan("chat", at(0, 3))}}
	sums := map[int]cost.Sum{}
	watch(t, c, 10*time.Minute, func(w *Simulator, second int) {
		l := cost.NewLedger(cost.Options{})
		l.Add(w.Moment(time.Hour))
		sums[second] = l.Bill(cost.Period{From: w.Time().Add(-time.Hour), To: w.Time(), Step: time.Hour}).Total
	})
	for second, want := range map[int]cost.Sum{
		60:  {Cost: 4, Unmeasured: 4},
		200: {Cost: 4, IdleByActivity: 3, Unallocated: 1}, // images are pulled
		500: {Cost: 4, IdleByActivity: 3, Unallocated: 1}, // no requests
	} {
		if got := sums[second]; got.Cost != want.Cost || got.Unmeasured != want.Unmeasured || got.IdleByActivity != want.IdleByActivity ||
			got.Unallocated != want.Unallocated {
			t.Errorf("after %d s: %+v, want %+v", second, got, want)
		}
	}
}
