package evaluate

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The traffic lasts 20 minutes, and the SLO of the first workload allows a wait of 2 hours. Its requests therefore need not be served
// before the end of the run. Its bound must be reported as missing, not as $0. The sum of the bounds is then the bound of the second
// workload, and the field Relaxations of the sum names the first workload.
func TestWorkloadWithoutRequiredRequestsAddsNoBound(t *testing.T) {
	cases := pair(t, func(c *Case) { c.Bound = true })
	cases[0].SLO.Wait = 2 * time.Hour
	r := evaluateCases(t, cases)
	one, two, sum := r.Workloads[0].Bounds[1], r.Workloads[1].Bound(RequestBound), r.Bound(RequestBound)
	if !strings.Contains(one.Problem, "no request must be served before the end") || two == nil || sum == nil ||
		sum.Lower != two.Lower || !(sum.Lower > 0) {
		t.Fatalf("%+v and %+v sum up to %+v", one, two, sum)
	}
	if text := strings.Join(sum.Relaxations, "\n"); !strings.Contains(text, "no bound for team/chat: no request must be served") {
		t.Error(text)
	}
	if alone := evaluateCase(t, cases[0]); alone.Bound(RequestBound) != nil || alone.Runs[0].CostOverRequest != nil {
		t.Errorf("alone: %+v", alone.Bounds)
	}
}

// The cold start of 5 s requires short slots, and the traffic of 28 hours has more of them than maxSlots. The request-level bound is then
// computed by lowerbound.Work, which does not include the cost of starts and of idle time.
func TestTooManySlotsFallBackToTheWorkBound(t *testing.T) {
	p, _ := trace.Preset("flat")
	p.Duration, p.Seed, p.Rate = 28*time.Hour, 3, 0.01
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	r := evaluateCase(t, small(t, func(c *Case) {
		c.Traffic, c.ColdStart, c.Bound, c.Initial = tr, 0, true, 1
		c.Policy = chat(func(p *scaling.Policy) { p.MaxReplicas = 2 })
		onNodes(c)
	}))
	b := r.Bound(RequestBound)
	if b == nil || !(b.Lower > 0) || !strings.Contains(strings.Join(b.Relaxations, "\n"), "was not computed: the shortest cold start of 5s") {
		t.Fatalf("%+v", r.Bounds)
	}
	if fluid := r.Bound(FluidBound); b.Lower > fluid.Lower {
		t.Errorf("the work alone costs %v, with starts and idle time %v", b.Lower, fluid.Lower)
	}
}
