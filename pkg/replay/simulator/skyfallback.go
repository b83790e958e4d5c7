package simulator

// SkyFallback is SkyServe's dynamic on-demand fallback (SpotHedge): beside replicas that run on spot only, as many on demand as these
// are short of what is demanded, looked at each 20 s; once spot is Ready again they go.
type SkyFallback struct {
	Spot     string // the name of the workload on spot, in the same namespace
	Demanded int32
}

// Make makes fallbacks.
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

// Ready is how many replicas of all workloads are ready.
func (w *Simulator) Ready() (n int32) {
	for _, l := range w.loads {
		n += l.ready
	}
	return n
}

// Homeless is how many replicas of all workloads have no node, not even one on its way.
func (w *Simulator) ReplicasWithoutNode() (n int32) {
	for _, r := range w.waiting {
		if r.homeless() {
			n++
		}
	}
	return n
}

// Nodes is how many nodes of a pool are paid for; 0 where there is none of the name.
func (w *Simulator) Nodes(pool string) int {
	if p := w.pool(pool); p != nil {
		return len(p.nodes)
	}
	return 0
}
