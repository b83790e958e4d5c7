package evaluate

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// onSlots returns a case of steady traffic of 6 requests per second, for replicas with the given number of slots, and a policy with one
// signal. The target is per replica.
func onSlots(t *testing.T, slots int, target float64, change func(*scaling.Policy, *Case)) Case {
	t.Helper()
	return small(t, func(c *Case) {
		p, _ := trace.Preset("flat")
		p.Duration, p.Rate, p.Seed = 20*time.Minute, 6, 3
		tr, err := trace.Generate(p)
		if err != nil {
			t.Fatal(err)
		}
		c.Traffic, c.Service = tr, simulator.Chat8B.WithSlots(slots)
		c.Policy = chat(func(p *scaling.Policy) {
			p.Signals[0].Target = target
			if change != nil {
				change(p, c)
			}
		})
	})
}

// A target of 6 is suitable for replicas with 8 slots. With 32 slots, the policy uses about four times the replicas that are necessary, so
// the report warns about the target of 6 and contains the cost of a target of 26. The report does not warn about a target of 26, or about a
// policy that misses its SLO.
func TestTargetFarBelowTheCapacityOfAReplicaIsReported(t *testing.T) {
	low := evaluateCase(t, onSlots(t, 32, 6, nil))
	if len(low.Warnings) != 1 || !strings.HasPrefix(low.Warnings[0],
		"signal load: its target of 6 requests in flight uses 19% of the 32 that a replica serves concurrently; a target of 26 would cost $") {
		t.Fatalf("warnings %q", low.Warnings)
	}
	advised := evaluateCase(t, onSlots(t, 32, 26, nil))
	if run := &advised.Runs[0]; !run.MeetsSLO || run.Cost > 0.6*low.Runs[0].Cost {
		t.Errorf("the advised target meets the SLO: %t, and costs $%.2f instead of $%.2f", run.MeetsSLO, run.Cost, low.Runs[0].Cost)
	}
	for name, r := range map[string]*Report{
		"a target of 26":     advised,
		"a target of 6 of 8": evaluateCase(t, onSlots(t, 8, 6, func(p *scaling.Policy, _ *Case) { p.MaxReplicas = 20 })),
		"a policy that misses its SLO": evaluateCase(t, onSlots(t, 32, 6, func(_ *scaling.Policy, c *Case) {
			c.SLO, c.Initial = SLO{Share: 1, Wait: time.Millisecond}, 1
		})),
	} {
		if len(r.Warnings) > 0 && strings.Contains(strings.Join(r.Warnings, "\n"), "would cost") {
			t.Errorf("%s: warnings %q", name, r.Warnings)
		}
	}
}

// With 128 slots, one replica serves 6 requests per second with a third of its slots. A GPU signal cannot lower two replicas to one,
// because each has a GPU activity of at least 50% while it serves any request.
func TestActivityThatKeepsTwoReplicasIsReported(t *testing.T) {
	gpu := func(p *scaling.Policy, c *Case) {
		p.Signals[0] = scaling.Signal{Name: "gpu", Type: "dcgm", Kind: scaling.Mean, Unit: scaling.Percent, Target: 0.85, MaxAge: time.Minute}
		c.Measures = map[string]measure.Measure{"gpu": measure.Activity}
	}
	for _, k := range []struct {
		slots  int
		target float64 // 0: no target, as in a policy with an objective
		want   string
	}{
		{128, 0.85, "signal gpu: a replica has at least 50% GPU activity while it serves any request (assumed), so " +
			"with a target of 85% this signal keeps two"},
		{8, 0.85, ""},
		{128, 0, ""},
	} {
		c := onSlots(t, k.slots, 6, func(p *scaling.Policy, c *Case) { gpu(p, c); p.Signals[0].Target = k.target })
		sources := []policy.Source{{Type: policy.SourceDCGM}}
		c.Policy.Sources = sources
		s := c.subject()
		if found := strings.Join(s.Warnings, "\n"); !strings.HasPrefix(found, k.want) || k.want == "" && found != "" {
			t.Errorf("%d slots: warnings %q, want %q", k.slots, found, k.want)
		}
	}
	c := onSlots(t, 128, 6, gpu)
	c.Policy.Sources, c.Initial = []policy.Source{{Type: policy.SourceDCGM}}, 2
	if r := evaluateCase(t, c); r.Runs[0].GPUHours < 2*20./60-0.02 {
		t.Errorf("%.2f GPU hours: the signal did lower two replicas to one, so the warning is wrong", r.Runs[0].GPUHours)
	}
}
