package hpa

import (
	"testing"
	"time"
)

func TestKEDAsLoopWakesAtOnceAndLetsGoAfterItsCooldown(t *testing.T) {
	const active, idle, failing, partly = "active", "idle", "failing", "partly"
	loop, at, replicas := ScaleLoop{Cooldown: 20 * time.Second}, time.Unix(1_800_000_000, 400_000_000), int32(3)
	for i, step := range []struct {
		triggers string
		hpa      int32 // what it made of the replicas meanwhile; 0: nothing
		want     int32
	}{
		{idle, 0, 0},    // never active: nothing to cool down from
		{failing, 0, 0}, // an error wakes nobody
		{partly, 0, 1},  // one is active beside one that fails
		{active, 4, 4},  // at 15 s
		{partly, 0, 4},  // at 20 s: no activity that counts
		{idle, 0, 4},    // 10 s after the last that did
		{idle, 2, 2},    // 15 s
		{failing, 0, 2}, // 20 s, and nobody knows
		{idle, 0, 0},    // 25 s
		{idle, 0, 0},    // it stays
		{active, 0, 1},  // and comes back
		{active, 0, 1},  // at 55 s
		{idle, 0, 1},    // 5 s
		{idle, 0, 1},    // 10 s
		{idle, 0, 1},    // 15 s
		{idle, 0, 0},    // 20 s: the status has whole seconds, so they are over
	} {
		if step.hpa > 0 {
			replicas = step.hpa
		}
		replicas = loop.Poll(at, replicas, step.triggers == active || step.triggers == partly, step.triggers == active || step.triggers == idle)
		if replicas != step.want {
			t.Fatalf("poll %d, %s: %d replicas, want %d", i, step.triggers, replicas, step.want)
		}
		at = at.Add(5 * time.Second)
	}
}
