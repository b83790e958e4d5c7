package advise_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/replay/advise"
)

// A user without a policy gets a policy with the recommended settings.
func ExampleNewDocument() {
	text, err := advise.NewDocument("team-chat", "llama-chat").With(advise.Setting{MinReplicas: 1, MaxReplicas: 4, Percentile: 99})
	fmt.Println(len(text) > 0, err)
}
