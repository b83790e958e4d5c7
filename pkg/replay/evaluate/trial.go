package evaluate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/karpenter"
)

// trial is a set of cases that run in one simulated cluster. Settings of the cluster are read from the first case.
type trial []Case

// maxStartDistance limits the time between the start of the earliest recording and the start of any other recording. gather returns an
// error if this time is longer, because such recordings are probably not of the same period.
const maxStartDistance = 31 * 24 * time.Hour

// gather checks the cases and returns them as a trial. It draws the random requests of each case once, so that all runs have equal traffic.
// If there are several cases, the time between the starts of their recordings is the same in the replay as when they were recorded.
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
	// Traffic after the end is removed, so that the runs, the bounds and the counts use the same requests.
	for i := range out {
		out[i].Traffic = out[i].Traffic.Until(out[i].Horizon())
	}
	return out, out.checkParts()
}

// align sets missing start times of cases to begin. It delays the traffic of a recording that starts later than begin, and extends all
// cases to the end of the recording that ends last.
func (t trial) align(begin time.Time) error {
	for i := range t {
		c := &t[i]
		if c.Start.IsZero() && !c.Traffic.Start.IsZero() {
			late := c.Traffic.Start.Sub(begin)
			if late > maxStartDistance {
				return fmt.Errorf("replay: %s starts %s after the first trace: cut the traffic so that all traces cover the same time",
					c.Traffic.Name, late)
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
		last = max(last, t[i].Horizon())
		if i > 0 && !t[i].sameCluster(&t[0]) {
			errs = append(errs, fmt.Errorf("replay: %s and %s run in one simulated cluster, but their cluster settings differ",
				t[0].Policy.Workload.Key, t[i].Policy.Workload.Key))
		}
	}
	for i := range t {
		t[i].For = last
	}
	return errors.Join(errs...)
}

func (c *Case) sameCluster(o *Case) bool {
	return c.Start.Equal(o.Start) && slices.Equal(c.Spot, o.Spot) && reflect.DeepEqual(c.NodePools, o.NodePools) &&
		c.ColdStart == o.ColdStart && c.Hourly == o.Hourly && c.SpotHourly == o.SpotHourly && c.Seed == o.Seed && c.HeldOut == o.HeldOut &&
		c.SeriesPoints == o.SeriesPoints
}

// alone returns a trial that contains only this case, on the same nodes.
func (c *Case) alone() trial { return trial{*c} }

// actuatorFactories contains a factory for the actuator of each case. If a factory is nil, the policy of the case scales its workload.
type actuatorFactories []autoscaler.Factory

// ours returns one nil factory for each case, so that the policies scale their workloads.
func (t trial) ours() actuatorFactories { return make(actuatorFactories, len(t)) }

func (t trial) config(by actuatorFactories, observe func(engine.Record)) simulator.Config {
	c := &t[0]
	out := simulator.Config{
		Start: c.start(), Seed: c.Seed, NodePools: c.pools(), Fleet: karpenter.Fleet{HourlyPerGPU: c.Hourly},
		Assumptions: c.assumptions(), ReportFrom: c.reportFrom(), Resolution: -1, Engine: engine.Options{OnTransition: observe},
	}
	most := int32(1)
	for i := range t {
		out.Workloads = append(out.Workloads, t[i].workload(by[i]))
		most = max(most, t[i].GPUs)
	}
	if len(c.Spot) > 0 && most > out.NodePools[0].GPUs {
		widest := *c
		widest.GPUs = most
		out.NodePools = widest.pools()
	}
	if c.SeriesPoints > 0 {
		out.Resolution = max(slotLength, (c.Horizon() / time.Duration(c.SeriesPoints)).Truncate(time.Second))
	}
	return out
}

// run simulates the trial once. progress, which may be nil, receives the virtual time.
func (t trial) run(ctx context.Context, by actuatorFactories, progress func(time.Duration)) (Run, error) {
	out := Run{Workloads: make([]WorkloadRun, len(t))}
	w, err := simulator.New(t.config(by, t.listen(out.Workloads)))
	if err != nil {
		return out, err
	}
	initialNodes := nodeStarts(w.Result())
	horizon, next := t[0].Horizon(), time.Duration(0)
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
	if t[0].HeldOut == 0 {
		out.NodeStarts -= initialNodes
	}
	return out, nil
}

func nodeStarts(r *simulator.Result) (n int64) {
	for i := range r.Pools {
		n += r.Pools[i].NodeStarts
	}
	return n
}

// listen returns a callback that collects the reasons for target changes of the policies in the report part.
func (t trial) listen(out []WorkloadRun) func(engine.Record) {
	last, from := make([]int32, len(t)), t[0].start().Add(t[0].reportFrom())
	for i := range last {
		last[i] = math.MinInt32
	}
	return func(r engine.Record) {
		for i := range t {
			if t[i].Policy.Workload.Key != r.Workload.Key || r.Decision.Replicas == last[i] {
				continue
			}
			last[i] = r.Decision.Replicas
			if r.At.Before(from) {
				continue
			}
			if len(out[i].Reasons) >= maxReasons || t[i].SeriesPoints == 0 {
				out[i].ReasonsLeftOut++
				continue
			}
			out[i].Reasons = append(out[i].Reasons, reasonOf(r, t[i].start()))
		}
	}
}
