package policystatus_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/policystatus"
	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/policy/store"
)

func ExampleText() {
	text, _ := policystatus.Text(&store.CarrierStatus{
		Kind: "ConfigMap", Namespace: "team-chat", Name: "chat-policies", State: store.Refused,
		Problems: []policy.Problem{{File: "ConfigMap team-chat/chat-policies/chat.yaml", Line: 8, Field: "spec.signals[0].target",
			Message: "is not a number", Found: `"ten"`}},
	})
	fmt.Println(text)
	// Output: refused: chat.yaml line 8: spec.signals[0].target: is not a number; found "ten"; no policy is in force as written
}
