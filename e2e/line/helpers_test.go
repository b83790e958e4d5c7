package line

import (
	"testing"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard"
)

func namespace(t *testing.T, name string) string {
	t.Helper()
	if err := shared.Namespace(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return name
}

func explain(t *testing.T, policy string) dashboard.Explanation {
	t.Helper()
	e, err := gpuscaler.Explain(t.Context(), policy)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
