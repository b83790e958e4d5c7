package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/prometheus"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/redis"
	"github.com/gpuscaler/gpuscaler/e2e/simulate/schedule"
)

// testSeeds is the number of seeds that `go test` runs. A run uses about 0.1 s of CPU time.
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
	// without writes and changed targets, no invariant could be violated, and the test would check nothing
	if writes < 10*testSeeds || targets < 10*testSeeds {
		t.Errorf("%d seeds made %d writes and %d changes of targets, want at least %d of each", testSeeds, writes, targets, 10*testSeeds)
	}
}

func TestASeedHasOneTrace(t *testing.T) {
	for _, seed := range []uint64{1, 36} { // with seed 36, the annotations of several pods are removed at once
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
		t.Errorf("no seed has an event like %q", schedule.Event{Kind: schedule.Kind(i)})
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

// TestStory runs a fixed sequence of events: the load ends, the group gets its zero limits, the leader is killed, there is load again,
// and the standby removes the limits.
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

// TestStories runs the stories that are kept in the folder schedule/stories.
func TestStories(t *testing.T) {
	stories, err := schedule.Stories()
	if err != nil {
		t.Fatal(err)
	}
	for _, story := range stories {
		t.Run(story.Name, func(t *testing.T) {
			var text strings.Builder
			if !runStory(t, &text, &story) {
				t.Error(text.String())
			}
		})
	}
}

// TestASentenceContainsTheWholeEvent checks that the events of a seed have the same effects after they were printed and read.
func TestASentenceContainsTheWholeEvent(t *testing.T) {
	for _, seed := range []uint64{3, 7, 11} {
		events := schedule.Draw(seed)
		for i, e := range events {
			read, err := schedule.ParseEvent(e.String())
			if err != nil {
				t.Fatal(err)
			}
			events[i] = read
		}
		drawn, read := inBubble(t, seed, schedule.Draw(seed)), inBubble(t, seed, events)
		for i := range min(len(drawn.lines), len(read.lines)) {
			if drawn.lines[i] != read.lines[i] {
				t.Fatalf("seed %d: line %d differs:\n%s\n%s", seed, i, drawn.lines[i], read.lines[i])
			}
		}
		if drawn.hash != read.hash {
			t.Errorf("seed %d: the traces have %d and %d lines", seed, len(drawn.lines), len(read.lines))
		}
	}
}
