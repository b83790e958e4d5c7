package objective_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// A new model has no evidence. Its plan contains the reason why the safe policy determines it.
func ExampleModel_Plan() {
	m := objective.New()
	plan := m.Plan(time.Unix(1_800_000_000, 0), objective.Objective{Limit: 10 * time.Second, Percentile: 99},
		objective.Limits{Min: 1, Max: 8})
	fmt.Println(plan.EarliestScaleDown)
}
