package tracefile_test

import (
	"fmt"
	"strings"

	"github.com/gpuscaler/gpuscaler/pkg/replay/tracefile"
)

// A request log with usual names of columns needs no options.
func ExampleRead() {
	log := "timestamp,prompt_tokens,completion_tokens\n0.0,120,80\n1.5,300,200\n"
	t, err := tracefile.Read("log.csv", strings.NewReader(log), tracefile.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for r := range t.All() {
		fmt.Println(r.At, r.InputTokens, r.OutputTokens)
	}
	// Output:
	// 0s 120 80
	// 1.5s 300 200
}
