package source_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/fetch"
	"github.com/gpuscaler/gpuscaler/pkg/telemetry/source"
)

func ExampleCauseOf() {
	fmt.Println(source.CauseOf(&fetch.StatusError{Code: 403}))
	fmt.Println(source.CauseOf(fetch.ErrTruncated))
	// Output:
	// forbidden
	// answer cut off
}
