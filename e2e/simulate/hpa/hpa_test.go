package hpa

import (
	"testing"
	"time"
)

// TestOnlyKEDAScalesToZero checks a workload that becomes idle. The HPA keeps one replica, and KEDA removes this replica after the
// cooldown, unless the ScaledObject has a minimum. While no target is served, the replicas do not change.
func TestOnlyKEDAScalesToZero(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for _, least := range []int32{0, 1} {
		a := New(&Target{Namespace: "team", Name: "chat", Min: least, KEDA: true}, now)
		replicas := a.Sync(now, 1, 4, true)
		if unserved := a.Sync(now.Add(SyncPeriod), replicas, 0, false); replicas != 4 || unserved != 4 {
			t.Fatalf("target 4: %d replicas, and then %d without a target", replicas, unserved)
		}
		if replicas = a.Sync(now.Add(2*SyncPeriod), replicas, 0, true); replicas != 1 {
			t.Errorf("target 0: the HPA keeps %d replicas, want 1", replicas)
		}
		if n := a.Poll(now.Add(cooldown/2), replicas, false, true); n != 1 {
			t.Errorf("in the cooldown: KEDA keeps %d replicas, want 1", n)
		}
		if n := a.Poll(now.Add(cooldown), replicas, false, false); n != 1 {
			t.Errorf("no answer of the external scaler: KEDA keeps %d replicas, want 1", n)
		}
		if n := a.Poll(now.Add(cooldown), replicas, false, true); n != least {
			t.Errorf("after the cooldown: KEDA keeps %d replicas, want %d", n, least)
		}
	}
}
