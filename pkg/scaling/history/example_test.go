package history_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
)

func ExamplePair() {
	fmt.Println(history.Halves(history.Pair(3, 4)))
	// Output: 3 4
}
