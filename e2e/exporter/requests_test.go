package exporter

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/baseline"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// readyPods returns n ready pods of an image.
func readyPods(n int, image string) (pods []Pod) {
	for i := range n {
		pods = append(pods, Pod{Name: fmt.Sprint("chat-", i), Image: image, Ready: true})
	}
	return pods
}

// The replay's simulator and Requests serve the same requests with four replicas. In both, the same number of requests must be late.
func TestRequestsAreServedAsInTheReplay(t *testing.T) {
	requests, err := trace.Generate(trace.Profile{Name: "chat", Duration: 20 * time.Minute, Rate: 4.3, CV: 1.5, Seed: 1,
		Tokens: &trace.Tokens{Input: trace.TokenDist{Mean: 1155, Sigma: 1}, Output: trace.TokenDist{Mean: 211, Sigma: 0.8}}})
	if err != nil {
		t.Fatal(err)
	}
	service := simulator.Chat8B
	s, err := simulator.New(simulator.Config{Seed: 1, Workloads: []simulator.Workload{{Key: scaling.Key{Namespace: "team", Name: "chat"},
		Actuator: baseline.Static(4), Traffic: requests, Service: service, Initial: 4}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background(), requests.Duration, nil); err != nil {
		t.Fatal(err)
	}
	want := s.Result().Loads[0]

	start := time.Unix(1_700_000_000, 0)
	load := &Requests{Arrivals: requests.Stream(), Slots: service.Slots, Limit: 10 * time.Second, Grace: 30 * time.Second,
		Takes: func(r trace.Request, _ string) time.Duration { return service.Takes(r) }}
	load.Follow(start, readyPods(4, ""))
	load.Begin(start)
	for at := time.Duration(0); at < requests.Duration; at += 700 * time.Millisecond {
		load.Follow(start.Add(at), readyPods(4, ""))
	}
	got := load.Totals(start.Add(requests.Duration))
	if int64(got.Arrived) != want.Arrived || got.OnTime() != want.OnTime || got.Late == 0 {
		t.Errorf("%+v (%v on time), want %d requests and %v on time", got, got.OnTime(), want.Arrived, want.OnTime)
	}
	if paid := s.Result().Paid.Seconds(); !(got.Paid >= paid-1 && got.Paid <= paid+1) {
		t.Errorf("%v seconds of pods, want %v", got.Paid, paid)
	}
}

// Ten requests arrive at once. One pod serves two of them at a time and is deleted after 3 s. It finishes the requests of 5 s within its
// grace period of 10 s, but not the requests of 20 s, which another pod then serves first.
func TestDeletedPodFinishesRequestsOnlyInItsGracePeriod(t *testing.T) {
	for _, c := range []struct {
		takes          time.Duration
		queued, paid   int // queued requests and paid seconds after 15 s
		queuedAfterNew int
	}{{5 * time.Second, 8, 5, 6}, {20 * time.Second, 10, 13, 8}} {
		start := time.Unix(1_700_000_000, 0)
		at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
		load := &Requests{Arrivals: trace.NewLog(trace.Header{}, make([]trace.Request, 10)).Stream(), Slots: 2, Limit: 10 * time.Second,
			Grace: 10 * time.Second, Takes: func(_ trace.Request, image string) time.Duration {
				if image == "slow" {
					return time.Hour
				}
				return c.takes
			}}
		load.Follow(start, readyPods(1, ""))
		load.Begin(start)
		load.Follow(at(3), nil)
		load.Follow(at(15), nil)
		if v := load.At(at(15), 0); v.Upstream != float64(c.queued) || v.Arrived != 10 || v.Running != 0 {
			t.Errorf("%v: %+v, want %d in the queue", c.takes, v, c.queued)
		}
		if got := load.Totals(at(15)); int(got.Paid) != c.paid || got.Started != 10 || got.Late != 8 {
			t.Errorf("%v: %+v, want %d seconds of pods, and 8 late requests", c.takes, got, c.paid)
		}
		load.Follow(at(16), readyPods(1, "slow"))
		if v := load.At(at(1000), 1); v.Upstream != float64(c.queuedAfterNew) || v.Running != 2 {
			t.Errorf("%v: %+v, want %d in the queue with another pod", c.takes, v, c.queuedAfterNew)
		}
		if states := load.Between(at(14), at(15)); len(states) != 1 || states[0].Queued != c.queued {
			t.Errorf("%v: states %+v", c.takes, states)
		}
	}
}
