// Command rights fails where the chart grants a right that no end-to-end test
// has used. It reads what the packages of one run wrote down:
//
//	GPUSCALER_E2E_RIGHTS=DIR go test ./... && go run ./rights DIR
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/gpuscaler/gpuscaler/e2e/audit"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rights DIR")
		os.Exit(2)
	}
	unused, stale, err := audit.Unused(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "rights:", err)
		os.Exit(2)
	}
	for _, r := range unused {
		fmt.Println("granted and used by no test:", r, "- take it out of charts/gpuscaler/templates/rbac.yaml, show it in a test, or excuse it in e2e/audit/union.go")
	}
	for _, r := range stale {
		fmt.Println("excused and used all the same:", r, "- take it out of e2e/audit/union.go")
	}
	if len(unused)+len(stale) > 0 {
		os.Exit(1)
	}
	fmt.Println("every right that the chart grants was used by a test, but for:")
	for _, r := range slices.Sorted(maps.Keys(audit.Excused)) {
		fmt.Printf("  %s: %s\n", r, audit.Excused[r])
	}
}
