package cache_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
)

// Informers put objects into the cache. The engine reads the view (the observed state) of a workload.
func ExampleCache_View() {
	c := cache.New(0)
	c.PutTarget(fixture.Must[*cache.Target](cache.TrimDeployment(fixture.Deployment("chat", 3, "1"))))
	for i, state := range []string{"ready", "loading", "pending"} {
		c.PutPod(fixture.Must[*cache.Pod](cache.TrimPod(fixture.Pod("chat", i, state))))
	}
	view, ok := c.View(fixture.Workload("chat"))
	fmt.Println(ok, view.Replicas, view.Ready, view.Loading, view.Pending)
	// Output: true 3 1 1 1
}
