package measure_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
)

// A user states what the custom signal "depth" measures in a replay.
func ExampleParse() {
	measures, err := measure.Parse(map[string]string{"depth": "queue"})
	fmt.Println(measures["depth"] == measure.Queue, err)
	// Output: true <nil>
}
