package autoscaler_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
)

// oneForEach requests one replica for each request that waits or runs.
type oneForEach struct{}

func (oneForEach) Act(s *autoscaler.Scene) autoscaler.Move {
	n := int32(s.Concurrency)
	return autoscaler.Move{Replicas: n, Asked: n, Again: 15 * time.Second}
}

func ExampleActuator() {
	var a autoscaler.Actuator = oneForEach{}
	fmt.Println(a.Act(&autoscaler.Scene{Spec: 1, Concurrency: 3}).Replicas)
	// Output:
	// 3
}
