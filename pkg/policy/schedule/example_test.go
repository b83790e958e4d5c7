package schedule_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/policy/schedule"
)

// Two zero windows are never open, so they do not overlap.
func ExampleFirstOverlap() {
	_, overlap := schedule.FirstOverlap(&calendar.Window{}, &calendar.Window{}, schedule.MaxSteps)
	fmt.Println(overlap)
}
