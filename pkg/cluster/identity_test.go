package cluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestATargetIsKnownByItsUID(t *testing.T) {
	w := newWorld()
	c := &Cluster{world: w}
	put := func(uid types.UID) {
		d := deployment("chat", 3, "1")
		d.UID = uid
		w.putTarget(must(trimDeployment(d)).(*targetFacts))
	}
	want := func(when, uid string, exists bool) {
		t.Helper()
		got, ok := c.TargetUID(workload("chat"))
		v, seen := c.View(workload("chat"))
		if got != uid || ok != exists || v.UID != uid || seen != exists {
			t.Errorf("%s: TargetUID %q, %v; view %q, %v; want %q, %v", when, got, ok, v.UID, seen, uid, exists)
		}
	}
	put("a")
	want("before the caches are synced", "", false)
	c.synced.Store(true)
	want("found", "a", true)
	put("b") // the watch was interrupted: the deletion in between was not observed
	want("created again", "b", true)
	w.dropTarget(refOfWorkload(workload("chat")))
	want("deleted", "", false)
	w.putHPA(nil, must(trimHPA(exactHPA("chat", "chat", "chat"))).(*hpaFacts))
	want("only its HPA is left", "", false)
}
