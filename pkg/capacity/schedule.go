package capacity

import (
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// schedule requests the values of the group's open schedules. A limit is used as configured even if it is below what runs, because
// Karpenter does not remove nodes to meet a limit.
func (t *tick) schedule() {
	for i := range t.g.Schedules {
		w := &t.g.Schedules[i]
		open, until := w.Window.At(t.now)
		if !open {
			continue
		}
		t.because(explain.Reason{Rule: explain.RuleSchedule, Pool: -1, Name: w.Window.Name, Until: until})
		if len(w.Pools) == 0 {
			for pool := range t.views() {
				t.applySchedule(w, pool)
			}
		}
		for _, pool := range w.Pools {
			if pool < t.views() {
				t.applySchedule(w, pool)
			}
		}
	}
	t.measureRoom()
}

func (t *tick) applySchedule(w *Schedule, pool int) {
	for _, l := range w.Limits {
		if f, ok := t.s.limit(l.Resource); ok {
			t.requestNumber(pool, f, l.Value, explain.RuleSchedule)
		}
	}
	if w.Weight > 0 {
		t.requestNumber(pool, nodepool.FieldWeight, int64(w.Weight), explain.RuleSchedule)
	}
	if w.ConsolidateAfter != "" {
		t.request(pool, nodepool.FieldConsolidateAfter, nodepool.FieldConsolidateAfter.Text(w.ConsolidateAfter), explain.RuleSchedule)
	}
	if w.ConsolidationPolicy != "" {
		t.request(pool, nodepool.FieldConsolidationPolicy, nodepool.FieldConsolidationPolicy.Text(w.ConsolidationPolicy), explain.RuleSchedule)
	}
}
