package transitions_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/transitions"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// printer prints Events instead of sending them to the API server.
type printer struct{}

func (printer) Send(about corev1.ObjectReference, _, reason, note string) {
	fmt.Printf("%s %s: %s: %s\n", about.Kind, about.Name, reason, note)
}

// Two changes within half a minute are reported by one Event.
func ExampleReporter() {
	reporter := transitions.New(printer{}, func(w *scaling.Workload) (corev1.ObjectReference, bool) {
		return corev1.ObjectReference{Kind: "Deployment", Name: w.Target.Name}, true
	})
	w := &scaling.Workload{Key: scaling.Key{Namespace: "team-chat", Name: "llama"}, Target: scaling.Target{Name: "llama"}}
	w.Policy = &scaling.Policy{}
	change := func(before, after int32) []engine.Change {
		return []engine.Change{{Workload: w, Before: before, After: scaling.Decision{Replicas: after, Binding: scaling.RuleCombine}}}
	}
	now := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after  time.Duration
		change []engine.Change
	}{{0, change(3, 5)}, {10 * time.Second, change(5, 6)}, {20 * time.Second, change(6, 8)}, {40 * time.Second, nil}} {
		reporter.Add(c.change)
		reporter.SendDue(now.Add(c.after))
	}
	// Output:
	// Deployment llama: TargetChanged: 3 -> 5: combine (policy team-chat/llama)
	// Deployment llama: TargetChanged: 5 -> 8: combine (policy team-chat/llama)
}
