package simulator

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Series contains values of a run over time, with a point every Resolution after the start.
type Series struct {
	Resolution time.Duration
	Loads      []LoadSeries // sorted by key
	Pools      []PoolSeries
	Cost       []float64 // cost in $ since the start of the report part
}

// LoadSeries contains values of one workload over time. All columns have the same length.
type LoadSeries struct {
	Key      scaling.Key
	Arrived  []int32 // requests that arrived since the previous point
	Started  []int32 // requests whose service began since the previous point
	Late     []int32 // started requests that were late
	Target   []int32 // spec.replicas
	Decided  []int32 // target of gpuscaler; -1 if there is none
	Ready    []int32
	Loading  []int32
	Pending  []int32
	Draining []int32
	Queue    []int32
	Running  []int32
}

// PoolSeries contains values of one NodePool over time.
type PoolSeries struct {
	Name, CapacityType string
	Nodes              []int32 // all billed nodes
	Usable             []int32
}

// series collects the points of a Series during a run.
type series struct {
	Series
	before []counts // counts of each load at the previous point of the series
}

type counts struct{ arrived, started, late int64 }

func (s *series) take(w *Simulator) {
	if s.Loads == nil {
		s.Resolution = w.config.Resolution
		s.before = make([]counts, len(w.loads))
		for _, l := range w.loads {
			s.Loads = append(s.Loads, LoadSeries{Key: l.key})
		}
		for _, p := range w.nodes.Pools() {
			s.Pools = append(s.Pools, PoolSeries{Name: p.Config().Name, CapacityType: p.Config().CapacityType})
		}
	}
	for i, l := range w.loads {
		s.Loads[i].take(l, &s.before[i])
	}
	cost := 0.0
	for i, p := range w.nodes.Pools() {
		out := &s.Pools[i]
		out.Nodes, out.Usable = append(out.Nodes, int32(len(p.Nodes()))), append(out.Usable, int32(p.Usable()))
		if w.queue.Now >= w.config.ReportFrom {
			reported := p.Reported()
			cost += p.Cost(&reported)
		}
	}
	s.Cost = append(s.Cost, cost)
}

func (s *LoadSeries) take(l *load, b *counts) {
	now := counts{l.arrived, l.waits.Count, l.waits.Late}
	decided := int32(-1)
	if served, err := l.w.engine.Decisions().Lookup(l.key, l.w.Time()); err == nil {
		decided = served.Replicas
	}
	for _, c := range []struct {
		column *[]int32
		value  int64
	}{
		{&s.Arrived, now.arrived - b.arrived}, {&s.Started, now.started - b.started}, {&s.Late, now.late - b.late},
		{&s.Target, int64(l.target)}, {&s.Decided, int64(decided)}, {&s.Ready, int64(l.ready)}, {&s.Loading, int64(l.loading)},
		{&s.Pending, int64(l.pending)}, {&s.Draining, int64(l.draining)}, {&s.Queue, int64(l.queue.n)}, {&s.Running, int64(l.running)},
	} {
		*c.column = append(*c.column, int32(c.value))
	}
	*b = now
}

// copy returns a copy of the series until now. Later points do not change the copy.
func (s *series) copy() *Series {
	out := s.Series
	out.Cost = slices.Clone(out.Cost)
	out.Loads = slices.Clone(out.Loads)
	out.Pools = slices.Clone(out.Pools)
	return &out
}
