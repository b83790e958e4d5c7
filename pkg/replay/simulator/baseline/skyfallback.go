package baseline

import (
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
)

// SkyFallback is SkyServe's dynamic on-demand fallback (SpotHedge). It scales a workload on on-demand nodes, beside another workload whose
// replicas run only on spot nodes. It keeps one on-demand replica for each requested spot replica that is not ready. It decides every 20 s,
// and removes on-demand replicas when spot replicas are ready again.
type SkyFallback struct {
	Spot     string // the name of the workload on spot, in the same namespace
	Demanded int32
}

// NewActuator returns f, which has no state. As a method value it is an autoscaler.Factory.
func (f SkyFallback) NewActuator() autoscaler.Actuator { return f }

// Act implements autoscaler.Actuator.
func (f SkyFallback) Act(s *autoscaler.Scene) autoscaler.Move {
	m := autoscaler.Move{Replicas: f.Demanded, Asked: f.Demanded, Idle: ledger.Minimum, Again: skyInterval}
	if ready, ok := s.ReadyOf(f.Spot); ok {
		m.Replicas = max(0, f.Demanded-ready)
		m.Asked = m.Replicas
	}
	return m
}
