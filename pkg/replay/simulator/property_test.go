package simulator

import (
	"bytes"
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// anything generates a simulation with random features.
func anything(t *rapid.T) Config {
	seconds := func(name string, low, high int) time.Duration {
		return time.Duration(rapid.IntRange(low, high).Draw(t, name)) * time.Second
	}
	a := DefaultAssumptions()
	a.ModelLoad.Median, a.NodeLaunch.Median = seconds("load", 1, 100), seconds("launch", 30, 100)
	a.TerminationGrace, a.Pack = seconds("grace", 0, 60), rapid.Bool().Draw(t, "pack")
	c := Config{Seed: rapid.Uint64().Draw(t, "seed"), Assumptions: &a,
		Fleet: karpenter.Fleet{GPUs: rapid.Int32Range(0, 12).Draw(t, "fleet"), HourlyPerGPU: 2}}
	if rapid.Bool().Draw(t, "pools") {
		spot, od := nodePool("spot", karpenter.Spot, rapid.Int32Range(2, 8).Draw(t, "spot GPUs"), 3, 80),
			nodePool("od", karpenter.OnDemand, 4, 8, 20)
		spot.ConsolidateAfter, od.ConsolidateAfter = seconds("after", 0, 300), seconds("after", 0, 300)
		spot.Outages = []karpenter.Outage{{From: seconds("from", 0, 1000), To: seconds("to", 0, 2000)}}
		spot.Market = &spotmarket.Trace{Duration: 30 * time.Minute, Initial: 3, Events: []spotmarket.Event{
			{At: seconds("loss", 100, 900), Lost: rapid.IntRange(1, 3).Draw(t, "lost")}, {At: 16 * time.Minute, Added: 2}}}
		limit := int64(rapid.IntRange(0, 16).Draw(t, "limit"))
		od.Limit = &limit
		c.NodePools = []karpenter.NodePool{od, spot}
		if rapid.Bool().Draw(t, "group") {
			c.Groups = []*capacity.Group{anyGroup(t)}
		}
	}
	spec := hpa.Spec{Min: 1, Max: 9, Behavior: hpa.DefaultBehavior()}
	actuatorFactories := []autoscaler.Factory{baseline.Static(3), baseline.HPAOnActivity(spec, 0.7), baseline.HPAOnQueue(spec, 3),
		baseline.KEDA{Max: 8, Cooldown: 30 * time.Second,
			Triggers: []baseline.KEDATrigger{{Measure: measure.InSystem, Target: 6}}}.NewActuator, nil}
	for i := range rapid.IntRange(1, 3).Draw(t, "workloads") {
		w := Workload{
			Key: scaling.Key{Namespace: "team", Name: string(rune('a' + i))}, Service: Service{Slots: rapid.IntRange(1, 8).Draw(t, "slots"),
				Fixed: seconds("service", 1, 90)},
			GPUs: rapid.Int32Range(1, 2).Draw(t, "GPUs"), Initial: rapid.Int32Range(0, 3).Draw(t, "initial"),
		}
		if w.Actuator = rapid.SampledFrom(actuatorFactories).Draw(t, "actuator"); w.Actuator == nil {
			w.Policy = chat(w.Key.Name, nil)
			w.Policy.Workload.Group = "group"
		}
		p := trace.Profile{Duration: time.Hour, Seed: c.Seed + uint64(i), Rate: float64(rapid.IntRange(1, 50).Draw(t, "rate")) / 50, CV: 1.5,
			Bursts: trace.Bursts{Every: 10 * time.Minute, Length: time.Minute, Factor: 5}}
		var err error
		if w.Traffic, err = trace.Generate(p); err != nil {
			t.Fatal(err)
		}
		c.Workloads = append(c.Workloads, w)
	}
	return c
}

// anyGroup generates a capacity group with random settings that contains the spot and the on-demand NodePool. The overrides of the group
// must never set a limit below the current use.
func anyGroup(t *rapid.T) *capacity.Group {
	may := func(what string) bool { return rapid.Bool().Draw(t, what) }
	g, err := capacity.NewGroup(capacity.Group{
		Name: "group", Resource: "nvidia.com/gpu", Pools: []capacity.Pool{{Name: "spot", Type: capacity.Spot},
			{Name: "od", Type: capacity.OnDemand}},
		ZeroLimit: may("zero limit"), ConsolidationFreeze: may("freeze"), StartupShield: may("shield"), EmptyWholeNodes: may("packing"),
		Fallback:           capacity.FallbackMode(rapid.IntRange(0, 1).Draw(t, "fallback")),
		SpotWaitTimeout:    time.Duration(rapid.IntRange(0, 1).Draw(t, "wait")) * time.Minute,
		ReturnNodesPerHour: rapid.Int64Range(0, 60).Draw(t, "return"), OnDemandBase: rapid.Int64Range(0, 2).Draw(t, "base"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestSimulationInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anything(t)
		w, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		for w.Now() < 30*time.Minute {
			w.Step(context.Background())
			if w.ticks%5 == 0 {
				w.checkCounters(t)
			}
		}
		r := w.Result()
		for _, l := range r.Loads {
			if l.Arrived != l.Served+l.Running+l.Queued {
				t.Fatalf("%+v", l)
			}
		}
		if r.Ledger.Sum() != r.Paid {
			t.Fatalf("the causes add up to %s, %s were paid", r.Ledger.Sum(), r.Paid)
		}
		for cause, d := range r.Ledger {
			if d < 0 {
				t.Fatalf("%s is %s", ledger.Cause(cause), d)
			}
		}
		again, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Run(context.Background(), 30*time.Minute, nil); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(encode(r), encode(again.Result())) {
			t.Fatal("the same configuration has another result")
		}
	})
}

// checkCounters checks that the counters of workloads and pools agree with the states of the replicas and nodes.
func (w *Simulator) checkCounters(t *rapid.T) {
	for _, l := range w.loads {
		var waiting, loading, readies, running int32
		for _, r := range l.replicas {
			switch r.state {
			case pending:
				waiting++
			case pulling, starting:
				loading++
			case ready:
				readies++
				running += r.running
			default:
				t.Fatalf("a replica in state %d counts", r.state)
			}
		}
		if waiting != l.pending || loading != l.loading || readies != l.ready || running != l.running || int(l.target) != len(l.replicas) {
			t.Fatalf("%s counts %d pending, %d loading, %d ready, %d running of %d; there are %d, %d, %d, %d of %d",
				l.key, l.pending, l.loading, l.ready, l.running, l.target, waiting, loading, readies, running, len(l.replicas))
		}
		if l.queue.n > 0 && l.idlest.first() != nil {
			t.Fatalf("%s: %d requests wait although a slot is free", l.key, l.queue.n)
		}
	}
	for _, p := range w.nodes.Pools() {
		for _, n := range p.Nodes() {
			var used int32
			for _, pod := range n.Pods() {
				used += replicaOf(pod).load.gpus
				if pod.Node() != n || replicaOf(pod).state == gone {
					t.Fatal("a replica is on another node, or has ended")
				}
			}
			if used > n.GPUs() {
				t.Fatalf("the replicas of a node of %d GPUs use %d", n.GPUs(), used)
			}
		}
	}
}
