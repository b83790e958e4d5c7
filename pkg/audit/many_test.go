package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// many returns the sample with n workloads, which are copies of its workloads under other names, and a sufficient number of GPUs on
// nodes.
func many(t testing.TB, n int) *Snapshot {
	t.Helper()
	s, err := Sample()
	if err != nil {
		t.Fatal(err)
	}
	of := s.Workloads
	s.Workloads = nil
	for i := range n {
		w := of[i%len(of)]
		w.Name = fmt.Sprintf("%s-%d", w.Name, i)
		s.Workloads = append(s.Workloads, w)
	}
	for p := range s.Pools {
		gpus := make(Values, len(s.Pools[p].GPUs))
		for i, v := range s.Pools[p].GPUs {
			gpus[i] = v * float64(n) / float64(len(of))
		}
		s.Pools[p].GPUs = gpus
	}
	return s
}

// The replays of 100 workloads end at their time limit. The workloads that were not replayed are reported, and everything that needs no
// replay is complete. Without a limit, the most expensive workload is replayed first.
func TestReplaysEndAtTheTimeLimit(t *testing.T) {
	s := many(t, 100)
	r, err := Run(t.Context(), s, Options{SLO: objective, Replay: time.Hour, Budget: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	left := 0
	for _, m := range r.Missing {
		if strings.Contains(m.Why, "the time limit of 1ns for replays has passed") {
			left++
		}
	}
	if left != 100 || r.Total.Replayed != 0 || r.Total.Gpuscaler != nil {
		t.Errorf("%d workloads are reported as not replayed, %d are replayed, cost %v", left, r.Total.Replayed, r.Total.Gpuscaler)
	}
	if len(r.Workloads) != 100 || r.Total.Cost == nil || len(r.Waste) < 100 {
		t.Errorf("%d workloads, cost %v, %d causes of waste", len(r.Workloads), r.Total.Cost, len(r.Waste))
	}
	for i := range r.Workloads[1:] {
		if *r.Workloads[i].Cost < *r.Workloads[i+1].Cost {
			t.Errorf("%s is replayed before %s, which costs more", r.Workloads[i].Workload, r.Workloads[i+1].Workload)
		}
	}
	if *r.Waste[0].Cost < *r.Waste[len(r.Waste)-1].Cost {
		t.Errorf("the largest waste is not the first: $%g before $%g", *r.Waste[0].Cost, *r.Waste[len(r.Waste)-1].Cost)
	}
}

// Each of 100 workloads is replayed and has a bound. The report does not depend on the number of replays that run at the same time.
func TestHundredWorkloadsAreReplayedInAnyOrder(t *testing.T) {
	s := hundred(t, 20*time.Minute)
	var first string
	for _, cores := range []int{1, 4} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		var announced sync.Map
		r, err := Run(t.Context(), s, Options{SLO: objective, Replay: 10 * time.Minute, ColdStart: 5 * time.Minute,
			Progress: func(what string, _ float64) { announced.Store(what, true) }})
		if err != nil {
			t.Fatal(err)
		}
		begun := map[string]int{}
		announced.Range(func(what, _ any) bool {
			task, _, _ := strings.Cut(what.(string), " team/")
			begun[task]++
			return true
		})
		if r.Total.Replayed != 100 || r.Total.Bounded != 100 || begun["replaying"] != 100 || begun["least cost of"] != 100 {
			t.Errorf("%d cores: of 100 workloads %d are replayed, %d have a bound; announced: %v, missing: %+v", cores, r.Total.Replayed,
				r.Total.Bounded, begun, r.Missing)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = string(text)
		} else if string(text) != first {
			t.Errorf("the report on %d cores differs from that on one", cores)
		}
	}
}

// A canceled audit returns the error and no report.
func TestCanceledReplaysEndTheAudit(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, many(t, 4), Options{SLO: objective, Replay: time.Hour, Budget: time.Hour, Progress: func(string, float64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the audit ends with %v", err)
	}
}

// The field recent must be the maximum need of a step and of the given number of steps before it.
func TestRecentNeedIsTheHighestOfThePast(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	w := &Workload{Slots: 1}
	for range 200 {
		all, past := make([]demand, 1+random.IntN(40)), random.IntN(45)
		for i := range all {
			all[i].running = float64(random.IntN(6))
		}
		setRecent(all, w, past)
		for i := range all {
			want := 0.0
			for k := max(0, i-past); k <= i; k++ {
				want = max(want, all[k].need(w))
			}
			if all[i].recent != want {
				t.Fatalf("step %d of %d, past %d: %g, want %g", i, len(all), past, all[i].recent, want)
			}
		}
	}
}

// hundred returns 100 workloads that the simulator ran for the given time. Each has its own traffic. They differ in the autoscaler and its
// bounds, the profile of the traffic, the slots of a replica and the load, from 0.3 to 10 requests per second.
func hundred(t testing.TB, length time.Duration) *Snapshot {
	t.Helper()
	of := stories(t)
	kinds, profiles := []Cause{Floor, Schedules, Cooldown, WrongMetric}, []string{"flat", "diurnal", "bursty", "spikes"}
	var all []autoscaled
	for i := range 100 {
		a := of[kinds[i%len(kinds)]]
		a.name, a.preset, a.slots = fmt.Sprintf("%s-%02d", a.name, i), profiles[i/2%len(profiles)], []int{4, 8, 16, 64}[i/4%4]
		a.rate = 0.3 * math.Pow(10/0.3, float64(i)/99)
		if i%4 != 0 {
			a.autoscaler.Max = []int{12, 24, 100}[i%3] // 100 is KEDA's default
		}
		all = append(all, a)
	}
	s, _ := simulated(t, length, 5*time.Minute, nil, all...)
	return s
}

// BenchmarkHundredWorkloads audits 100 workloads. As by default in `gpuscaler audit`, it replays the last six hours of each workload.
func BenchmarkHundredWorkloads(b *testing.B) {
	s := hundred(b, 8*time.Hour)
	for b.Loop() {
		r, err := Run(context.Background(), s, Options{SLO: objective, Replay: 6 * time.Hour, ColdStart: 5 * time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		requests := int64(0)
		for i := range r.Workloads {
			if f := r.Workloads[i].Forecast; f != nil {
				requests += f.Requests
			}
		}
		b.ReportMetric(float64(r.Total.Replayed), "replayed")
		b.ReportMetric(float64(r.Total.Bounded), "bounded")
		b.ReportMetric(float64(requests), "requests")
	}
}
