package explain_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/dashboard/explain"
)

// The controller logs one explanation for each transition. FromLog finds the explanation that applied at a given time.
func ExampleFromLog() {
	log := `{"msg":"transition","explanation":{"policy":"team-chat/llama-chat","at":"2026-11-20T09:00:00Z","from":4,"target":6}}
{"msg":"transition","explanation":{"policy":"team-chat/llama-chat","at":"2026-11-20T09:04:06Z","from":6,"target":9}}`
	at := time.Date(2026, 11, 20, 9, 2, 0, 0, time.UTC)
	found, err := explain.FromLog(strings.NewReader(log), at)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(found[0].Policy, found[0].Target)
	// Output: team-chat/llama-chat 6
}
