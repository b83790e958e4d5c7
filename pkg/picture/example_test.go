package picture_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/picture"
)

func ExampleTable() {
	fmt.Print(picture.Table{Heads: []string{"workload", "target"}, Rows: [][]any{{"llama-chat", "9"}, {"embed", "2"}}})
	// Output:
	// WORKLOAD    TARGET
	// llama-chat  9
	// embed       2
}
