package promquery_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/telemetry/promquery"
)

// Selectors that differ only in the values of their labels have the same Text. One query can therefore read all of them.
func ExampleParseShape() {
	a, _ := promquery.ParseShape(`sum by (namespace) (jobs{namespace="a", queue="x"})`)
	b, _ := promquery.ParseShape(`sum by (namespace) (jobs{namespace="b", queue="y"})`)
	fmt.Println(a.Text)
	fmt.Println(a.Text == b.Text)
	// Output:
	// sum by (namespace, queue) (jobs)
	// true
}
