package decode_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy/decode"
)

func ExampleCollector_RejectText() {
	c := decode.Collector{File: "ScaledObject team-chat/llama-chat"}
	c.RejectText("gpuscaler.io/mode", "x", "is unknown", "auto, advisory or hold")
	fmt.Println(c.Failed(), c.Problems[0].Field, c.Problems[0].Allowed)
	// Output: true gpuscaler.io/mode auto, advisory or hold
}
