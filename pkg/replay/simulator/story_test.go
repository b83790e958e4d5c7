package simulator

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// burst is traffic that begins after ten minutes and ends ten minutes later.
func burst(t testing.TB, rate float64) *trace.Trace {
	return generate(t, "flat", time.Hour, func(p *trace.Profile) {
		p.Rate = rate
		p.Idle = []trace.Hours{{From: 20 * time.Minute, To: 10 * time.Minute}}
	})
}

func TestBurstFromZeroAndBackToZero(t *testing.T) {
	w := Workload{Policy: chat("chat", nil), Traffic: burst(t, 3), Service: Chat8B}
	c := Config{Seed: 1, Assumptions: exact(), Workloads: []Workload{w},
		NodePools: []karpenter.NodePool{nodePool("od", karpenter.OnDemand, 4, 8, 0)}}
	c.NodePools[0].ConsolidateAfter = time.Minute
	woke, ready, zero := 0, 0, 0
	r := watch(t, c, time.Hour, func(w *Simulator, s int) {
		l := w.loads[0]
		if s <= 600 && l.target != 0 {
			t.Errorf("at %d s, before any request, the target is %d", s, l.target)
		}
		if woke == 0 && l.target > 0 {
			woke = s
		}
		if ready == 0 && l.ready > 0 {
			ready = s
		}
		if s > 1200 && zero == 0 && l.target == 0 {
			zero = s
		}
	})
	// The first replica is requested after at most a scrape interval (15 s), the scrape lag (1 s), a poll interval (15 s) and a tick. It is
	// ready after one second of batching and the cold start of five minutes.
	if woke < 600 || woke > 600+15+1+15+2 {
		t.Errorf("the first replica was requested at %d s", woke)
	}
	if ready < woke+301 || ready > woke+303 {
		t.Errorf("the first replica was requested at %d s and ready at %d s", woke, ready)
	}
	if zero < 1200+300 || zero > 1200+300+120 {
		t.Errorf("the last request is at 1200 s, the cooldown is 300 s, and the target is zero at %d s", zero)
	}
	if l := r.Loads[0]; l.Served != l.Arrived || l.OnTime > 0.7 || l.Max < 300*time.Second {
		t.Errorf("%d of %d served, %.0f%% on time, longest wait %s: the first request waits for the cold start",
			l.Served, l.Arrived, 100*l.OnTime, l.Max)
	}
	if len(r.Series.Loads[0].Target) != 60 || r.Series.Loads[0].Target[59] != 0 {
		t.Errorf("the series has %d minutes", len(r.Series.Loads[0].Target))
	}
}

func TestLoadingReplicasDoNotIncreaseTheTarget(t *testing.T) {
	w := Workload{Policy: chat("chat", nil), Traffic: burst(t, 3), Service: Chat8B}
	peak := int32(0)
	watch(t, Config{Seed: 1, Assumptions: exact(), Workloads: []Workload{w}}, 10*time.Minute+290*time.Second,
		func(w *Simulator, _ int) { peak = max(peak, w.loads[0].target) })
	// 870 requests wait when the first replica is almost ready. With a target of 4 requests per replica, they need more than the 12 replicas
	// that maxReplicas allows. With the lower traffic in the second run, about three requests wait, and one replica is enough.
	if peak > 12 {
		t.Errorf("the highest target is %d", peak)
	}
	w.Traffic = burst(t, 0.01)
	peak = 0
	watch(t, Config{Seed: 1, Assumptions: exact(), Workloads: []Workload{w}}, 10*time.Minute+290*time.Second,
		func(w *Simulator, _ int) { peak = max(peak, w.loads[0].target) })
	if peak != 1 {
		t.Errorf("%d replicas were started for three requests while the first one loads", peak)
	}
}

