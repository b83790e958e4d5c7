package cluster

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
)

func TestTargetUIDChangesWithTheObject(t *testing.T) {
	w := cache.New(0)
	c := &Cluster{cache: w}
	put := func(uid types.UID) {
		d := fixture.Deployment("chat", 3, "1")
		d.UID = uid
		w.PutTarget(fixture.Must[*cache.Target](cache.TrimDeployment(d)))
	}
	want := func(when, uid string, exists bool) {
		t.Helper()
		got, ok := c.TargetUID(fixture.Workload("chat"))
		v, seen := c.View(fixture.Workload("chat"))
		if got != uid || ok != exists || v.UID != uid || seen != exists {
			t.Errorf("%s: TargetUID %q, %v; view %q, %v; want %q, %v", when, got, ok, v.UID, seen, uid, exists)
		}
	}
	put("a")
	want("before the caches are synced", "", false)
	c.synced.Store(true)
	want("found", "a", true)
	put("b") // the watch was interrupted, so the cache did not observe the deletion of "a"
	want("created again", "b", true)
	w.DropTarget(cache.RefOfWorkload(fixture.Workload("chat")))
	want("deleted", "", false)
	w.PutHPA(nil, fixture.Must[*cache.HPA](cache.TrimHPA(fixture.HPA("chat", "chat", "chat"))))
	want("only its HPA is left", "", false)
}
