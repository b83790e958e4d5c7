package simulator

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
)

// queueOf returns a replica that serves one request a minute, and requests that arrive after the given seconds.
func queueOf(t *testing.T, seconds ...string) Workload {
	t.Helper()
	log := "time,input,output\n1970-01-01T00:00:00Z,1,1\n"
	for _, s := range seconds {
		log += "1970-01-01T00:" + s + "Z,1,1\n"
	}
	tr, err := tracefile.Read("queue.csv", strings.NewReader(log), tracefile.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := plan("queue", at(0, 1))
	w.Traffic, w.Initial, w.Service = tr, 1, Service{Slots: 1, Fixed: time.Minute}
	return w
}

// The only replica serves one request per minute. The boundary is at 1:30. Two requests arrive before the boundary. One request arrives
// exactly at the boundary and one after it. The second request starts before the boundary and ends after it. The report part must count
// only the requests that arrive at or after the boundary, with their whole waits. It must count the GPU time after the boundary of all
// requests.
func TestRequestsBelongToThePartInWhichTheyArrive(t *testing.T) {
	c := Config{Workloads: []Workload{queueOf(t, "00:30", "01:30", "01:40")}, ReportFrom: 90 * time.Second,
		Fleet: karpenter.Fleet{HourlyPerGPU: 3.6}}
	for _, now := range []struct {
		until                           time.Duration
		arrived, served, running, queue int64
		paid                            time.Duration
	}{
		{89 * time.Second, 2, 1, 1, 0, 89 * time.Second}, // all results so far are of the train part
		{110 * time.Second, 2, 0, 0, 2, 20 * time.Second},
		{3 * time.Minute, 2, 1, 1, 0, 90 * time.Second},
		{5 * time.Minute, 2, 2, 0, 0, 210 * time.Second},
	} {
		r := run(t, c, now.until)
		l := r.Loads[0]
		if l.Arrived != now.arrived || l.Served != now.served || l.Running != now.running || l.Queued != now.queue {
			t.Errorf("at %s: %d arrived, %d served, %d running, %d waiting", now.until, l.Arrived, l.Served, l.Running, l.Queued)
		}
		if r.Paid != now.paid || r.Duration != now.paid || math.Abs(r.Cost-now.paid.Seconds()/1000) > 1e-9 {
			t.Errorf("at %s: %s paid for in %s at $%v, want %s", now.until, r.Paid, r.Duration, r.Cost, now.paid)
		}
	}
	// The requests that arrive at 1:30 and 1:40 start at 2:00 and 3:00.
	l := run(t, c, 5*time.Minute).Loads[0]
	if l.Waits.Count != 2 || l.Max != 80*time.Second || l.Mean != 55*time.Second || l.OnTime != 0 {
		t.Errorf("%d waits of %s on average and at most %s, %v on time", l.Waits.Count, l.Mean, l.Max, l.OnTime)
	}
	if busy := l.Ledger[ledger.Serving]; busy != 150*time.Second {
		t.Errorf("the replica serves for %s after the boundary, also the request of the train part until 2:00; want 2m30s", busy)
	}
}

func TestNegativeStartOfTheReportPartIsRejected(t *testing.T) {
	if _, err := New(Config{ReportFrom: -time.Second}); err == nil || !strings.Contains(err.Error(), "the report part begins at -1s") {
		t.Errorf("%v", err)
	}
}

// A run is divided into two parts by a boundary. The totals of both parts must add up to the totals of a run without a boundary. The
// boundary must not change the run.
func TestTrainPartAndReportPartSumToTheWholeRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anything(t)
		boundary, end := time.Duration(rapid.IntRange(1, 899).Draw(t, "boundary"))*time.Second, 15*time.Minute
		// begin starts a simulation with the given boundary (from) and processes all events before the time until.
		begin := func(from, until time.Duration) *Simulator {
			other := c
			other.ReportFrom = from
			w, err := New(other)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Run(context.Background(), until-w.config.Tick, nil); err != nil {
				t.Fatal(err)
			}
			w.pass(until - time.Microsecond)
			w.queue.Now = until
			return w
		}
		whole, before, scored := begin(0, end).Result(), begin(0, boundary).Result(), begin(boundary, end).Result()
		if scored.Duration != end-boundary || before.Paid+scored.Paid != whole.Paid || math.Abs(before.Cost+scored.Cost-whole.Cost) > 1e-9 {
			t.Fatalf("%s and %s paid for, in sum %s; $%v and $%v, in sum $%v", before.Paid, scored.Paid, whole.Paid, before.Cost, scored.Cost,
				whole.Cost)
		}
		if scored.Ledger.Sum() != scored.Paid {
			t.Fatalf("the causes add up to %s, %s were paid", scored.Ledger.Sum(), scored.Paid)
		}
		for i, l := range scored.Loads {
			a, all := before.Loads[i], whole.Loads[i]
			if l.Arrived != l.Served+l.Running+l.Queued || l.Served < 0 || l.Running < 0 || l.Queued < 0 {
				t.Fatalf("%+v", l)
			}
			if all.Arrived != a.Arrived+l.Arrived || all.Ledger.Sum() != a.Ledger.Sum()+l.Ledger.Sum() || all.AtZero != a.AtZero+l.AtZero ||
				all.ReplicaStarts != a.ReplicaStarts+l.ReplicaStarts || all.Lost != a.Lost+l.Lost ||
				all.ScaleUps != a.ScaleUps+l.ScaleUps || all.ScaleDowns != a.ScaleDowns+l.ScaleDowns {
				t.Fatalf("before %+v, scored %+v, whole %+v", a, l, all)
			}
			if l.Waits.Count > l.Arrived || l.Max > end-boundary {
				t.Fatalf("%d waits of at most %s for %d requests in %s", l.Waits.Count, l.Max, l.Arrived, end-boundary)
			}
			for k, n := range scored.Series.Loads[i].Started {
				if late := scored.Series.Loads[i].Late[k]; n < 0 || late < 0 {
					t.Fatalf("point %d of the series: %d started, %d became late", k, n, late)
				}
			}
		}
		for i, p := range scored.Pools {
			a, all := before.Pools[i], whole.Pools[i]
			if all.NodeStarts != a.NodeStarts+p.NodeStarts || all.SpotLosses != a.SpotLosses+p.SpotLosses || all.Refusals != a.Refusals+p.Refusals {
				t.Fatalf("before %+v, scored %+v, whole %+v", a, p, all)
			}
		}
	})
}
