package capacity

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

func TestOverridesAreListedUntilRestored(t *testing.T) {
	c := newCluster(t, func(g *Group) { g.ZeroLimit = true })
	var s State
	if overrides := s.Overrides(nil); len(overrides) != 0 {
		t.Errorf("before the first tick: %+v", overrides)
	}
	c.run(10 * time.Minute)
	overrides := c.s.Overrides(nil)
	if len(overrides) != 2 {
		t.Fatalf("with a zero limit: %+v", overrides)
	}
	n := overrides[0]
	if n.Pool != "l40s-spot" || n.Name() != "limits[nvidia.com/gpu]" || n.Value != `"0"` || n.Original != "16" || n.Owner != "kubectl" ||
		n.Rule != explain.RuleZeroLimit || n.Releasing || n.Since.IsZero() || !n.Until.IsZero() {
		t.Errorf("the zero limit is shown as %+v", n)
	}
	c.ahead = []Span{{From: c.now.Add(30 * time.Second), Until: c.now.Add(time.Hour), GPUs: 2}}
	c.run(time.Minute)
	overrides = c.s.Overrides(nil)
	if len(overrides) != 2 || overrides[0].Field != nodepool.FieldBudgets || overrides[0].Until.Before(c.now) {
		t.Errorf("before a peak, zero limits removed: %+v", overrides)
	}
}
