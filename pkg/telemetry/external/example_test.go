package external_test

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/external"
)

// The second argument, the Triggers, is nil: this Fetcher reads metrics that policies name, but no triggers of KEDA.
func ExampleNew() {
	f, err := external.New(&rest.Config{Host: "https://kubernetes.default.svc"}, nil, 10*time.Second)
	fmt.Println(f != nil, err)
}
