package pods_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/pods"
)

// If there are no requests, no series of the exporter is needed.
func ExampleDCGMNames() {
	fmt.Println(len(pods.DCGMNames(nil)))
}
