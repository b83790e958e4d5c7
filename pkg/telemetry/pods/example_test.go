package pods_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/pods"
)

// Without requests no series of the exporter is read.
func ExampleDCGMNames() {
	fmt.Println(len(pods.DCGMNames(nil)))
}
