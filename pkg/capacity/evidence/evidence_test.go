package evidence_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

var now = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// lost returns one loss for each age, with different UIDs.
func lost(ages ...time.Duration) (all []evidence.Loss) {
	for i, age := range ages {
		all = append(all, evidence.Loss{UID: fmt.Sprint(i), At: now.Add(-age)})
	}
	return all
}

func TestLossCountsOnceWithinItsWindow(t *testing.T) {
	const window = 15 * time.Minute
	twice := lost(time.Minute, 2*time.Minute)
	twice[1].UID = twice[0].UID
	for name, c := range map[string]struct {
		losses []evidence.Loss
		want   int
	}{
		"just within the window":        {lost(window - time.Millisecond), 1},
		"at the start of the window":    {lost(window), 0},
		"by a clock a minute ahead":     {lost(-time.Minute), 1},
		"by a clock an hour ahead":      {lost(-time.Hour), 0},
		"the same node twice":           {twice, 1},
		"more than the greatest number": {lost(make([]time.Duration, 100)...), statemachine.MaxEvidence},
		"one of two within the window":  {lost(time.Minute, time.Hour), 1},
	} {
		if got := evidence.Lost(c.losses, statemachine.Stamp(now.Add(-window)), statemachine.Stamp(now)); got != c.want {
			t.Errorf("%s: %d losses, want %d", name, got, c.want)
		}
	}
}

func TestOnlyLackOfCapacityIsARefusal(t *testing.T) {
	failures := []evidence.Failure{{UID: "a", At: now, Capacity: true}, {UID: "b", At: now}, {UID: "a", At: now, Capacity: true}}
	if got := evidence.Refused(failures, statemachine.Stamp(now.Add(-time.Minute)), statemachine.Stamp(now)); got != 1 {
		t.Errorf("%d refusals, want 1", got)
	}
}

func TestExpectedLossesNeedTwoInAnHour(t *testing.T) {
	for name, c := range map[string]struct {
		pools    [][]evidence.Loss
		leadTime time.Duration
		want     int32
	}{
		"none":                              {nil, 10 * time.Minute, 0},
		"one":                               {[][]evidence.Loss{lost(time.Minute)}, 10 * time.Minute, 0},
		"the second one was an hour ago":    {[][]evidence.Loss{lost(50*time.Minute, time.Hour)}, 10 * time.Minute, 0},
		"the second one is in the future":   {[][]evidence.Loss{lost(50*time.Minute, -time.Hour)}, 10 * time.Minute, 0},
		"the same node in two NodePools":    {[][]evidence.Loss{lost(time.Minute), lost(time.Minute)}, 10 * time.Minute, 0},
		"two interruptions in the hour":     {[][]evidence.Loss{lost(20*time.Minute, 50*time.Minute)}, 10 * time.Minute, 1},
		"one interruption takes two nodes":  {[][]evidence.Loss{lost(50*time.Minute, 50*time.Minute)}, 10 * time.Minute, 2},
		"a longer cold start":               {[][]evidence.Loss{lost(20*time.Minute, 50*time.Minute)}, time.Hour, 5},
		"a burst is at least what was lost": {[][]evidence.Loss{lost(0, 1, 2, 3, 4, 5)}, time.Second, 6},
	} {
		var losses evidence.Losses
		for _, pool := range c.pools {
			losses.Add(pool, statemachine.Stamp(now))
		}
		if got := losses.Expected(c.leadTime); got != c.want {
			t.Errorf("%s: %d nodes, want %d", name, got, c.want)
		}
	}
}

func TestReplicasLostWithNodes(t *testing.T) {
	for name, c := range map[string]struct {
		exposure evidence.Exposure
		nodes    int32
		want     int32
	}{
		"no node is exposed":            {evidence.Exposure{}, 3, 0},
		"no replica is needed":          {evidence.Exposure{Pods: 4, Nodes: 4}, 3, 0},
		"one pod on each node":          {evidence.Exposure{Pods: 10, Needed: 10, Nodes: 10}, 3, 3},
		"two pods on each node":         {evidence.Exposure{Pods: 20, Needed: 20, Nodes: 10}, 3, 6},
		"a part of a pod is rounded up": {evidence.Exposure{Pods: 10, Needed: 10, Nodes: 8}, 1, 2},
		"a rounding error adds none":    {evidence.Exposure{Pods: 3, Needed: 10, Nodes: 1 - 1e-12}, 1, 3},
		"at most half of the needed":    {evidence.Exposure{Pods: 10, Needed: 5, Nodes: 10}, 10, 3},
		"more nodes than exist":         {evidence.Exposure{Pods: 10, Needed: 10, Nodes: 10}, 1000, 5},
	} {
		if got := c.exposure.ReplicasLostWith(c.nodes); got != c.want {
			t.Errorf("%s: %d replicas, want %d", name, got, c.want)
		}
	}
}

func ExampleLosses() {
	var losses evidence.Losses
	at := func(minute int) time.Time { return time.Date(2026, 3, 2, 9, minute, 0, 0, time.UTC) }
	losses.Add([]evidence.Loss{{UID: "a", At: at(10)}, {UID: "b", At: at(11)}, {UID: "c", At: at(12)}}, statemachine.Stamp(at(13)))
	fmt.Println(losses.Expected(time.Minute), "nodes are expected to be lost during a cold start")
	// Output: 3 nodes are expected to be lost during a cold start
}
