package simulator

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"pgregory.net/rapid"
)

func TestQuantilesOfWaitsAgreeWithSorting(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	w := Waits{Limit: 10 * time.Second}
	var all []time.Duration
	late := int64(0)
	for range 50_000 {
		d := time.Duration(random.ExpFloat64() * random.ExpFloat64() * float64(20*time.Second)).Truncate(time.Microsecond)
		if random.IntN(3) == 0 {
			d = 0
		}
		all = append(all, d)
		w.add(d)
		if d > w.Limit {
			late++
		}
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1} {
		want := all[min(len(all)-1, max(0, int(q*float64(len(all))+0.999999)-1))]
		if got := w.Quantile(q); got > want || float64(want-got) > float64(want)/200 {
			t.Errorf("quantile %g is %s, by sorting %s", q, got, want)
		}
	}
	if w.Late != late || w.Max != all[len(all)-1] || w.Count != int64(len(all)) {
		t.Errorf("%d late, longest %s", w.Late, w.Max)
	}
}

func TestAWaitThatGrewIsCountedOnce(t *testing.T) {
	w := Waits{Limit: 10 * time.Second}
	w.add(time.Second)
	w.add(2 * time.Second)
	w.move(2*time.Second, 15*time.Second)
	if w.Count != 2 || w.Late != 1 || w.OnTime() != 0.5 || w.Mean() != 8*time.Second {
		t.Errorf("%d waits, %d late, mean %s", w.Count, w.Late, w.Mean())
	}
}

func TestCellsRiseAndHoldTheirFloor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.SampledFrom([]int{coarse, grain}).Draw(t, "grain")
		us := rapid.Int64Range(0, 1<<60).Draw(t, "us")
		low := floorOf(cellOf(us, g), g)
		if low > us || us-low > us>>g {
			t.Fatalf("%d us lies in a cell from %d", us, low)
		}
		if cellOf(us+1, g) < cellOf(us, g) {
			t.Fatal("cells do not rise")
		}
	})
}

func TestASignalOnWaitsSeesItsWindowOnly(t *testing.T) {
	w := waitWindow{keep: time.Minute}
	for i := range 10 {
		for range 10 {
			w.add(time.Duration(i) * time.Second)
		}
		w.scrape(time.Duration(i+1) * 15 * time.Second)
	}
	if got, ok := w.read(150*time.Second, time.Minute, 0); !ok || got != 7.5 {
		t.Errorf("the mean of the last minute is %g s, want that of 6, 7, 8 and 9", got)
	}
	if got, ok := w.read(150*time.Second, time.Minute, 0.95); !ok || got < 8 || got > 9 {
		t.Errorf("its p95 is %g s", got)
	}
	if _, ok := w.read(10*time.Minute, time.Minute, 0); ok {
		t.Error("a window without a request has a mean")
	}
	if len(w.rounds) > 5 {
		t.Errorf("%d rounds are kept for a minute", len(w.rounds))
	}
}

func TestAPolicyOnWaitsIsDrivenByThem(t *testing.T) {
	p := chat("chat", func(p *scaling.Policy) {
		p.MinReplicas = 1
		p.Signals[1] = scaling.Signal{Name: "wait", Type: "vllm", Kind: scaling.Mean, Class: scaling.Latency, Unit: scaling.Seconds, Target: 2,
			MaxAge: 2 * time.Minute, Optional: true}
		p.Signals[0].Target = 1e6
	})
	p.Sources[1] = policy.Source{Type: policy.SourceVLLM, Metric: "queueTime", Quantile: 0.95, Window: time.Minute}
	peak := int32(0)
	r := watch(t, Config{Seed: 1, Assumptions: exact(),
		Workloads: []Workload{{Policy: p, Traffic: burst(t, 3), Service: Chat8B, Initial: 1}}}, time.Hour, func(w *Simulator, _ int) {
		peak = max(peak, w.loads[0].target)
	})
	if peak < 3 || r.Loads[0].Served != r.Loads[0].Arrived {
		t.Errorf("waits of minutes brought %d replicas", peak)
	}
}
