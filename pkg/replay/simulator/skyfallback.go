package simulator

// SkyFallback is SkyServe's dynamic on-demand fallback (SpotHedge) for another workload whose replicas run only on spot. It keeps one
// on-demand replica for each requested spot replica that is not ready. It decides every 20 s, and removes on-demand replicas when spot
// replicas are ready again.
type SkyFallback struct {
	Spot     string // the name of the workload on spot, in the same namespace
	Demanded int32
}

// NewActuator implements ActuatorFactory.
func (f SkyFallback) NewActuator() Actuator { return f }

// Act implements Actuator.
func (f SkyFallback) Act(s *Scene) Move {
	key := s.l.key
	key.Name = f.Spot
	m := Move{Replicas: f.Demanded, Asked: f.Demanded, Idle: Minimum, Again: skyInterval}
	if l := s.l.w.byKey[key]; l != nil {
		m.Replicas = max(0, f.Demanded-l.ready)
		m.Asked = m.Replicas
	}
	return m
}

// Ready returns the number of ready replicas of all workloads.
func (w *Simulator) Ready() (n int32) {
	for _, l := range w.loads {
		n += l.ready
	}
	return n
}

// ReplicasWithoutNode returns the number of replicas of all workloads without a node, not even a starting one.
func (w *Simulator) ReplicasWithoutNode() (n int32) {
	for _, r := range w.waiting {
		if r.withoutNode() {
			n++
		}
	}
	return n
}

// Nodes returns the number of billed nodes of a pool, or 0 if there is no such pool.
func (w *Simulator) Nodes(pool string) int {
	if p := w.pool(pool); p != nil {
		return len(p.nodes)
	}
	return 0
}
