package lint_test

import (
	"errors"
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/lint"
)

func ExampleErrors() {
	found := []lint.Finding{lint.Unreachable("prometheus", errors.New("connection refused"))}
	fmt.Println(lint.Errors(found), found[0].What)
	// Output: 1 it does not respond: connection refused
}
