package waits_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/waits"
)

func ExampleHistogram() {
	h := waits.Histogram{Limit: 10 * time.Second}
	for _, seconds := range []int{1, 2, 3, 14} {
		h.Add(time.Duration(seconds) * time.Second)
	}
	fmt.Println(h.Count, h.Late, h.OnTime(), h.Mean())
	// Output: 4 1 0.75 5s
}
