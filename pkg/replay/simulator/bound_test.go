package simulator

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
	"github.com/gpuscaler/gpuscaler/pkg/replay/lowerbound"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// The simulated runs and the lower bound use the same settings. Each cold start takes one minute, and no request is interrupted.
const (
	slot    = 10 * time.Second
	cold    = time.Minute
	horizon = time.Hour
	price   = 3.6
)

func comparable(seed uint64, m autoscaler.Factory, tr *trace.Trace) Config {
	a := DefaultAssumptions()
	for _, phase := range []*reproducible.Spread{&a.NodeLaunch, &a.GPUReady, &a.ImagePull, &a.ModelLoad} {
		*phase = reproducible.Fixed(cold / 4)
	}
	a.TerminationGrace = time.Hour
	return Config{Seed: seed, Assumptions: &a, Fleet: karpenter.Fleet{HourlyPerGPU: price}, Resolution: -1, Workloads: []Workload{
		{Key: scaling.Key{Name: "chat"}, Actuator: m, Traffic: tr, Service: Chat8B, Initial: 2},
	}}
}

func requests(t *testing.T, tr *trace.Trace) (out []lowerbound.Request) {
	t.Helper()
	for r := range tr.All() {
		takes := Chat8B.Takes(r)
		out = append(out, lowerbound.Request{At: r.At, Work: takes / time.Duration(Chat8B.Slots), Service: takes})
	}
	return out
}

func solve(t *testing.T, p lowerbound.Problem, err error) lowerbound.Interval {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	i, err := lowerbound.Solve(p, lowerbound.Options{MaxSolves: 20, MemoryBytes: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestNoRunCostsLessThanTheRequestLevelBound(t *testing.T) {
	spec := hpa.Spec{Min: 1, Max: 8, Behavior: hpa.DefaultBehavior()}
	quick := *hpa.DefaultBehavior()
	quick.Down.StabilizationWindow = 0
	for name, m := range map[string]autoscaler.Factory{
		"static": baseline.Static(4), "activity": baseline.HPAOnActivity(spec, 0.9),
		"queue": baseline.HPAOnQueue(hpa.Spec{Min: 1, Max: 8, Behavior: &quick}, 10),
		"keda": baseline.KEDA{Max: 8, Cooldown: -1, Behavior: &quick,
			Triggers: []baseline.KEDATrigger{{Measure: measure.InSystem, Target: 7}}}.NewActuator,
	} {
		for seed := range uint64(3) {
			tr := generate(t, []string{"flat", "spikes", "bursty"}[seed], horizon, func(p *trace.Profile) { p.Rate, p.Seed = 1.5, seed })
			r := run(t, comparable(seed, m, tr), horizon)
			late := 1 - r.Loads[0].OnTime + 1e-9
			setup := lowerbound.Setup{TimeSlot: slot, Horizon: horizon, ColdStart: cold, Wait: r.Loads[0].Limit, LateShare: late, MaxReplicas: 16,
				InitialReplicas: 2, HourlyPrice: price}
			log := requests(t, tr)
			best := 0.0
			for _, cut := range lowerbound.Cuts(log) {
				p, err := lowerbound.RequestLevel(log, setup, cut)
				best = max(best, solve(t, p, err).LB)
			}
			if r.Cost < best {
				t.Errorf("%s, seed %d: it cost $%.3f with %.2f%% late; the lower bound is $%.3f", name, seed, r.Cost, 100*late, best)
			}
			t.Logf("%s, seed %d: $%.2f with %.2f%% late is %.2f times the bound", name, seed, r.Cost, 100*late, r.Cost/best)
		}
	}
}

func TestClairvoyantScheduleRunsInTheSimulator(t *testing.T) {
	tr := generate(t, "flat", horizon, func(p *trace.Profile) {
		p.Rate, p.Bursts = 1.2, trace.Bursts{Every: 12 * time.Minute, Length: 3 * time.Minute, Factor: 3}
	})
	log := requests(t, tr)
	setup := lowerbound.Setup{TimeSlot: slot, Horizon: horizon, ColdStart: cold, Wait: 10 * time.Second, LateShare: 0.01, MaxReplicas: 16,
		InitialReplicas: 2, HourlyPrice: price}
	p, err := lowerbound.Fluid(log, setup)
	fluid := solve(t, p, err)
	r := run(t, comparable(1, baseline.Planned(baseline.PlanOf(fluid.Schedule, slot, cold)), tr), horizon)
	if ratio := r.Cost / fluid.UB; !(ratio >= 0.97 && ratio <= 1.1) {
		t.Errorf("the schedule costs $%.3f in the fluid model and $%.3f in the simulator", fluid.UB, r.Cost)
	}
	within := r.Loads[0].Waits.Quantile(0.98)
	if within > setup.Wait+2*slot {
		t.Errorf("2%% of the requests wait longer than %s: a slot more or two is the price of slots", within)
	}
	t.Logf("UB $%.3f, in the simulator $%.3f; p99 %s, on time %.2f%%, ready %.1f h",
		fluid.UB, r.Cost, r.Loads[0].P99, 100*r.Loads[0].OnTime, r.Paid.Hours())
}
