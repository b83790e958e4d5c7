package scaling_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/explain"
)

// A queue of 893 requests with a target of 6 per replica needs more replicas than the policy allows.
func ExampleDecide() {
	policy := &scaling.Policy{
		Signals:     []scaling.Signal{{Name: "queue", Kind: scaling.Total, Target: 6, MaxAge: time.Minute}},
		MinReplicas: 1, MaxReplicas: 12,
	}
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	observation := scaling.Observation{
		Replicas: 4, Ready: 4, Advice: scaling.NoAdvice, Operator: scaling.NoOperator,
		Readings: []scaling.Reading{{Value: 893, At: now, Coverage: 1, Known: true}},
	}
	decision, state := scaling.Decide(policy, observation, scaling.State{}, now)
	fmt.Println(explain.Decision(&decision, policy))

	// The caller stores the state for the next tick. Without a reading, the target does not decrease.
	now = now.Add(15 * time.Second)
	observation.Replicas, observation.Readings = 12, []scaling.Reading{{Cause: scaling.CauseUnreachable}}
	decision, _ = scaling.Decide(policy, observation, state, now)
	fmt.Println(explain.Decision(&decision, policy))
	// Output:
	// 12 replicas: queue 893 needs 149 replicas (target 6 per replica); capped at maxReplicas 12
	// 12 replicas: queue is missing: no scale-down
}

// Without returns the target that the same tick would have without one of its rules. Here it leaves out the binding rule.
func ExampleWithout() {
	policy := &scaling.Policy{
		Signals:   []scaling.Signal{{Name: "queue", Target: 10, MaxAge: time.Minute}},
		ScaleDown: scaling.Direction{Rates: []scaling.RatePolicy{{Type: scaling.Pods, Value: 1, Period: time.Minute}}}, MaxReplicas: 12,
	}
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	state := scaling.Seed(policy, 4, now.Add(-time.Hour))
	observation := scaling.Observation{
		Replicas: 4, Ready: 4, Advice: scaling.NoAdvice, Operator: scaling.NoOperator,
		Readings: []scaling.Reading{{Value: 10, At: now, Coverage: 1, Known: true}},
	}
	decision, _ := scaling.Decide(policy, observation, state, now)
	fmt.Println(explain.Decision(&decision, policy))
	n := scaling.Without(policy, observation, state, now, decision.Binding, decision.BindingIndex)
	fmt.Printf("without the %v: %d\n", decision.Binding, n)
	// Output:
	// 3 replicas: queue 10 needs 1 replica (target 10 per replica); scale-down limited to 1 pod per 60s (4 replicas 60s ago)
	// without the rate limit: 1
}
