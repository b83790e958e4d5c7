package audit

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

// many returns the sample with n workloads: copies of its workloads with names of their own, and as many GPUs of nodes.
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

// BenchmarkHundredWorkloads audits 100 workloads of a day with the replays of the command's default, six hours each.
func BenchmarkHundredWorkloads(b *testing.B) {
	s := many(b, 100)
	for b.Loop() {
		r, err := Run(context.Background(), s, Options{SLO: objective, Replay: 6 * time.Hour})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(r.Total.Replayed), "replayed")
	}
}
