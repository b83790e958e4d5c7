package objects_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/lint/objects"
)

func ExampleNarrower() {
	fmt.Println(objects.Narrower(objects.Range{Min: 1, Max: 4}, objects.Range{Min: 1, Max: 12}, false))
	// Output: its maxReplicas 4 is below the policy's maxReplicas 12
}
