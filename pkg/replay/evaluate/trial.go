package evaluate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
)

// trial is what one world runs: its cases side by side. What belongs to the world is read from the first.
type trial []Case

// mostApart bounds how far apart recorded traffic may begin: more is two recordings that never met, and weeks without any request.
const maxStartDistance = 31 * 24 * time.Hour

// gather draws each case's traffic once, rather than by every run, and puts all on one clock: recordings that name their start begin as
// far apart as they did.
func gather(cases []Case) (trial, error) {
	out := make(trial, len(cases))
	var begin time.Time
	for i := range cases {
		c := cases[i]
		if err := c.check(); err != nil {
			return nil, err
		}
		drawn, err := c.Traffic.Drawn(0)
		if err != nil {
			return nil, err
		}
		c.Traffic, c.recorded = drawn, c.Traffic.Kind
		out[i] = c
		if at := c.Traffic.Start; c.Start.IsZero() && !at.IsZero() && (begin.IsZero() || at.Before(begin)) {
			begin = at
		}
	}
	if len(out) > 1 {
		err := out.align(begin)
		if err != nil {
			return nil, err
		}
	}
	// What comes after the end is no part of the case: the run does not see it, so neither do the bounds and the counts.
	for i := range out {
		out[i].Traffic = out[i].Traffic.Until(out[i].horizon())
	}
	return out, nil
}

// align lets all begin at one instant, and end with the last.
func (t trial) align(begin time.Time) error {
	for i := range t {
		c := &t[i]
		if c.Start.IsZero() && !c.Traffic.Start.IsZero() {
			late := c.Traffic.Start.Sub(begin)
			if late > maxStartDistance {
				return fmt.Errorf("replay: %s begins %s after the first of the others: cut the traffic, so that it is of one time", c.Traffic.Name, late)
			}
			c.Traffic = c.Traffic.Delayed(late)
		}
		if c.Start.IsZero() {
			c.Start = begin
		}
	}
	var errs []error
	last := time.Duration(0)
	for i := range t {
		last = max(last, t[i].horizon())
		if i > 0 && !t[i].sameCluster(&t[0]) {
			errs = append(errs, fmt.Errorf("replay: %s and %s are judged together, and name two worlds", t[0].Policy.Workload.Key, t[i].Policy.Workload.Key))
		}
	}
	for i := range t {
		t[i].For = last
	}
	return errors.Join(errs...)
}

func (c *Case) sameCluster(o *Case) bool {
	return c.Start.Equal(o.Start) && c.Spot == o.Spot && reflect.DeepEqual(c.NodePools, o.NodePools) && c.ColdStart == o.ColdStart &&
		c.Hourly == o.Hourly && c.SpotHourly == o.SpotHourly && c.Seed == o.Seed && c.SeriesPoints == o.SeriesPoints
}

// alone is one case as a trial of its own, on the same nodes.
func (c *Case) alone() trial { return trial{*c} }

// makers are what moves each case's replicas; nil: its policy.
type actuatorFactories []simulator.ActuatorFactory

// ours lets the policies decide.
func (t trial) ours() actuatorFactories { return make(actuatorFactories, len(t)) }

func (t trial) config(by actuatorFactories, observe func(engine.Record)) simulator.Config {
	c := &t[0]
	out := simulator.Config{
		Start: c.start(), Seed: c.Seed, NodePools: c.pools(), Fleet: simulator.Fleet{HourlyPerGPU: c.Hourly},
		Assumptions: c.assumptions(), Resolution: -1, Engine: engine.Options{OnTransition: observe},
	}
	most := int32(1)
	for i := range t {
		out.Workloads = append(out.Workloads, t[i].workload(by[i]))
		most = max(most, t[i].GPUs)
	}
	if c.Spot != nil && most > out.NodePools[0].GPUs {
		widest := *c
		widest.GPUs = most
		out.NodePools = widest.pools()
	}
	if c.SeriesPoints > 0 {
		out.Resolution = max(slotLength, (c.horizon() / time.Duration(c.SeriesPoints)).Truncate(time.Second))
	}
	return out
}

// run plays the trial once.
func (t trial) run(ctx context.Context, by actuatorFactories, progress func(time.Duration)) (Run, error) {
	out := Run{Workloads: make([]WorkloadRun, len(t))}
	w, err := simulator.New(t.config(by, t.listen(out.Workloads)))
	if err != nil {
		return out, err
	}
	initialNodes := nodeStarts(w.Result())
	horizon, next := t[0].horizon(), time.Duration(0)
	err = w.Run(ctx, horizon, func(engine.Outcome) {
		if progress != nil && w.Now() >= next {
			progress(w.Now())
			next = w.Now() + horizon/200
		}
	})
	if err != nil {
		return out, err
	}
	out.take(t, w.Result())
	out.NodeStarts -= initialNodes
	return out, nil
}

func nodeStarts(r *simulator.Result) (n int64) {
	for i := range r.Pools {
		n += r.Pools[i].NodeStarts
	}
	return n
}

// listen gathers the reasons of the policies' changes.
func (t trial) listen(out []WorkloadRun) func(engine.Record) {
	last := make([]int32, len(t))
	for i := range last {
		last[i] = math.MinInt32
	}
	return func(r engine.Record) {
		for i := range t {
			if t[i].Policy.Workload.Key != r.Workload.Key || r.Decision.Replicas == last[i] {
				continue
			}
			last[i] = r.Decision.Replicas
			if len(out[i].Reasons) >= maxReasons || t[i].SeriesPoints == 0 {
				out[i].ReasonsLeftOut++
				continue
			}
			out[i].Reasons = append(out[i].Reasons, reasonOf(r, t[i].start()))
		}
	}
}
