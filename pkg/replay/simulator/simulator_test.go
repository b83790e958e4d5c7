package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/shareddata"
)

// chat returns a policy that may scale to zero. Its two signals are the number of requests that wait in front of the replicas, and the
// number of running requests.
func chat(name string, change func(*scaling.Policy)) *policy.Compiled {
	p := &scaling.Policy{
		Signals: []scaling.Signal{{Name: "gateway", Type: "prometheus", Target: 4, MaxAge: 2 * time.Minute},
			{Name: "running", Type: "vllm", Target: 5, MaxAge: 2 * time.Minute, Optional: true}},
		MinReplicas: 0, MaxReplicas: 12, CooldownPeriod: 5 * time.Minute,
		ScaleDown: scaling.Direction{StabilizationWindow: 5 * time.Minute,
			Rates: []scaling.RatePolicy{{Type: scaling.PercentRate, Value: 100, Period: 15 * time.Second}}},
	}
	if change != nil {
		change(p)
	}
	sources := []policy.Source{{Type: policy.SourcePrometheus}, {Type: policy.SourceVLLM, Metric: "requestsRunning"}}
	return &policy.Compiled{
		Workload: scaling.Workload{Key: scaling.Key{Namespace: "team", Name: name}, Policy: p, Activate: true},
		Sources:  sources[:len(p.Signals)],
	}
}

func generate(t testing.TB, preset string, d time.Duration, change func(*trace.Profile)) *trace.Trace {
	t.Helper()
	p, ok := trace.Preset(preset)
	if !ok {
		t.Fatalf("no preset %s", preset)
	}
	p.Duration, p.Seed = d, 7
	if change != nil {
		change(&p)
	}
	tr, err := trace.Generate(p)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func run(t testing.TB, c Config, d time.Duration) *Result {
	t.Helper()
	w, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Run(context.Background(), d, nil); err != nil {
		t.Fatal(err)
	}
	r := w.Result()
	conserve(t, w, r)
	return r
}

// conserve checks two invariants of every run: no request is lost, and every paid GPU second has exactly one cause.
func conserve(t testing.TB, w *Simulator, r *Result) {
	t.Helper()
	for _, l := range r.Loads {
		if l.Arrived != l.Served+l.Running+l.Queued {
			t.Errorf("%s: %d requests arrived, %d were served, %d run and %d wait", l.Key, l.Arrived, l.Served, l.Running, l.Queued)
		}
	}
	if got := r.Ledger.Sum(); got != r.Paid {
		t.Errorf("the ledger's parts sum to %s of GPU time, %s were paid for: %v", got, r.Paid, r.Ledger)
	}
	for c, d := range r.Ledger {
		if d < 0 {
			t.Errorf("%s is %s", ledger.Cause(c), d)
		}
	}
}

func encode(v any) []byte {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic(err) // cannot occur: JSON can represent all fields of a Result
	}
	return b
}

func TestADayOfChatIsServedAndAccountedFor(t *testing.T) {
	c := Config{Seed: 1, Workloads: []Workload{{Policy: chat("chat", nil), Traffic: generate(t, "nights", 24*time.Hour, nil),
		Service: Chat8B}}, Fleet: karpenter.Fleet{HourlyPerGPU: 1.861}}
	r := run(t, c, 24*time.Hour)
	t.Logf("%s", encode(r.Loads))
	t.Logf("%v cost %.2f paid %s", r.Ledger, r.Cost, r.Paid)
	if r.Loads[0].AtZero < 5*time.Hour {
		t.Errorf("eight idle hours, and at zero for %s only", r.Loads[0].AtZero)
	}
}

func TestSameSeedGivesTheSameRunInAnyOrderOfWorkloads(t *testing.T) {
	a := Workload{Policy: chat("a", nil), Traffic: generate(t, "bursty", 6*time.Hour, nil), Service: Chat8B}
	b := Workload{Policy: chat("b", nil), Traffic: generate(t, "spikes", 6*time.Hour, nil), Service: Chat8B, Initial: 2}
	first := encode(run(t, Config{Seed: 3, Workloads: []Workload{a, b}}, 6*time.Hour))
	again := encode(run(t, Config{Seed: 3, Workloads: []Workload{a, b}}, 6*time.Hour))
	if !bytes.Equal(first, again) {
		t.Error("the same seed gave another run")
	}
	other := encode(run(t, Config{Seed: 3, Workloads: []Workload{b, a}}, 6*time.Hour))
	if !bytes.Equal(first, other) {
		t.Error("the order of the workloads changed the run")
	}
	pools := []karpenter.NodePool{nodePool("spot", karpenter.Spot, 2, 1, 80), nodePool("od", karpenter.OnDemand, 4, 8, 20)}
	pools[0].Market = losses(5, 3*time.Hour)
	swapped := []karpenter.NodePool{pools[1], pools[0]}
	x := run(t, Config{Seed: 3, Workloads: []Workload{a, b}, NodePools: pools}, 6*time.Hour)
	y := run(t, Config{Seed: 3, Workloads: []Workload{b, a}, NodePools: swapped}, 6*time.Hour)
	if !bytes.Equal(encode(x), encode(y)) {
		t.Error("the order of NodePools changed the run")
	}
	alone := run(t, Config{Seed: 3, Workloads: []Workload{b}}, 6*time.Hour)
	both := run(t, Config{Seed: 3, Workloads: []Workload{a, b}}, 6*time.Hour)
	if x, y := encode(alone.Loads[0]), encode(both.Loads[1]); !bytes.Equal(x, y) {
		t.Error("a workload that shares nothing with another ran differently beside it")
	}
	if bytes.Equal(first, encode(run(t, Config{Seed: 4, Workloads: []Workload{a, b}}, 6*time.Hour))) {
		t.Error("another seed gave the same run")
	}
}

// azure returns the shared request log of Azure. It skips the test if the file does not exist.
func azure(t testing.TB) *trace.Trace {
	t.Helper()
	tr, err := tracefile.Open(shareddata.Path(t, "requests/AzureLLMInferenceTrace_conv.csv"), tracefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func BenchmarkAzureHour(b *testing.B) {
	tr := azure(b)
	c := Config{Seed: 1, Workloads: []Workload{{Policy: chat("chat", nil), Traffic: tr, Service: Chat8B, Initial: 4}}}
	for b.Loop() {
		w, err := New(c)
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Run(context.Background(), tr.Duration, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(tr.Duration.Seconds()*float64(b.N)/b.Elapsed().Seconds(), "x-real-time")
}

func BenchmarkDayOnNodes(b *testing.B) {
	c := Config{Seed: 1, NodePools: []karpenter.NodePool{nodePool("spot", karpenter.Spot, 1, 1, 80),
		nodePool("od", karpenter.OnDemand, 4, 8, 20)}}
	for i, preset := range []string{"diurnal", "bursty", "nights"} {
		c.Workloads = append(c.Workloads, Workload{Policy: chat(string(rune('a'+i)), nil), Traffic: generate(b, preset, 24*time.Hour, nil),
			Service: Chat8B})
		c.NodePools[i%2].ConsolidateAfter = 5 * time.Minute
	}
	for b.Loop() {
		run(b, c, 24*time.Hour)
	}
	b.ReportMetric(24*3600*float64(b.N)/b.Elapsed().Seconds(), "x-real-time")
}
