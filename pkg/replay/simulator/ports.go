package simulator

import (
	"context"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Current implements engine.Policies. It returns the workloads that have a policy.
func (w *Simulator) Current() []scaling.Workload { return w.policy }

// Read implements engine.Telemetry. It returns the readings of the last poll.
func (w *Simulator) Read(of *scaling.Workload, out []scaling.Reading) {
	l := w.byKey[of.Key]
	if l == nil {
		clear(out)
		return
	}
	l.read(out)
}

// View implements engine.Cluster. It returns the replicas of the workload by state, and its managed HPA.
func (w *Simulator) View(of *scaling.Workload) (engine.View, bool) {
	l := w.byKey[of.Key]
	if l == nil {
		return engine.View{}, false
	}
	v := engine.View{
		Replicas: l.target, Ready: l.ready, Loading: l.loading, Pending: l.pending, GPUs: l.gpus, Started: l.started,
		MinReplicas: -1, MaxReplicas: -1, Operator: scaling.NoOperator,
	}
	if f, ok := l.actuator.(interface{ ManagedHPA() engine.ManagedHPA }); ok {
		v.ManagedHPA = f.ManagedHPA()
	}
	return v, true
}

// Apply implements engine.Cluster. The simulated activator reads the decisions after each tick, so Apply does nothing.
func (w *Simulator) Apply(context.Context, []engine.Change) error { return nil }

// Request implements engine.Requests. It returns the GPUs that one replica of the workload requests, and the GPUs that all its replicas
// request. The GPUs count as the resource of the workload's capacity group, or nvidia.com/gpu without a group. For any other resource,
// Request returns 0.
func (w *Simulator) Request(of *scaling.Workload, resource string) (perReplica int64, known bool, pods int64) {
	l := w.byKey[of.Key]
	if l == nil {
		return 0, false, 0
	}
	own := "nvidia.com/gpu"
	for _, g := range w.config.Groups {
		if g.Name == of.Group {
			own = g.Resource
		}
	}
	if resource != own {
		return 0, true, 0
	}
	return int64(l.gpus), true, int64(l.gpus) * int64(len(l.replicas))
}

// Unmanaged implements engine.Requests. It returns the GPUs of workloads without a policy in the namespaces of the team.
func (w *Simulator) Unmanaged(team *scaling.Team, of []*scaling.Workload, resource string) (sum int64) {
	for _, l := range w.loads {
		managed := slices.ContainsFunc(of, func(p *scaling.Workload) bool { return p.Key == l.key })
		if !managed && slices.Contains(team.Namespaces, l.key.Namespace) && resource == "nvidia.com/gpu" {
			sum += int64(l.gpus) * int64(len(l.replicas))
		}
	}
	return sum
}
