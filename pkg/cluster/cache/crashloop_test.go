package cache

import (
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
)

// Two of four pods are in a crash loop. They count neither as ready nor as loading, and the view must contain the name of one crashing pod.
func TestCrashingPodsAreCountedAndNamed(t *testing.T) {
	w := New(0)
	chat := fixture.Workload("chat")
	w.PutTarget(fixture.Must[*Target](TrimDeployment(fixture.Deployment("chat", 4, "1"))))
	for i, state := range []string{"ready", "crashing", "loading", "crashing"} {
		w.PutPod(fixture.Must[*Pod](TrimPod(fixture.Pod("chat", i, state))))
	}
	v, ok := w.View(chat)
	if !ok || v.Ready != 1 || v.Loading != 1 || v.Pending != 0 || v.Crashing != 2 || v.CrashingPod != "chat-1" {
		t.Fatalf("%+v, want 1 ready, 1 loading, 2 crashing, the first of them chat-1", v)
	}
	// The pod chat-1 becomes ready, and the pod chat-3 is deleted.
	w.PutPod(fixture.Must[*Pod](TrimPod(fixture.Pod("chat", 1, "ready"))))
	w.DropPod("team", "chat-3")
	if v, _ = w.View(chat); v.Ready != 2 || v.Crashing != 0 || v.CrashingPod != "" {
		t.Errorf("%+v, want none crashing", v)
	}
}
