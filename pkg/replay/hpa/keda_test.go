package hpa

import (
	"testing"
	"time"
)

func TestKEDALoopActivatesAtOnceAndDeactivatesAfterCooldown(t *testing.T) {
	const active, idle, failing, partly = "active", "idle", "failing", "partly"
	loop, at, replicas := ScaleLoop{Cooldown: 20 * time.Second}, time.Unix(1_800_000_000, 400_000_000), int32(3)
	for i, step := range []struct {
		triggers string
		hpa      int32 // replicas that the HPA wrote before the poll; 0: none
		want     int32
	}{
		{idle, 0, 0},    // the triggers were never active, so no cooldown applies
		{failing, 0, 0}, // a trigger that fails is not active
		{partly, 0, 1},  // one trigger is active, one fails
		{active, 4, 4},  // 15 s after the first poll
		{partly, 0, 4},  // 5 s later: one trigger fails, so this poll does not restart the cooldown
		{idle, 0, 4},    // 10 s after the last activity
		{idle, 2, 2},    // 15 s after the last activity
		{failing, 0, 2}, // 20 s after the last activity; it is not known whether a trigger is active
		{idle, 0, 0},    // 25 s after the last activity
		{idle, 0, 0},    // the workload stays at zero
		{active, 0, 1},  // active again
		{active, 0, 1},  // 55 s after the first poll: restarts the cooldown
		{idle, 0, 1},    // 5 s after the last activity
		{idle, 0, 1},    // 10 s after the last activity
		{idle, 0, 1},    // 15 s after the last activity
		{idle, 0, 0},    // 20 s after the last activity, whose time is stored in whole seconds: the cooldown has passed
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
