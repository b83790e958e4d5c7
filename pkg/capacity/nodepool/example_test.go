package nodepool_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
)

// ConsentOf parses a value of the annotation gpuscaler.io/nudge.
func ExampleConsentOf() {
	consent, unknown := nodepool.ConsentOf("limits,weight")
	fmt.Println(consent == nodepool.ConsentLimits|nodepool.ConsentWeight, unknown == "")
	// Output: true true
}
