package evaluate

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/search"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/ledger"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/explain"
)

// maxReasons limits the number of reasons in a run. Without this limit, a policy that changes its target every minute for two weeks fills
// the report with reasons.
const maxReasons = 2000

func reasonOf(r engine.Record, start time.Time) Reason {
	d, p := &r.Decision, r.Workload.Policy
	out := Reason{At: r.At.Sub(start).Seconds(), From: r.Before, To: d.Replicas, Ready: r.View.Ready,
		Rule: d.Binding.String(), Text: explain.Cause(d, p)}
	if d.Binding == scaling.RuleCombine && d.BindingIndex >= 0 && int(d.BindingIndex) < len(p.Signals) {
		out.Rule += " (" + p.Signals[d.BindingIndex].Name + ")"
	}
	return out
}

// take copies the results of the simulator into the run.
func (r *Run) take(t trial, from *simulator.Result) {
	for i := range t {
		w := &r.Workloads[i]
		w.Policy = t[i].Policy.Workload.Key.String()
		for j := range from.Loads {
			if from.Loads[j].Key == t[i].Policy.Workload.Key {
				w.GPUHours = from.Loads[j].Ledger.Sum().Hours()
				w.take(&from.Loads[j], t[i].SLO.Share)
			}
		}
	}
	r.Cost, r.CostBy, r.GPUHours = from.Cost, from.CostBy, from.Paid.Hours()
	if from.Paid > 0 {
		r.Productive = float64(from.Ledger[ledger.Serving]) / float64(from.Paid)
	}
	for i := range from.Pools {
		r.NodeStarts += from.Pools[i].NodeStarts
		r.SpotLosses += from.Pools[i].SpotLosses
		r.CapacityRefusals += from.Pools[i].Refusals
	}
	r.Ledger, r.Series = from.Ledger, from.Series
	r.gather()
}

func (l *Load) take(from *simulator.LoadResult, share float64) {
	l.MeetsSLO, l.OnTime, l.Utilization = from.OnTime >= share, from.OnTime, from.Utilization
	l.Wait = Waits{from.Mean.Seconds(), from.P50.Seconds(), from.P95.Seconds(), from.P99.Seconds(), from.Max.Seconds()}
	l.ReplicaStarts, l.ScaleUps, l.ScaleDowns, l.AtZero = from.ReplicaStarts, from.ScaleUps, from.ScaleDowns, from.AtZero.Seconds()
	l.ReplicasLost, l.Arrived, l.Served, l.Requeued = from.Lost, from.Arrived, from.Served, from.Requeued
}

// gather computes the results of a run from the results of its workloads. Counts are added. The share of requests on time and the waits are
// taken from the worst workload. The utilization is the mean, weighted by GPU hours. If there is only one workload, gather copies its
// results and removes it from the list.
func (r *Run) gather() {
	if len(r.Workloads) == 1 {
		r.Load, r.Workloads = r.Workloads[0].Load, nil
		return
	}
	r.MeetsSLO, r.OnTime = true, 1
	held := 0.0
	for i := range r.Workloads {
		w := &r.Workloads[i]
		r.MeetsSLO, r.OnTime = r.MeetsSLO && w.MeetsSLO, min(r.OnTime, w.OnTime)
		r.Wait = Waits{max(r.Wait.Mean, w.Wait.Mean), max(r.Wait.P50, w.Wait.P50), max(r.Wait.P95, w.Wait.P95),
			max(r.Wait.P99, w.Wait.P99), max(r.Wait.Max, w.Wait.Max)}
		r.ReplicaStarts += w.ReplicaStarts
		r.ScaleUps += w.ScaleUps
		r.ScaleDowns += w.ScaleDowns
		r.AtZero += w.AtZero
		r.ReplicasLost += w.ReplicasLost
		r.Arrived += w.Arrived
		r.Served += w.Served
		r.Requeued += w.Requeued
		r.Utilization += w.Utilization * w.GPUHours
		held += w.GPUHours
	}
	if held > 0 {
		r.Utilization /= held
	}
}

// Outcome returns the values by which a search compares runs.
func (r Run) Outcome() search.Outcome {
	return search.Outcome{MeetsSLO: r.MeetsSLO, OnTime: r.OnTime, Cost: r.Cost}
}
