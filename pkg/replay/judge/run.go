package judge

import (
	"context"
	"math"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/world"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// mostReasons bounds the list of a run: a policy that flaps for a fortnight would fill a report with itself.
const mostReasons = 2000

// run plays the case once; maker is nil for the policy itself.
func (c *Case) run(ctx context.Context, maker world.Maker, told func(time.Duration)) (Run, error) {
	var out Run
	w, err := world.New(c.config(maker, c.listen(&out)))
	if err != nil {
		return out, err
	}
	next := time.Duration(0)
	err = w.Run(ctx, c.horizon(), func(engine.Outcome) {
		if told != nil && w.Now() >= next {
			told(w.Now())
			next = w.Now() + c.horizon()/200
		}
	})
	if err != nil {
		return out, err
	}
	out.take(w.Result(), c.SLO.Share)
	out.NodeStarts -= int64(c.initial()) // those that stood there; a node holds one replica
	return out, nil
}

// listen gathers the reasons of the policy's changes.
func (c *Case) listen(out *Run) func(engine.Record) {
	last := int32(math.MinInt32)
	return func(r engine.Record) {
		if r.Decision.Replicas == last {
			return
		}
		last = r.Decision.Replicas
		if len(out.Reasons) >= mostReasons || c.SeriesPoints == 0 {
			out.ReasonsLeftOut++
			return
		}
		out.Reasons = append(out.Reasons, reasonOf(r, c.start()))
	}
}

func reasonOf(r engine.Record, start time.Time) Reason {
	d, p := &r.Decision, r.Workload.Policy
	out := Reason{At: r.At.Sub(start).Seconds(), From: r.Before, To: d.Replicas, Ready: r.View.Ready, Rule: d.Binding.String()}
	for _, reason := range d.Reasons.All() {
		if reason.Rule == d.Binding && reason.Index == d.BindingIndex {
			out.Text = reason.Text(p)
		}
	}
	if d.Binding == scaling.RuleCombine && d.BindingIndex >= 0 && int(d.BindingIndex) < len(p.Signals) {
		out.Rule += " (" + p.Signals[d.BindingIndex].Name + ")"
	}
	return out
}

// take fills in what a world's result says.
func (r *Run) take(from *world.Result, share float64) {
	l := &from.Loads[0]
	r.MeetsSLO = l.OnTime >= share
	r.Cost, r.CostBy, r.GPUHours = from.Cost, from.CostBy, from.Paid.Hours()
	r.OnTime = l.OnTime
	r.Wait = Waits{l.Mean.Seconds(), l.P50.Seconds(), l.P95.Seconds(), l.P99.Seconds(), l.Max.Seconds()}
	r.Utilization = l.Utilization
	if from.Paid > 0 {
		r.Productive = float64(from.Ledger[world.Serving]) / float64(from.Paid)
	}
	r.ReplicaStarts, r.ScaleUps, r.ScaleDowns, r.AtZero = l.ReplicaStarts, l.ScaleUps, l.ScaleDowns, l.AtZero.Seconds()
	r.ReplicasLost, r.Arrived, r.Served, r.Requeued = l.Lost, l.Arrived, l.Served, l.Requeued
	for i := range from.Pools {
		r.NodeStarts += from.Pools[i].NodeStarts
		r.SpotLosses += from.Pools[i].SpotLosses
		r.CapacityRefusals += from.Pools[i].Refusals
	}
	r.Ledger, r.Series = from.Ledger, from.Series
}

// better tells whether a is to be preferred at an SLO: first who meets it, then who is cheaper; among those that miss it, who misses
// it by less.
func better(a, b *Run) bool {
	switch {
	case a.MeetsSLO != b.MeetsSLO:
		return a.MeetsSLO
	case a.MeetsSLO:
		return a.Cost < b.Cost
	case a.OnTime != b.OnTime:
		return a.OnTime > b.OnTime
	}
	return a.Cost < b.Cost
}
