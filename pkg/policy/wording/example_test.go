package wording_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy/wording"
)

// If the found field name is a part of exactly one allowed name, this name is suggested even if many letters are missing.
func ExampleDidYouMean() {
	fields := []string{"queryRef", "scaleTargetRef", "minReplicas", "maxReplicas", "type"}
	for _, found := range []string{"query", "targetRef", "replicas", "ref"} {
		fmt.Printf("%s%s\n", found, wording.DidYouMean(found, fields))
	}
	// Output:
	// query, did you mean "queryRef"?
	// targetRef, did you mean "scaleTargetRef"?
	// replicas
	// ref
}

func Example() {
	fields := []string{"minReplicas", "maxReplicas", "mode"}
	fmt.Printf("there is no such field%s allowed: %s\n", wording.DidYouMean("maxReplica", fields), wording.List(fields))
	fmt.Println(wording.Quote("https://user:secret@prometheus:9090"))
	// Output:
	// there is no such field, did you mean "maxReplicas"? allowed: minReplicas, maxReplicas or mode
	// "https://***@prometheus:9090"
}
