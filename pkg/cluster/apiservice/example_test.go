package apiservice_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/apiservice"
)

// KEDA is already registered for external metrics, so gpuscaler cannot be registered.
func ExampleNextStep() {
	fmt.Println(apiservice.NextStep("keda/keda-operator-metrics-apiserver"))
	// Output: scale through ScaledObjects with an external-push trigger (config/guides/keda.md)
}
