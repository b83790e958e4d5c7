package pkg_test

import (
	"slices"
	"strings"
	"testing"
)

// testSupport contains the packages that only tests may import.
var testSupport = []string{"golden", "cluster/fixture", "dashboard/explain/explaintest", "telemetry/promtest"}

// TestBinaryContainsNoTestSupport checks that the binary links no package of testSupport. It also must not link the package testing, which
// would add flags to the commands.
func TestBinaryContainsNoTestSupport(t *testing.T) {
	if found := testSupportIn(dependenciesOf(t, []string{"../cmd/gpuscaler"})); len(found) > 0 {
		t.Errorf("cmd/gpuscaler links %v: only tests may import them", found)
	}
	if found := testSupportIn(dependenciesOf(t, []string{module + "golden"})); !slices.Equal(found, []string{"golden", "testing"}) {
		t.Errorf("package golden links %v, want golden and testing: this test finds nothing", found)
	}
}

func testSupportIn(paths []string) (found []string) {
	for _, path := range paths {
		if name := strings.TrimPrefix(path, module); path == "testing" || name != path && slices.Contains(testSupport, name) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
