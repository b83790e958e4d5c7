package wording_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
)

func Example() {
	fields := []string{"minReplicas", "maxReplicas", "mode"}
	fmt.Printf("there is no such field%s allowed: %s\n", wording.DidYouMean("maxReplica", fields), wording.List(fields))
	fmt.Println(wording.Quote("https://user:secret@prometheus:9090"))
	// Output:
	// there is no such field, did you mean "maxReplicas"? allowed: minReplicas, maxReplicas or mode
	// "https://***@prometheus:9090"
}
