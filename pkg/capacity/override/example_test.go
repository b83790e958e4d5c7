package override_test

import (
	"fmt"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/override"
)

// A rule requests another weight for a NodePool whose owner allows it. The patch contains the change and the owner's value.
func ExampleFields_Write() {
	view := &nodepool.View{Consent: nodepool.ConsentWeight, Weight: nodepool.FieldView{Value: "20", Owner: "kubectl"}}
	fields := override.Fields{Group: override.Group{Name: "chat", Resource: "nvidia.com/gpu"}, At: 1795392000000,
		State: &override.State{}, Report: &explain.Report{}}
	fields.Views[0] = view
	fields.Adopt(0)
	fields.Settle(0)
	fields.RequestNumber(0, nodepool.FieldWeight, 81, explain.RuleFallback)
	patch, _, due := fields.Write(0)
	fmt.Println(due, patch.Record != "")
	for _, c := range patch.Changes {
		fmt.Printf("%s: %s -> %s (%s), owner's value %s\n", c.Name(), c.From, c.To, c.Why(), c.Original)
	}
	// Output:
	// true true
	// weight: 20 -> 81 (spot fallback), owner's value 20
}
