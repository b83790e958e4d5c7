package explain_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/explain"
)

// The queue needs more replicas than maxReplicas. The text begins with the target, and then names the signal and the rule.
func ExampleDecision() {
	policy := &scaling.Policy{
		Signals:     []scaling.Signal{{Name: "queue", Kind: scaling.Total, Target: 10, MaxAge: time.Minute}},
		MinReplicas: 1, MaxReplicas: 12,
	}
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	observation := scaling.Observation{Replicas: 4, Ready: 4, Advice: scaling.NoAdvice, Operator: scaling.NoOperator,
		Readings: []scaling.Reading{{Value: 150, At: now, Coverage: 1, Known: true}}}
	decision, _ := scaling.Decide(policy, observation, scaling.State{}, now)
	fmt.Println(explain.Decision(&decision, policy))
	// Output: 12 replicas: queue 150 needs 15 replicas (target 10 per replica); capped at maxReplicas 12
}
