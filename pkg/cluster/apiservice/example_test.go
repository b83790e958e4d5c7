package apiservice_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/apiservice"
)

// KEDA serves external metrics already, so that gpuscaler cannot.
func ExampleNextStep() {
	fmt.Println(apiservice.NextStep("keda/keda-operator-metrics-apiserver"))
	// Output: scale through ScaledObjects with an external-push trigger (config/guides/keda.md)
}
