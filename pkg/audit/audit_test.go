package audit

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/evaluate"
	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

var objective = evaluate.SLO{Share: 0.99, Wait: slo}

func cron(t testing.TB, start, end string, desired int32) baseline.CronTrigger {
	t.Helper()
	c, err := baseline.NewCron("UTC", start, end, desired)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func behavior(window time.Duration) *hpa.Behavior {
	b := hpa.DefaultBehavior()
	b.Down.StabilizationWindow = window
	return b
}

// stories returns, for each cause of waste, a workload whose autoscaler has the settings that cause this waste.
func stories(t testing.TB) map[Cause]autoscaled {
	t.Helper()
	queue := func(target float64) []baseline.KEDATrigger {
		return []baseline.KEDATrigger{{Measure: measure.InSystem, Target: target}}
	}
	return map[Cause]autoscaled{
		Floor: {name: "fleet", preset: "office", rate: 1.5, actuator: baseline.Static(9), initial: 9, slots: 8,
			autoscaler: Autoscaler{Kind: "HorizontalPodAutoscaler", Name: "fleet", Min: 9, Max: 9, Cooldown: 300,
				Metrics: []string{"Resource cpu"}}},
		Schedules: {name: "cron", preset: "office", rate: 0.6, initial: 1, slots: 8,
			actuator: baseline.KEDA{Min: 1, Max: 12, Triggers: queue(6),
				Cron: []baseline.CronTrigger{cron(t, "0 6 * * *", "0 22 * * *", 9)}}.NewActuator,
			autoscaler: Autoscaler{Kind: "ScaledObject", Name: "cron", Min: 1, Max: 12, Cooldown: 300,
				Metrics:   []string{"prometheus queue", "cron"},
				Schedules: []Schedule{{Timezone: "UTC", Start: "0 6 * * *", End: "0 22 * * *", Replicas: 9}}}},
		Cooldown: {name: "slow", preset: "bursty", rate: 1, initial: 2, slots: 8,
			actuator:   baseline.KEDA{Min: 1, Max: 12, Triggers: queue(6), Behavior: behavior(time.Hour)}.NewActuator,
			autoscaler: Autoscaler{Kind: "ScaledObject", Name: "slow", Min: 1, Max: 12, Cooldown: 3600, Metrics: []string{"prometheus queue"}}},
		WrongMetric: {name: "activity", preset: "office", rate: 1, initial: 2, slots: 8,
			actuator: baseline.HPAOnActivity(hpa.Spec{Min: 1, Max: 12}, 0.35),
			autoscaler: Autoscaler{Kind: "HorizontalPodAutoscaler", Name: "activity", Min: 1, Max: 12, Cooldown: 300,
				Metrics: []string{"Pods DCGM_FI_DEV_GPU_UTIL"}}},
	}
}

// fromZero is a workload with a request every five minutes. Its replica is removed after three minutes without a request. Most requests
// start a replica, and are the first request that this replica serves.
func fromZero(t testing.TB) autoscaled {
	t.Helper()
	queue := []baseline.KEDATrigger{{Measure: measure.InSystem, Target: 6}}
	return autoscaled{name: "rare", preset: "flat", rate: 1.0 / 300, slots: 8,
		actuator:   baseline.KEDA{Max: 4, Triggers: queue, Cooldown: 3 * time.Minute}.NewActuator,
		autoscaler: Autoscaler{Kind: "ScaledObject", Name: "rare", Max: 4, Cooldown: 180, Metrics: []string{"prometheus queue"}}}
}

// closeTo reports an error if a differs from b by more than 2% of whole.
func closeTo(t *testing.T, what string, a, b, whole float64) {
	t.Helper()
	if math.IsNaN(a) || math.Abs(a-b) > 0.02*whole {
		t.Errorf("%s: the audit computes %.4g, the simulator recorded %.4g (%.2f%% of %.4g)", what, a, b, 100*(a-b)/whole, whole)
	}
}

// The simulator's ledger records the cause of every GPU second. The audit must find the same causes from the metrics that a Prometheus
// server would have stored.
func TestAuditAgreesWithWhatTheSimulatorRecorded(t *testing.T) {
	for cause, a := range stories(t) {
		t.Run(cause.String(), func(t *testing.T) {
			const length = 24 * time.Hour
			s, truth := simulated(t, length, time.Minute, nil, a)
			r, err := Run(context.Background(), s, Options{SLO: objective, Replay: -1})
			if err != nil {
				t.Fatal(err)
			}
			l := &r.Workloads[0]
			paid := truth.Paid.Hours()
			closeTo(t, "cost", *r.Total.Cost, monthly(truth.Cost, length.Hours()), monthly(truth.Cost, length.Hours()))
			closeTo(t, "paid GPU hours", r.Total.GPUHours, paid, paid)
			closeTo(t, "served share", *r.Total.Served, truth.Ledger[ledger.Serving].Hours()/paid, 1)
			closeTo(t, "SLO", *l.OnTime, truth.Loads[0].OnTime, 1)
			closeTo(t, "SLO of all", *r.Total.OnTime, truth.Loads[0].OnTime, 1)
			if *l.MeetsSLO != (truth.Loads[0].OnTime >= objective.Share) || *r.Total.MeetsSLO != *l.MeetsSLO {
				t.Errorf("meets the SLO: %t, of all %t, recorded share %.4f", *l.MeetsSLO, *r.Total.MeetsSLO, truth.Loads[0].OnTime)
			}
			idle := truth.Ledger.Idle().Hours()
			closeTo(t, "waste", r.Total.Ledger.Waste(), idle, idle)
			closeTo(t, "start", l.Ledger[Start], (truth.Ledger[ledger.Loading] + truth.Ledger[ledger.Draining]).Hours(), paid)
			nodes := truth.Ledger[ledger.Launching] + truth.Ledger[ledger.Empty] + truth.Ledger[ledger.Terminating] +
				truth.Ledger[ledger.Fragmentation]
			closeTo(t, "free nodes", r.Total.Ledger[NodeChange]+r.Total.Ledger[StuckNode], nodes.Hours(), paid)
			if r.Waste[0].Cause != cause {
				t.Errorf("the largest waste is %s, want %s\n%+v", r.Waste[0].Cause, cause, l.Ledger)
			}
			switch cause { // for these causes, the audit and the simulator use the same rule
			case Floor:
				minimum := truth.Ledger[ledger.Minimum] + truth.Ledger[ledger.Headroom]
				closeTo(t, "floor", l.Ledger[Floor]+l.Ledger[Headroom], minimum.Hours(), paid)
			case Schedules:
				closeTo(t, "schedule", l.Ledger[Schedules], truth.Ledger[ledger.ScheduleFloor].Hours(), paid)
			}
		})
	}
}

// The cost of a node that keeps running without a pod is waste of the NodePool, not of the workload.
func TestFreeNodesAreStuck(t *testing.T) {
	const length = 12 * time.Hour
	pool := karpenter.NodePool{Name: "l40s", CapacityType: karpenter.OnDemand, InstanceType: "g6e.xlarge", GPUs: 1, Hourly: hourly,
		ConsolidateAfter: karpenter.Never}
	a := autoscaled{name: "day", preset: "flat", rate: 1, initial: 6, slots: 8, pools: []string{"l40s"},
		actuator:   baseline.Planned([]baseline.Step{{At: 0, Replicas: 6}, {At: 2 * time.Hour, Replicas: 2}}),
		autoscaler: Autoscaler{Kind: "ScaledObject", Name: "day", Min: 1, Max: 6, Cooldown: 300}}
	s, truth := simulated(t, length, time.Minute, []karpenter.NodePool{pool}, a)
	r, err := Run(context.Background(), s, Options{SLO: objective, Replay: -1})
	if err != nil {
		t.Fatal(err)
	}
	empty := truth.Ledger[ledger.Empty].Hours()
	if empty < 30 {
		t.Fatalf("the simulator recorded only %.1f GPU hours of empty nodes", empty)
	}
	closeTo(t, "stuck nodes", r.Total.Ledger[StuckNode], empty, empty)
	closeTo(t, "cost", *r.Total.Cost, monthly(truth.Cost, length.Hours()), monthly(truth.Cost, length.Hours()))
	if w := r.Waste[0]; w.Cause != StuckNode || w.Of != "nodes l40s" {
		t.Errorf("the largest waste is %+v, want the nodes of the pool", w)
	}
}

// Missing data counts neither as idle GPUs nor as a cost of 0: the cost per month must not change, and the report must list the missing
// data.
func TestGapsAreNotZero(t *testing.T) {
	story := stories(t)[Floor]
	story.preset = "flat"
	whole, _ := simulated(t, 6*time.Hour, time.Minute, nil, story)
	gaps, _ := simulated(t, 6*time.Hour, time.Minute, nil, story)
	for i := 60; i < 120; i++ {
		for _, v := range append(gaps.Workloads[0].lists(), gaps.Workloads[0].heldLists()...) {
			if len(*v) == 0 {
				continue // the snapshot of this workload does not contain this series
			}
			(*v)[i] = []float64{math.NaN(), math.Inf(1), -1}[i%3]
		}
	}
	run := func(s *Snapshot) *Report {
		r, err := Run(context.Background(), s, Options{SLO: objective, Replay: -1})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := run(whole), run(gaps)
	closeTo(t, "cost with gaps", *b.Workloads[0].Cost, *a.Workloads[0].Cost, *a.Workloads[0].Cost)
	if b.Workloads[0].Measured > 0.85 || !missing(b, "the history has gaps") {
		t.Errorf("measured share %v, missing %+v", b.Workloads[0].Measured, b.Missing)
	}
	lost := *whole
	lost.Workloads = []Workload{whole.Workloads[0]}
	lost.Workloads[0].Held, lost.Workloads[0].Running, lost.Workloads[0].OnTime = nil, nil, nil
	lost.Pools = nil
	c := run(&lost)
	if l := c.Workloads[0]; l.Cost != nil || l.Served != nil || l.OnTime != nil || c.Total.Cost != nil {
		t.Errorf("without data the audit returns %+v", l.Figures)
	}
	for _, why := range []string{"the GPUs of its pods are unknown", "the waits of its requests are unknown"} {
		if !missing(c, why) {
			t.Errorf("the report does not list %q: %+v", why, c.Missing)
		}
	}
	lost.Workloads[0].Held, lost.Pools = whole.Workloads[0].Held, []Pool{{Name: "gpu", GPUs: whole.Pools[0].GPUs}}
	if d := run(&lost); d.Workloads[0].Cost != nil || d.Workloads[0].GPUHours == 0 || d.Workloads[0].Ledger.Waste() != 0 ||
		!missing(d, "the price of a node is unknown") || !missing(d, "neither running requests") {
		t.Errorf("without prices and use: %+v %+v", d.Workloads[0].Figures, d.Missing)
	}
}

func missing(r *Report, why string) bool {
	return slices.ContainsFunc(r.Missing, func(g Gap) bool { return strings.Contains(g.Why, why) })
}

func TestNoWorkloadsIsReported(t *testing.T) {
	s := &Snapshot{Schema: SnapshotSchema, From: midnight, Step: 60, Steps: 60, Wait: 10}
	r, err := Run(context.Background(), s, Options{SLO: objective})
	if err != nil || len(r.Workloads) != 0 || !missing(r, "no HPA and no ScaledObject scales pods that request nvidia.com/gpu") {
		t.Errorf("%v %+v", err, r)
	}
}

// The lower bound of the cost is below the cost of every run that meets the SLO: the replay of gpuscaler and the current autoscaler.
func TestForecastIsBetweenBoundAndPresentCost(t *testing.T) {
	story := stories(t)[Floor]
	story.preset = "flat"
	s, truth := simulated(t, 6*time.Hour, time.Minute, nil, story)
	r, err := Run(context.Background(), s, Options{SLO: objective, ColdStart: 3 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	f := r.Workloads[0].Forecast
	if f == nil || f.Bound == nil || f.Measured == nil {
		t.Fatalf("no forecast: %+v", r.Missing)
	}
	if !f.MeetsSLO || !(0 < *f.Bound && *f.Bound < f.Cost && f.Cost < *f.Measured) {
		t.Errorf("bound %.0f, gpuscaler %.0f (meets the SLO: %t, %.4f on time), measured %.0f", *f.Bound, f.Cost, f.MeetsSLO, f.OnTime,
			*f.Measured)
	}
	closeTo(t, "replayed requests", float64(f.Requests), float64(truth.Loads[0].Arrived), float64(truth.Loads[0].Arrived))
}
