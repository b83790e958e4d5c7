package policy_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
)

func ExampleRender() {
	fmt.Print(policy.Render([]policy.Problem{{File: "llama.yaml", Line: 7, Column: 16, Document: "ScalingPolicy team-chat/llama",
		Field: "spec.minReplicas", Message: "is above maxReplicas of 12", Found: "13", Allowed: "at most maxReplicas"}}))
	// Output:
	// llama.yaml:7:16: spec.minReplicas: is above maxReplicas of 12; found 13; allowed: at most maxReplicas [ScalingPolicy team-chat/llama]
}
