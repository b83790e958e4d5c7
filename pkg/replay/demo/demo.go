// Package demo runs the simulation of `gpuscaler demo`: policies of three teams, a workload generator and a cluster, simulated by
// package simulator at an accelerated clock.
//
// New creates a Demo and Run simulates it. The servers of `gpuscaler demo` read the engine and the virtual clock of the Demo. The servers
// of `gpuscaler run` read the engine of the controller in the same way.
package demo

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/cost"
	"github.com/gpuscaler/gpuscaler/pkg/engine"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator"
	"github.com/gpuscaler/gpuscaler/pkg/replay/trace"
)

// DefaultSpeed simulates a day in 24 minutes.
const DefaultSpeed = 60

// Options configure the demo. The zero value runs the built-in scenario without an end.
type Options struct {
	Speed    float64       // virtual seconds per second of the clock; 0: DefaultSpeed; above MaxSpeed: the run does not wait
	For      time.Duration // virtual time after which the demo ends; 0: never or, if Requests is set, 15 minutes after their end
	Requests *trace.Trace  // traffic of the chat service; nil: the built-in workloads
	Seed     uint64
	// Clock sets the pace of the run; it is read about once a tick. If it is nil, the run does not wait.
	Clock func() time.Time
	// OnTransition is called for each change of a workload's decision, in the tick of the change.
	OnTransition func(engine.Record)
}

// MaxSpeed is the highest speed at which the run waits for the clock. At a higher speed, the run does not wait.
const MaxSpeed = 100_000

// Demo is a simulation that Run advances. During the run, any number of goroutines may read its decisions and its clock.
type Demo struct {
	options   Options
	simulator *simulator.Simulator
	now       atomic.Int64 // virtual time in Unix nanoseconds
	onTick    func(now time.Time)
}

// New creates the demo. The simulation starts with Run.
func New(o Options) (*Demo, error) {
	if o.Speed == 0 {
		o.Speed = DefaultSpeed
	}
	if !(o.Speed > 0) || o.For < 0 {
		return nil, errors.New("demo: the speed must be above 0, and the duration at least 0")
	}
	if o.For == 0 && o.Requests != nil {
		o.For = o.Requests.Duration + 15*time.Minute
	}
	config, err := scenario(o)
	if err != nil {
		return nil, err
	}
	config.Engine.OnTransition = o.OnTransition
	w, err := simulator.New(config)
	if err != nil {
		return nil, err
	}
	d := &Demo{options: o, simulator: w}
	d.now.Store(w.Time().UnixNano())
	return d, nil
}

// Engine returns the engine that computes the targets. Its DecisionStore may be read at any time.
func (d *Demo) Engine() *engine.Engine { return d.simulator.Engine() }

// Now returns the virtual time of the newest tick. Servers must use this clock: compared with the real time, every decision would be stale.
func (d *Demo) Now() time.Time { return time.Unix(0, d.now.Load()).UTC() }

// Moment returns the nodes and GPUs that are billed at the current virtual time, as a cost.Interval of the given length. It must be called
// from the function that is set with OnTick, because the simulator does not advance while that function runs.
func (d *Demo) Moment(length time.Duration) cost.Interval { return d.simulator.Moment(length) }

// OnTick sets a function that is called with the virtual time after each tick. OnTick must be called before Run.
func (d *Demo) OnTick(f func(now time.Time)) { d.onTick = f }

// Run simulates until For has passed, and then returns nil, or until ctx ends, and then returns the error of ctx.
func (d *Demo) Run(ctx context.Context) error {
	pace := newPace(d.options)
	for d.options.For == 0 || d.simulator.Now() < d.options.For {
		if err := pace.wait(ctx, d.simulator.Now()); err != nil {
			return err
		}
		// The time is stored before the tick, because a decision with a time after the clock is not served.
		d.now.Store(d.simulator.NextTick().UnixNano())
		d.simulator.Step(ctx)
		if d.onTick != nil {
			d.onTick(d.simulator.Time())
		}
	}
	return nil
}

// pace converts virtual time to the time of the clock. It starts from a reference point, for which both times are known.
type pace struct {
	clock   func() time.Time
	speed   float64
	start   time.Time     // time of the clock at the reference point
	from    time.Duration // virtual time at the reference point
	unpaced bool
}

func newPace(o Options) *pace {
	p := &pace{clock: o.Clock, speed: o.Speed, unpaced: o.Clock == nil || o.Speed > MaxSpeed}
	if !p.unpaced {
		p.start = o.Clock()
	}
	return p
}

// wait blocks until the clock reaches the virtual time. If the process was suspended, for example because a laptop was closed, the run
// continues at the same speed and does not catch up.
func (p *pace) wait(ctx context.Context, virtual time.Duration) error {
	if p.unpaced {
		return ctx.Err()
	}
	ahead := time.Duration(float64(virtual-p.from)/p.speed) - p.clock().Sub(p.start)
	switch {
	case ahead < -time.Second:
		p.start, p.from = p.clock(), virtual
	case ahead > time.Millisecond:
		timer := time.NewTimer(ahead) // may use the clock: the demo runs at a multiple of real time
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}
