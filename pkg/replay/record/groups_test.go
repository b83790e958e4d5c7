package record

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/spotmarket"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// market returns the configuration of a simulation in which the spot NodePool has no capacity for half an hour. The capacity group falls
// back to on-demand and later returns to spot.
func market(t testing.TB) simulator.Config {
	t.Helper()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	g := capacity.Group{Name: "gpu", Resource: "nvidia.com/gpu", ReturnNodesPerHour: 30, ConsolidationFreeze: true, StartupShield: true,
		EmptyWholeNodes: true,
		Pools:           []capacity.Pool{{Name: "spot", Type: capacity.Spot}, {Name: "on-demand", Type: capacity.OnDemand}},
		Schedules:       []capacity.Schedule{{ConsolidateAfter: "5m"}}}
	g.Schedules[0].Window.Name, g.Schedules[0].Window.Location = "late", berlin
	g.Schedules[0].Window.From, g.Schedules[0].Window.To = noon.Add(90*time.Minute), noon.Add(100*time.Minute)
	group, err := capacity.NewGroup(g)
	if err != nil {
		t.Fatal(err)
	}
	profile, ok := trace.Preset("flat")
	if !ok {
		t.Fatal("no flat preset")
	}
	profile.Duration, profile.Rate, profile.Seed = 2*time.Hour, 4, 7
	traffic, err := trace.Generate(profile)
	if err != nil {
		t.Fatal(err)
	}
	p := &policy.Compiled{Sources: []policy.Source{{Type: policy.SourcePrometheus}}}
	p.Workload = scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Group: "gpu", Policy: &scaling.Policy{
		Signals:     []scaling.Signal{{Name: "gateway", Type: "prometheus", Target: 4, MaxAge: 2 * time.Minute}},
		MinReplicas: 2, MaxReplicas: 12,
		ScaleDown: scaling.Direction{StabilizationWindow: time.Minute}}}
	pool := func(name, capacityType string, hourly float64, weight int32) karpenter.NodePool {
		return karpenter.NodePool{Name: name, CapacityType: capacityType, InstanceType: name, GPUs: 1, Hourly: hourly, Weight: weight,
			ConsolidateAfter: time.Minute,
			OnlyWhenEmpty:    true, Budgets: []karpenter.Budget{{Percent: 100}}}
	}
	spot := pool("spot", karpenter.Spot, 0.78, 80)
	spot.Market = &spotmarket.Trace{Duration: 100 * time.Hour, Initial: 10, Events: []spotmarket.Event{{At: 20 * time.Minute, Lost: 10},
		{At: 50 * time.Minute, Added: 10}}}
	return simulator.Config{Start: noon, Seed: 1, Groups: []*capacity.Group{group},
		NodePools: []karpenter.NodePool{spot, pool("on-demand", karpenter.OnDemand, 1.861, 20)},
		Workloads: []simulator.Workload{{Policy: p, Traffic: traffic, Service: simulator.Chat8B, Initial: 2}}}
}

// recordMarket records a simulation of two hours with the configuration of market. It returns the path of the recording, and all phases of
// the capacity group (see statemachine.Phase).
func recordMarket(t testing.TB, o Options) (path string, phases map[statemachine.Phase]bool) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "recording.jsonl")
	r, err := New(path, o)
	if err != nil {
		t.Fatal(err)
	}
	c := market(t)
	phases = map[statemachine.Phase]bool{}
	c.Engine.OnGroupTick = func(g engine.GroupTick) {
		phases[g.Decision.Phase] = true
		r.GroupTick(g)
	}
	w, err := simulator.New(c)
	if err != nil {
		t.Fatal(err)
	}
	for w.Now() < 2*time.Hour {
		w.Step(context.Background())
		if err := r.Tick(w.Engine().Decisions(), w.Time()); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return path, phases
}

