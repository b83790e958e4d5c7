package world

import (
	"context"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Current implements engine.Policies.
func (w *World) Current() []scaling.Workload { return w.policy }

// Read implements engine.Telemetry: what the last poll brought.
func (w *World) Read(of *scaling.Workload, out []scaling.Reading) {
	l := w.byKey[of.Key]
	if l == nil {
		clear(out)
		return
	}
	l.read(out)
}

// View implements engine.Cluster.
func (w *World) View(of *scaling.Workload) (engine.View, bool) {
	l := w.byKey[of.Key]
	if l == nil {
		return engine.View{}, false
	}
	v := engine.View{
		Replicas: l.target, Ready: l.ready, Loading: l.loading, Pending: l.pending, GPUs: l.gpus,
		MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator,
	}
	if f, ok := l.actuator.(interface{ Follower() engine.Follower }); ok {
		v.Follower = f.Follower()
	}
	return v, true
}

// Apply implements engine.Cluster. The world's activator looks at the board after each tick, as a follower does, so nothing is left to do here.
func (w *World) Apply(context.Context, []engine.Change) error { return nil }
