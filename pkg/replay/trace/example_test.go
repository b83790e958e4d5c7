package trace_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

// The same profile and seed give the same requests on every machine.
func ExampleGenerate() {
	day, err := trace.Generate(trace.Profile{Rate: 2, Swing: 0.5, Peak: 14 * time.Hour, Duration: 24 * time.Hour, Seed: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	hours := day.Bins(time.Hour)
	fmt.Println(len(hours), "hours, more requests at 14:00 than at 2:00:", hours[14] > hours[2])
	// Output:
	// 24 hours, more requests at 14:00 than at 2:00: true
}
