package printable_test

import (
	"fmt"
	"os"

	"github.com/gpuscaler/gpuscaler/pkg/printable"
)

func ExampleClean() {
	fmt.Println(printable.Clean("policy \x1b[2Jllama"))
	// Output: policy \u001b[2Jllama
}

func ExampleWriter() {
	w := printable.NewWriter(os.Stdout)
	fmt.Fprintln(w, "pod evil\u202egnp")
	// Output: pod evil\u202egnp
}
