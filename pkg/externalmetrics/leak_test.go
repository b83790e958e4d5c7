package externalmetrics

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain fails if a goroutine runs after the tests: each goroutine must end when the context of its test is canceled. TestMain ignores
// two goroutines of the API server library: wait.Forever never ends, and the work queue of the certificate reloader ends some time after
// its context.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("k8s.io/apimachinery/pkg/util/wait.Forever"),
		goleak.IgnoreTopFunction("k8s.io/client-go/util/workqueue.(*delayingType[...]).waitingLoop"),
		goleak.IgnoreTopFunction("k8s.io/client-go/util/workqueue.(*Typed[...]).updateUnfinishedWorkLoop"))
}
