package activation_test

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cluster/activation"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/cache"
	"github.com/gpuscaler/gpuscaler/pkg/cluster/fixture"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// activated is a source of policies with activate: true.
type activated struct{ workloads []scaling.Workload }

func (p activated) Current() []scaling.Workload { return p.workloads }

// noTargets serves no target.
type noTargets struct{}

func (noTargets) Lookup(scaling.Key, time.Time) (engine.Served, error) {
	return engine.Served{}, engine.ErrUnknown
}

// A policy has activate: true, but gpuscaler is not allowed to write /scale in its namespace.
func ExampleActivator_Refused() {
	workload := *fixture.Workload("chat")
	workload.Activate = true
	objects := cache.New(0)
	objects.PutTarget(fixture.Must[*cache.Target](cache.TrimDeployment(fixture.Deployment("chat", 1, "1"))))
	a := activation.New(activation.Options{Cache: objects, Policies: cache.NewPolicies(activated{[]scaling.Workload{workload}}),
		Log: slog.New(slog.DiscardHandler)})
	a.Serve(noTargets{})
	for _, problem := range a.Refused() {
		fmt.Println(strings.ReplaceAll(problem.Text, ": add", ":\nadd"))
	}
	// Output:
	// policy team/chat has activate: true, but gpuscaler is not allowed to write /scale in namespace team:
	// add it to activator.namespaces of the chart (--activate-namespaces), or remove activate
}
