// Command rights fails if the chart grants a permission that no end-to-end test used. Each test package writes the permissions that it used
// to a file in the directory DIR. The command reads all of these files:
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
		fmt.Println("granted but not used by a test:", r, "- remove it from charts/gpuscaler/templates/rbac.yaml, use it in a test, or "+
			"excuse it in e2e/audit/union.go")
	}
	for _, r := range stale {
		fmt.Println("excused but used:", r, "- remove it from e2e/audit/union.go")
	}
	if len(unused)+len(stale) > 0 {
		os.Exit(1)
	}
	fmt.Println("every permission of the chart was used by a test, except:")
	for _, r := range slices.Sorted(maps.Keys(audit.Excused)) {
		fmt.Printf("  %s: %s\n", r, audit.Excused[r])
	}
}
