package promql_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy/promql"
)

func ExamplePerSecond() {
	rate, is := promql.PerSecond(`sum by (namespace) (increase(requests_total[1m]))`)
	fmt.Println(rate.PerSecond, rate.Aggregation == promql.Total, is)
	_, is = promql.PerSecond(`sum by (namespace) (queue_size)`)
	fmt.Println(is)
	// Output:
	// 60 true true
	// false
}
