package cluster

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if a goroutine still runs after the tests. Every goroutine must end when the context of its test ends. Goroutines of work
// queues are ignored: a work queue starts one when it is created, but ends it only if the queue is run, and most tests create a Cluster
// without running it.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("k8s.io/client-go/util/workqueue.(*delayingType[...]).waitingLoop"),
		goleak.IgnoreTopFunction("k8s.io/client-go/util/workqueue.(*Typed[...]).updateUnfinishedWorkLoop"))
}
