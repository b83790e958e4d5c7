package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/prometheus"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/redis"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/schedule"
)

// testSeeds is the number of seeds of `go test`. A run takes about 0.1 s of CPU.
const testSeeds = 30

func TestSeeds(t *testing.T) {
	writes, targets := 0, 0
	for seed := uint64(1); seed <= testSeeds; seed++ {
		events := schedule.Draw(seed)
		r := inBubble(t, seed, events)
		if r.violation != nil {
			events, r = shrink(t, seed, events, r)
			var text strings.Builder
			report(&text, seed, events, r)
			t.Fatal(text.String())
		}
		writes, targets = writes+r.writes, targets+r.targets
	}
	// Without writes and changes of targets, the seeds could not violate an invariant, and the test would check nothing.
	if writes < 10*testSeeds || targets < 10*testSeeds {
		t.Errorf("%d seeds made %d writes and %d changes of targets, want at least %d of each", testSeeds, writes, targets, 10*testSeeds)
	}
}

func TestASeedHasOneTrace(t *testing.T) {
	for seed := uint64(1); seed <= 2; seed++ {
		first, second := inBubble(t, seed, schedule.Draw(seed)), inBubble(t, seed, schedule.Draw(seed))
		for i := range min(len(first.lines), len(second.lines)) {
			if first.lines[i] != second.lines[i] {
				t.Fatalf("seed %d: line %d differs:\n%s\n%s", seed, i, first.lines[i], second.lines[i])
			}
		}
		if first.hash != second.hash {
			t.Fatalf("seed %d: the traces have %d and %d lines", seed, len(first.lines), len(second.lines))
		}
	}
}

// TestEveryKindOfEventIsDrawn checks that the fixed seeds contain each kind of event and each failure of Prometheus, Redis and
// KEDA's streams.
func TestEveryKindOfEventIsDrawn(t *testing.T) {
	var kinds [schedule.NumKinds]int
	var sources [prometheus.NumFaults]int
	var queues [redis.NumFaults]int
	var pushes [4]int
	for seed := uint64(1); seed <= testSeeds; seed++ {
		for _, e := range schedule.Draw(seed) {
			kinds[e.Kind]++
			switch e.Kind {
			case schedule.SourceBreaks:
				sources[e.Value%prometheus.NumFaults]++
			case schedule.RedisBreaks:
				queues[e.Value%redis.NumFaults]++
			case schedule.PushBreaks:
				pushes[e.Value%4]++
			}
		}
	}
	if i := slices.Index(kinds[:], 0); i >= 0 {
		t.Errorf("no seed has the schedule.Event %q", schedule.Kind(i).Name())
	}
	if i := slices.Index(sources[:], 0); i >= 0 {
		t.Errorf("in no seed Prometheus %s", prometheus.Fault(1+i))
	}
	if i := slices.Index(queues[:], 0); i >= 0 {
		t.Errorf("in no seed Redis %s", redis.Fault(1+i))
	}
	if i := slices.Index(pushes[:], 0); i >= 0 {
		t.Errorf("in no seed the streams of KEDA break in way %d", i)
	}
}

// TestStory runs a fixed sequence of events: the load ends, the group gets its zero limits, the leader is killed, load returns, and the
// standby removes the limits.
func TestStory(t *testing.T) {
	r := inBubble(t, 1, []schedule.Event{
		{Second: 40, Kind: schedule.LoadChanges, Which: 0, Value: 0},
		{Second: 700, Kind: schedule.ReplicaKilled, Which: 0},
		{Second: 720, Kind: schedule.LoadChanges, Which: 0, Value: 4},
	})
	if r.violation != nil {
		t.Fatalf("%s: %s", r.violation.invariant, r.violation.text)
	}
	zeroed := slices.IndexFunc(r.lines, func(l string) bool {
		return strings.Contains(l, `NodePool llm-spot`) && strings.Contains(l, `-> "0"`)
	})
	lifted := slices.IndexFunc(r.lines, func(l string) bool {
		return strings.Contains(l, `NodePool llm-spot`) && strings.Contains(l, `"0" -> "6"`)
	})
	scaled := slices.IndexFunc(r.lines, func(l string) bool { return strings.Contains(l, "KEDA scales chat from 0 to 1") })
	if zeroed < 0 || lifted < zeroed || scaled < lifted {
		t.Errorf("zero limit at line %d, removed at %d, scaled from zero at %d; want this order\n%s", zeroed, lifted, scaled,
			strings.Join(r.lines, "\n"))
	}
}

func TestFixedCases(t *testing.T) {
	for _, c := range schedule.Cases {
		if r := inBubble(t, c.Seed, c.Events); r.violation != nil {
			var text strings.Builder
			report(&text, c.Seed, c.Events, r)
			t.Errorf("%s: %s", c.What, text.String())
		}
	}
}
