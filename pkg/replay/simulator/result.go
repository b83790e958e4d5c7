package simulator

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
	"github.com/gpuscaler/gpuscaler/pkg/replay/waits"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// Result contains the results of a run until the current virtual time. After the beginning of the report part (Config.ReportFrom), the
// results cover only that part.
type Result struct {
	Duration time.Duration // length of the part that the results cover
	Loads    []LoadResult  // sorted by key
	Pools    []PoolResult
	Ledger   ledger.Ledger      // sum over all loads and pools; its total is Paid
	Paid     time.Duration      // GPU time of all nodes, from launch to removal
	Cost     float64            // cost in $
	CostBy   map[string]float64 // cost in $ by capacity type
	Series   *Series
}

// LoadResult is the result of one workload.
type LoadResult struct {
	Key      scaling.Key
	Arrived  int64 // requests that arrived in the part that the results cover; each is in one of Served, Running and Queued
	Served   int64
	Running  int64 // arrived requests that run at the end
	Queued   int64 // arrived requests that wait at the end
	Requeued int64 // requests that lost their replica and waited again

	// OnTime is the share of requests that waited at most Limit. A request that has never started is included only if it is already late.
	OnTime              float64
	Limit               time.Duration
	Mean, P50, P95, P99 time.Duration
	Max                 time.Duration
	Waits               *waits.Histogram `json:"-"` // the distribution from which the waits are computed

	Utilization   float64 // used share of the ready replicas' slot time
	ReplicaStarts int64
	ScaleUps      int64
	ScaleDowns    int64
	Lost          int64         // replicas that ended because their node was lost or removed
	AtZero        time.Duration // time with a target of zero
	Ledger        ledger.Ledger // GPU time of the workload's replicas, by cause
}

// PoolResult is the result of one NodePool.
type PoolResult struct {
	Name, CapacityType string
	NodeStarts         int64
	SpotLosses         int64
	Refusals           int64         // launches refused for insufficient capacity
	Paid               time.Duration // GPU time that was paid for
	Cost               float64       // cost in $
	Ledger             ledger.Ledger // GPU time without a replica on the GPU, by cause
}

// Result returns the totals of the run until now. After the beginning of the report part, it returns only the totals of that part.
func (w *Simulator) Result() *Result {
	out := &Result{Duration: w.queue.Now - w.reportedFrom(), CostBy: map[string]float64{}, Series: w.series.copy()}
	for _, l := range w.loads {
		out.Loads = append(out.Loads, l.result())
	}
	for _, p := range w.nodes.Pools() {
		out.Pools = append(out.Pools, poolResult(p))
	}
	for i := range out.Loads {
		out.Ledger.Add(&out.Loads[i].Ledger)
	}
	for i := range out.Pools {
		p := &out.Pools[i]
		out.Ledger.Add(&p.Ledger)
		out.Paid += p.Paid
		out.Cost += p.Cost
		out.CostBy[p.CapacityType] += p.Cost
	}
	return out
}

func (l *load) result() LoadResult {
	n, waits, queued := l.reported(), l.waits, int64(0)
	for i := range l.queue.n {
		q := l.queue.at(i)
		if !l.counts(q) {
			continue
		}
		queued++
		waited := q.waited + l.w.queue.Now - q.queued
		if q.again {
			waits.Move(q.waited, waited)
		} else if waited > waits.Limit {
			waits.Add(waited)
		}
	}
	r := LoadResult{
		Key: l.key, Arrived: n.arrived, Served: n.served, Running: l.inSystem() - l.train.left - queued, Queued: queued,
		Requeued: n.requeued, OnTime: waits.OnTime(), Limit: waits.Limit, Mean: waits.Mean(),
		P50: waits.Quantile(0.5), P95: waits.Quantile(0.95), P99: waits.Quantile(0.99), Max: waits.Max, Waits: &waits,
		ReplicaStarts: n.starts, ScaleUps: n.moves[0], ScaleDowns: n.moves[1], Lost: n.lost, AtZero: n.zeroTime,
		Ledger: n.ledger(int64(l.service.Slots)),
	}
	if n.readyTime > 0 {
		r.Utilization = float64(n.runningTime) / float64(n.readyTime*int64(l.service.Slots))
	}
	return r
}

func poolResult(p *karpenter.Pool) PoolResult {
	b, config := p.Reported(), p.Config()
	r := PoolResult{
		Name: config.Name, CapacityType: config.CapacityType, NodeStarts: b.Started, SpotLosses: b.Lost, Refusals: b.Refusals,
		Paid: time.Duration(b.Paid) * time.Microsecond, Cost: p.Cost(&b),
	}
	for c, part := range b.Parts {
		r.Ledger[c] = time.Duration(part) * time.Microsecond
	}
	return r
}
