package external_test

import (
	"fmt"
	"time"

	"k8s.io/client-go/rest"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/external"
)

// Without Triggers, the Fetcher reads only metrics that policies name, and no triggers of KEDA.
func ExampleNew() {
	f, err := external.New(&rest.Config{Host: "https://kubernetes.default.svc"}, nil, 10*time.Second)
	fmt.Println(f != nil, err)
}
