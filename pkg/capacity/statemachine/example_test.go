package statemachine_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

func ExampleStamp() {
	fmt.Println(statemachine.Stamp(time.Unix(90, 0)))
	// Output: 90000
}