func TestMissingMetricsDoNotLowerTheTarget(t *testing.T) {
	for _, cause := range []scaling.Cause{scaling.CauseUnreachable, scaling.CauseEmpty, scaling.CauseTruncated} {
		w := Workload{Policy: chat("chat", nil), Traffic: burst(t, 3), Service: Chat8B, Initial: 5}
		c := Config{Seed: 1, Assumptions: exact(), Workloads: []Workload{w},
			Faults: []Fault{{From: 18 * time.Minute, To: 50 * time.Minute, Cause: cause}}}
		var before int32
		r := watch(t, c, time.Hour, func(w *Simulator, s int) {
			l := w.loads[0]
			switch {
			case s == 18*60+10:
				before = l.target
			case s > 18*60+10 && s < 50*60 && l.target < before:
				t.Fatalf("cause %d: at %d s, 30 minutes without metrics, %d became %d", cause, s, before, l.target)
			case s == 59*60 && l.target != 0:
				t.Errorf("cause %d: nine minutes after the metrics are available again and without requests, the target is %d", cause, l.target)
			}
		})
		if r.Ledger[ledger.Held] == 0 {
			t.Errorf("cause %d: the ledger has no held replicas", cause)
		}
	}
}

func TestOneMissingSignalDoesNotStopTheOthers(t *testing.T) {
	w := Workload{Policy: chat("chat", nil), Traffic: burst(t, 3), Service: Chat8B}
	c := Config{Seed: 1, Assumptions: exact(), Workloads: []Workload{w}, Faults: []Fault{{Signal: "running", From: 0, To: time.Hour}}}
	if r := watch(t, c, time.Hour, nil); r.Loads[0].Served != r.Loads[0].Arrived || r.Loads[0].AtZero == 0 {
		t.Errorf("%+v", r.Loads[0])
	}
}

func TestPartialCoverageDoesNotLowerTheTarget(t *testing.T) {
	p := chat("chat", func(p *scaling.Policy) {
		p.MinReplicas, p.Signals[1].Optional, p.Signals[1].MinCoverage = 1, false, 0.8
		p.ScaleDown.StabilizationWindow = 0
	})
	w := Workload{Policy: p, Traffic: generate(t, "flat", time.Hour, func(p *trace.Profile) { p.Rate = 4 }), Service: Chat8B, Initial: 6}
	c := Config{Seed: 1, Assumptions: exact(), Workloads: []Workload{w},
		Faults: []Fault{{Signal: "running", From: 20 * time.Minute, To: 40 * time.Minute, Share: 0.5}}}
	var before int32
	watch(t, c, 45*time.Minute, func(w *Simulator, s int) {
		l := w.loads[0]
		switch {
		case s == 20*60+10:
			before = l.target
			if r := l.meter.readings[1]; r.Coverage > 0.6 || !r.Known {
				t.Errorf("half of the pods report nothing, and the reading is %+v", r)
			}
		case s > 20*60+10 && s < 40*60 && l.target < before:
			t.Fatalf("at %d s %d became %d with half of the pods", s, before, l.target)
		}
	})
}

func TestScheduleMinimumIsReadyOnTime(t *testing.T) {
	office, err := baseline.NewCron("Europe/Berlin", "0 8 * * *", "0 9 * * *", 0)
	if err != nil {
		t.Fatal(err)
	}
	p := chat("chat", func(p *scaling.Policy) {
		p.Schedules = []scaling.Schedule{{Window: office.Window, Min: 3, Max: -1}}
	})
	c := Config{Start: time.Date(2026, 11, 2, 6, 0, 0, 0, time.UTC), Assumptions: exact(), Workloads: []Workload{{Policy: p}}}
	r := watch(t, c, 4*time.Hour, func(w *Simulator, s int) {
		l := w.loads[0]
		if s < 3600 && l.target != 0 {
			t.Errorf("at %d s it is before 08:00 in Berlin, and the target is %d", s, l.target)
		}
		if s == 3640 && l.target != 3 {
			t.Errorf("at 08:00:40 in Berlin the target is %d: the activator starts one replica at once, the next sync of the HPA three", l.target)
		}
	})
	if got := r.Ledger[ledger.ScheduleFloor]; got < 3*54*time.Minute || got > 3*time.Hour {
		t.Errorf("the schedule kept GPUs for %s, want three for one hour minus the cold start", got)
	}
}

