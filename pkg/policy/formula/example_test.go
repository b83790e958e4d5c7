package formula_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy/formula"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

func ExampleCompile() {
	f, err := formula.Compile("has(queue.value) ? queue.replicas : ready", []scaling.Signal{{Name: "queue"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f([]scaling.Proposal{{Value: 40, Replicas: 4, Known: true}}, 6, 5))
	fmt.Println(f([]scaling.Proposal{{}}, 6, 5)) // the signal is missing
	// Output:
	// 4 true
	// 5 true
}
