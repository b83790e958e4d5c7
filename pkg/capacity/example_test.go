package capacity_test

import (
	"fmt"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// A group without demand gets a limit of 0 after five minutes. The owner's value is stored in the record annotation and is restored when
// a pod is pending.
func ExampleDecide() {
	group, err := capacity.NewGroup(capacity.Group{Name: "chat", Resource: "nvidia.com/gpu", ZeroLimit: true,
		Pools: []capacity.Pool{{Name: "l40s-spot", Type: capacity.Spot}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	limit := nodepool.LimitView{Resource: "nvidia.com/gpu", FieldView: nodepool.FieldView{Value: "16", Owner: "kubectl"}}
	pool := capacity.PoolView{Exists: true, Ready: true,
		View: nodepool.View{Consent: nodepool.ConsentLimits, Limits: []nodepool.LimitView{limit}}}
	start := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

	var state capacity.State
	for _, now := range []time.Time{start, start.Add(5 * time.Minute)} {
		var decision capacity.Decision
		decision, state = capacity.Decide(group, capacity.Observation{Pools: []capacity.PoolView{pool}}, state, now)
		for _, r := range decision.Reasons {
			fmt.Printf("%s: %s\n", r.Rule, r.Text(group.Names()))
		}
		for _, a := range decision.Actions {
			fmt.Print(a.Text())
		}
	}
	// Output:
	// demand: pods and policies request 0 GPUs: policies 0, other pods 0
	// no zero limit: no pod or policy requests nvidia.com/gpu: limits[nvidia.com/gpu] becomes 0 in every NodePool of group chat at 00:05 UTC
	// demand: pods and policies request 0 GPUs: policies 0, other pods 0
	// zero limit: no pod or policy requests nvidia.com/gpu: limits[nvidia.com/gpu] is 0 in every NodePool of group chat
	// l40s-spot spec.limits[nvidia.com/gpu]: 16 -> "0"  (zero limit)
}

// A pod waits for a spot node. After the spot wait timeout the phase changes to fallback, and Karpenter launches new nodes as on-demand
// nodes.
func ExampleDecide_fallback() {
	group, err := capacity.NewGroup(capacity.Group{Name: "chat", Resource: "nvidia.com/gpu", SpotWaitTimeout: 4 * time.Minute,
		Pools: []capacity.Pool{{Name: "l40s-spot", Type: capacity.Spot}, {Name: "l40s-od", Type: capacity.OnDemand}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	spot := capacity.PoolView{Exists: true, Ready: true, View: nodepool.View{Consent: nodepool.ConsentLimits | nodepool.ConsentWeight,
		Weight: nodepool.FieldView{Value: "80"}}}
	onDemand := spot
	onDemand.Weight.Value = "20"
	observation := capacity.Observation{
		Pools:         []capacity.PoolView{spot, onDemand},
		UnmanagedPods: []capacity.Pod{{UID: "pending", GPUs: 1, Pool: -1, Pending: true}},
	}
	start := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

	var state capacity.State
	before := statemachine.PreferSpot
	for now := start; now.Before(start.Add(5 * time.Minute)); now = now.Add(time.Second) {
		var decision capacity.Decision
		decision, state = capacity.Decide(group, observation, state, now)
		if decision.Phase != before {
			fmt.Println(now.Format("15:04:05"), before, "->", decision.Phase)
			before = decision.Phase
		}
	}
	// Output: 09:04:00 prefer spot -> fallback
}