func TestEngineObservesTheSimulatedReplicas(t *testing.T) {
	var seen []engine.Record
	c := Config{Seed: 1, Assumptions: exact(),
		Workloads: []Workload{{Policy: chat("chat", nil), Traffic: burst(t, 3), Service: Chat8B, GPUs: 2}},
		Engine:    engine.Options{OnTransition: func(r engine.Record) { seen = append(seen, r) }}}
	watch(t, c, time.Hour, nil)
	if len(seen) < 5 {
		t.Fatalf("%d transitions in an hour with a burst", len(seen))
	}
	last := seen[len(seen)-1]
	if last.View.GPUs != 2 || last.View.ManagedHPA.Kind != "HorizontalPodAutoscaler" || last.View.MinReplicas != -1 {
		t.Errorf("the engine observed %+v", last.View)
	}
	if last.Readings[0].At.IsZero() || !last.Readings[0].Known {
		t.Errorf("the last readings were %+v", last.Readings)
	}
}

func TestKEDAScalesFromZeroByPushAndToZeroByPoll(t *testing.T) {
	p := chat("chat", nil)
	p.Workload.Activate = false // KEDA scales from zero
	woke, zero, decidedZero := 0, 0, 0
	watch(t, Config{Seed: 1, Assumptions: exact(),
		Workloads: []Workload{{Policy: p, Traffic: burst(t, 3), Service: Chat8B}}}, time.Hour, func(w *Simulator, s int) {
		d, _ := w.engine.Decisions().Decision(w.loads[0].key)
		if woke == 0 && w.loads[0].target > 0 {
			woke = s
		}
		if s > 1200 && decidedZero == 0 && d.Replicas == 0 {
			decidedZero = s
		}
		if s > 1200 && zero == 0 && w.loads[0].target == 0 {
			zero = s
		}
	})
	if woke < 600 || woke > 625 {
		t.Errorf("KEDA scaled from zero at %d s after the push", woke)
	}
	if zero < decidedZero || zero > decidedZero+31 {
		t.Errorf("the target was zero at %d s and KEDA scaled at %d s, want its next poll", decidedZero, zero)
	}
}

func TestBaselinesOnTheSameBurst(t *testing.T) {
	spec := hpa.Spec{Min: 1, Max: 12, Behavior: hpa.DefaultBehavior()}
	run := func(m autoscaler.Factory, initial int32) *Result {
		w := Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Actuator: m, Traffic: burst(t, 3), Service: Chat8B, Initial: initial}
		return watch(t, Config{Seed: 1, Assumptions: exact(), Workloads: []Workload{w}}, time.Hour, nil)
	}
	peak := run(baseline.Static(6), 6)
	if l := peak.Loads[0]; l.OnTime != 1 || peak.Paid != 6*time.Hour || peak.Ledger[ledger.Minimum]+peak.Ledger[ledger.Serving] != peak.Paid ||
		l.ScaleUps != 0 {
		t.Errorf("static: %.3f on time, paid %s, %v", l.OnTime, peak.Paid, peak.Ledger)
	}
	queue := run(baseline.HPAOnQueue(spec, 4), 1)
	if l := queue.Loads[0]; l.AtZero != 0 || l.ReplicaStarts < 11 || l.Served != l.Arrived {
		t.Errorf("HPA on the queue: %+v; the queue during a cold start raises it to its maximum", l)
	}
	busy := run(baseline.HPAOnActivity(spec, 0.7), 1)
	if l := busy.Loads[0]; l.AtZero != 0 || l.ReplicaStarts < 2 {
		t.Errorf("HPA on utilization: %+v", l)
	}
	keda := baseline.KEDA{Max: 12, Triggers: []baseline.KEDATrigger{{Measure: measure.Queue, Target: 4}}}
	zero := run(keda.NewActuator, 0)
	if l := zero.Loads[0]; l.AtZero < 20*time.Minute || l.Served != l.Arrived {
		t.Errorf("KEDA: %+v", l)
	}
	cron, err := baseline.NewCron("UTC", "3 0 * * *", "25 0 * * *", 5)
	if err != nil {
		t.Fatal(err)
	}
	keda.Cron = []baseline.CronTrigger{cron}
	warm := run(keda.NewActuator, 0)
	if l := warm.Loads[0]; l.OnTime < 0.99 || l.OnTime <= zero.Loads[0].OnTime {
		t.Errorf("KEDA with a cron trigger seven minutes ahead: %.3f on time, without %.3f", l.OnTime, zero.Loads[0].OnTime)
	}
	if warm.Ledger[ledger.ScheduleFloor] == 0 {
		t.Errorf("the ledger has no time for the schedule: %v", warm.Ledger)
	}
}

