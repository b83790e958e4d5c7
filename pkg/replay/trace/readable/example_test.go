package readable_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace/readable"
)

func ExampleDuration() {
	fmt.Println(readable.Duration(90*time.Second) != "")
	// Output: true
}
