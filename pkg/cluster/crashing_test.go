package cluster

import (
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Two of four pods crash in a loop. They are neither capacity nor on their way to it, and the view names one of them.
func TestCrashingPodsAreCountedAndNamed(t *testing.T) {
	w := newWorld()
	chat := &scaling.Workload{Key: scaling.Key{Namespace: "team", Name: "chat"}, Target: scaling.Target{APIVersion: "apps/v1", Kind: "Deployment", Name: "chat"}, Policy: &scaling.Policy{}}
	w.putTarget(must(trimDeployment(deployment("chat", 4, "1"))).(*targetFacts))
	for i, state := range []string{"ready", "crashing", "loading", "crashing"} {
		w.putPod(must(trimPod(podOf("chat", i, state))).(*podFacts))
	}
	v, ok := w.view(chat)
	if !ok || v.Ready != 1 || v.Loading != 1 || v.Pending != 0 || v.Crashing != 2 || v.CrashingPod != "chat-1" {
		t.Fatalf("%+v, want 1 ready, 1 loading, 2 crashing, of which chat-1 is named", v)
	}
	// The first is fixed and becomes ready, the other is deleted.
	w.putPod(must(trimPod(podOf("chat", 1, "ready"))).(*podFacts))
	w.dropPod("team", "chat-3")
	if v, _ = w.view(chat); v.Ready != 2 || v.Crashing != 0 || v.CrashingPod != "" {
		t.Errorf("%+v, want none crashing", v)
	}
}