func TestHPAKeepsReplicasWithoutMetrics(t *testing.T) {
	w := Workload{Key: scaling.Key{Name: "chat"}, Actuator: baseline.HPAOnQueue(hpa.Spec{Min: 1, Max: 12}, 4), Initial: 7}
	watch(t, Config{Workloads: []Workload{w}, Faults: []Fault{{From: 0, To: time.Hour}}}, time.Hour, func(w *Simulator, s int) {
		if w.loads[0].target != 7 {
			t.Fatalf("at %d s it desires %d", s, w.loads[0].target)
		}
	})
}

func TestPlanIsFollowedExactly(t *testing.T) {
	watch(t, Config{Workloads: []Workload{plan("a", at(0, 1), at(90, 4), at(91, 2))}}, 2*time.Minute, func(w *Simulator, s int) {
		want := int32(1)
		if s >= 90 {
			want = 4
		}
		if s >= 91 {
			want = 2
		}
		if w.loads[0].target != want {
			t.Errorf("at %d s: %d", s, w.loads[0].target)
		}
	})
}

func TestInvalidConfigurationsAreRejected(t *testing.T) {
	strange := chat("chat", nil)
	strange.Sources = []policy.Source{{Type: policy.SourcePrometheus}, {Type: policy.SourceVLLM, Metric: "interTokenLatency"}}
	limit := int64(0)
	blocked := nodePool("od", karpenter.OnDemand, 2, 1, 0)
	blocked.Limit = &limit
	big := plan("big", at(0, 1))
	big.GPUs = 8
	elsewhere := plan("a", at(0, 1))
	elsewhere.Pools = []string{"h100"}
	for name, c := range map[string]Config{
		"an unknown metric":              {Workloads: []Workload{{Policy: strange}}},
		"no policy and no baseline":      {Workloads: []Workload{{Key: scaling.Key{Name: "a"}}}},
		"two of one name":                {Workloads: []Workload{plan("a"), plan("a")}},
		"no name":                        {Workloads: []Workload{{Actuator: baseline.Static(1)}}},
		"a replica larger than any node": {Workloads: []Workload{big}, NodePools: []karpenter.NodePool{blocked}},
		"a pool that is not there":       {Workloads: []Workload{elsewhere}, NodePools: []karpenter.NodePool{blocked}},
		"a pool without GPUs":            {NodePools: []karpenter.NodePool{{Name: "a"}}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}

// Six requests per second arrive for one hour. Five replicas can serve them. Each baseline begins with one replica. At the end, half an
// hour has no requests, so that each baseline can scale down.
func TestBaselinesServeTrafficAndScaleDown(t *testing.T) {
	population := generate(t, "flat", time.Hour, func(p *trace.Profile) { p.Rate = 6 })
	for _, r := range baseline.All() {
		if r.Name != "knative" && r.Name != "llm-d-wva" && r.Name != "skyserve" {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			got := run(t, Config{Seed: 1, Workloads: []Workload{{Key: scaling.Key{Namespace: "peers", Name: r.Name},
				Actuator: r.Default(baseline.Bounds{Min: 1, Max: 12}),
				Service:  Chat8B, Initial: 1, Traffic: population}}}, time.Hour+30*time.Minute)
			l := &got.Loads[0]
			if l.Served < l.Arrived*99/100 || l.ReplicaStarts < 4 {
				t.Errorf("%d of %d served, %d replicas started", l.Served, l.Arrived, l.ReplicaStarts)
			}
			if l.ScaleDowns == 0 {
				t.Error("no replica was removed in half an hour without requests")
			}
		})
	}
}
