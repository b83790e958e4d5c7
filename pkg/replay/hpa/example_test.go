package hpa_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/replay/hpa"
)

// 87 queued requests with a target of 10 per replica need 9 replicas.
func ExampleAverageValue() {
	fmt.Println(hpa.AverageValue(hpa.Milli(87), hpa.Milli(10), 6, hpa.Tolerances{}))
	// Output: 9
}