func TestAMarketIsDecidedAgain(t *testing.T) {
	path, phases := recordMarket(t, Options{})
	for _, p := range []statemachine.Phase{statemachine.PreferSpot, statemachine.Fallback, statemachine.Returning} {
		if !phases[p] {
			t.Errorf("the group was never in phase %d, so the recording does not test it", p)
		}
	}
	v, err := VerifyFiles(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := v.Phases["gpu"]; p[0] != statemachine.PreferSpot || !slices.Contains(p, statemachine.Fallback) {
		t.Errorf("the phases were %v", p)
	}
	if v.Ticks != 7200 || v.Groups != 7200 || v.Decisions != 7200 {
		t.Errorf("two hours of a workload and a group: %+v", v)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes a tick", len(text)/v.Ticks)

	at := bytes.Index(text, []byte(`"Phase":1`))
	if at < 0 {
		t.Fatal("no fallback is written down")
	}
	tampered := bytes.Clone(text)
	tampered[at+len(`"Phase":`)] = '3'
	var d *Difference
	if _, err := Verify("tampered", bytes.NewReader(tampered), nil); !errors.As(err, &d) || d.Key != "capacity group gpu" ||
		!strings.Contains(d.Now, `"Phase":1`) {
		t.Errorf("another phase: %v", err)
	}
	unseen := bytes.Replace(text, []byte(`"Capacity":true`), []byte(`"Capacity":false`), -1)
	if _, err := Verify("unseen", bytes.NewReader(unseen), nil); !errors.As(err, &d) {
		t.Errorf("refusals that were for another reason: %v", err)
	}
}

func TestEverySegmentOfAMarketIsComplete(t *testing.T) {
	path, _ := recordMarket(t, Options{Segment: 100 << 10, Keep: 100})
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, f := range files[1:] {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := Verify(f, bytes.NewReader(text), nil); err != nil || v.Groups != v.Ticks {
			t.Errorf("%s: %+v, %v", f, v, err)
		}
	}
	if v, err := VerifyFiles(path, nil); err != nil || v.Groups != 7200 {
		t.Errorf("%+v, %v", v, err)
	}
}

// bench runs the decisions of one capacity group and records them. A test provides the observations. If fresh is set, the next decision is
// recorded as a decision without earlier state.
type bench struct {
	recorder *Recorder
	engine   *engine.Engine
	state    capacity.State
	fresh    bool
	now      time.Time
}

func (b *bench) tick(t *testing.T, g *capacity.Group, orphaned bool, o capacity.Observation) {
	t.Helper()
	b.now = b.now.Add(time.Second)
	if g != nil {
		tick := engine.GroupTick{At: b.now, Group: g, Orphaned: orphaned, Fresh: b.fresh, Observation: &o, Decision: &capacity.Decision{}}
		decideGroup(&b.state, &tick, tick.Decision)
		b.recorder.GroupTick(tick)
		b.fresh = false
	}
	if err := b.recorder.Tick(b.engine.Decisions(), b.now); err != nil {
		t.Fatal(err)
	}
}

func TestAGroupThatChangesChokesAndLeavesIsDecidedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recording.jsonl")
	r, err := New(path, Options{Segment: 20_000, Keep: 100})
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{}
	b := &bench{recorder: r, engine: engine.New(s, s, s, engine.Options{}), now: noon, fresh: true}
	group := func(zeroLimit bool) *capacity.Group {
		g, err := capacity.NewGroup(capacity.Group{Name: "gpu", Resource: "nvidia.com/gpu", ZeroLimit: zeroLimit,
			Pools: []capacity.Pool{{Name: "a", Type: capacity.OnDemand}}})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	old, young := group(true), group(true)
	see := func(workloads int, record string) capacity.Observation {
		o := capacity.Observation{Pools: []capacity.PoolView{{Exists: true, Ready: true,
			View:  nodepool.View{Consent: nodepool.ConsentLimits, Record: record},
			Nodes: []capacity.Node{{Name: "n", UID: "1", Stage: capacity.Usable, GPUs: 8, Hourly: math.NaN()}}}}}
		for i := range workloads {
			o.Workloads = append(o.Workloads, capacity.Workload{Key: string(rune('a' + i)), Known: true, GPUs: 1})
		}
		return o
	}
	for i := range 1200 {
		switch {
		case i == 400:
			b.state, b.fresh = capacity.State{}, true // the engine drops the state after a panic
		case i == 800:
			b.state, b.fresh = capacity.State{}, true // from here on the NodePool belongs to a removed group, and the engine starts without state
		}
		switch {
		case i >= 700 && i < 710:
			b.tick(t, nil, false, capacity.Observation{})
		case i >= 800:
			b.tick(t, old, true, see(0, "not ours"))
		case i >= 600:
			b.tick(t, young, false, see(i/50%4, ""))
		default:
			b.tick(t, old, false, see(i/50%4, ""))
		}
		if i == 699 {
			b.state, b.fresh = capacity.State{}, true
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	v, err := VerifyFiles(path, nil)
	if err != nil || v.Groups != 1190 || v.Ticks != 1200 {
		t.Errorf("%+v, %v", v, err)
	}
	if files, _ := filepath.Glob(path + "*"); len(files) < 5 {
		t.Errorf("%d files: no state was written", len(files))
	}
}

func TestWhatIsNoGroup(t *testing.T) {
	start := `{"kind":"start","version":5}` + "\n"
	group := `{"kind":"group","group":{"id":1,"group":{"Name":"gpu","Resource":"nvidia.com/gpu","Pools":[{"Name":"a"}]}}}` + "\n"
	tick := func(entry string) string { return `{"kind":"tick","g":[` + entry + "]}\n" }
	for _, c := range []struct{ want, text string }{
		{"without a group", `{"kind":"group"}` + "\n"},
		{"without a group", `{"kind":"group","group":{"id":1}}` + "\n"},
		{"incomplete", tick(`{"k":"gpu"}`)},
		{"not in the recording", tick(`{"k":"gpu","p":1,"fresh":true,"seen":{"whole":{}},"d":{}}`)},
		{"9 pools", group + tick(`{"k":"gpu","p":1,"fresh":true,"seen":{"whole":{"Pools":[0,0,0,0,0,0,0,0,0]}},"d":{}}`)},
		{"2 NodePools observed, want 1", group + tick(`{"k":"gpu","p":1,"fresh":true,"seen":{"whole":{"Pools":[0,0]}},"d":{}}`)},
		{`no part "pool.0"`, group + tick(`{"k":"gpu","p":1,"fresh":true,"seen":{"whole":{},"pool.0":{}},"d":{}}`)},
		{"state of a capacity group", group + tick(`{"k":"gpu","p":1,"seen":{"whole":{}},"state":[1],"d":{}}`)},
		{"differs from the recording", group +
			tick(`{"k":"gpu","p":1,"fresh":true,"seen":{"whole":{"Pools":[1],"Workloads":1}},"d":{"Phase":7}}`)},
	} {
		if _, err := Verify("file", strings.NewReader(start+c.text), nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}
}
