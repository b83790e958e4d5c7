// Package demo is the world of `gpuscaler demo`: three teams' policies, a workload generator and a cluster, simulated by package
// world behind the engine's own ports and driven at an accelerated clock.
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

// DefaultSpeed lets a day pass in 24 minutes.
const DefaultSpeed = 60

// Options say how the demo runs. The zero value runs the built-in scenario for ever.
type Options struct {
	Speed    float64       // virtual seconds per second; 0 means DefaultSpeed; above MaxSpeed as fast as the machine can
	For      time.Duration // virtual time after which it ends; 0: never, or with Requests a quarter of an hour after the last
	Requests *trace.Trace  // drives the chat service in place of the generator; nil: the built-in workloads
	Seed     uint64
	// Clock paces the run; it is read about as often as the world ticks. nil runs as fast as the machine can.
	Clock func() time.Time
	// OnTransition is told of each change of an outcome, in the tick that made it.
	OnTransition func(engine.Record)
}

// MaxSpeed is the greatest speed that is paced.
const MaxSpeed = 100_000

// Demo is a world that runs by itself. Its board and clock may be read by any number of goroutines while it does.
type Demo struct {
	options   Options
	simulator *simulator.Simulator
	now       atomic.Int64 // virtual, Unix nanoseconds
	onTick    func(now time.Time)
}

// New makes the demo's world; nothing happens before Run.
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

// Engine is the engine that decides. Its Board may be read at any time.
func (d *Demo) Engine() *engine.Engine { return d.simulator.Engine() }

// Now is the virtual time: that of the last tick, or of the one in progress. Servers must read this clock, or every decision would seem
// old.
func (d *Demo) Now() time.Time { return time.Unix(0, d.now.Load()).UTC() }

// Assumptions is what the world takes for granted.
func (d *Demo) Assumptions() simulator.Assumptions { return d.simulator.Assumptions() }

// Moment is what is paid for at present, for a time of that length. It is called from OnTick's function: the world stands still there.
func (d *Demo) Moment(length time.Duration) cost.Moment { return d.simulator.Moment(length) }

// OnTick has f told the virtual time after each tick. It is called before Run.
func (d *Demo) OnTick(f func(now time.Time)) { d.onTick = f }

// Run lets virtual time pass until For is over, and then returns nil; or until ctx ends, and then returns its error.
func (d *Demo) Run(ctx context.Context) error {
	pace := newPace(d.options)
	for d.options.For == 0 || d.simulator.Now() < d.options.For {
		if err := pace.wait(ctx, d.simulator.Now()); err != nil {
			return err
		}
		d.now.Store(d.simulator.NextTick().UnixNano()) // before the tick: a decision that is younger than the clock is not served
		d.simulator.Step(ctx)
		if d.onTick != nil {
			d.onTick(d.simulator.Time())
		}
	}
	return nil
}

// pace maps virtual time to the clock.
type pace struct {
	clock   func() time.Time
	speed   float64
	start   time.Time     // of the clock,
	from    time.Duration // when the world stood here
	unpaced bool
}

func newPace(o Options) *pace {
	p := &pace{clock: o.Clock, speed: o.Speed, unpaced: o.Clock == nil || o.Speed > MaxSpeed}
	if !p.unpaced {
		p.start = o.Clock()
	}
	return p
}

// wait waits until the clock has come to a virtual time. A process that was stopped for a while (a laptop that slept) goes on
// where it was instead of running after the clock.
func (p *pace) wait(ctx context.Context, virtual time.Duration) error {
	if p.unpaced {
		return ctx.Err()
	}
	ahead := time.Duration(float64(virtual-p.from)/p.speed) - p.clock().Sub(p.start)
	switch {
	case ahead < -time.Second:
		p.start, p.from = p.clock(), virtual
	case ahead > time.Millisecond:
		timer := time.NewTimer(ahead) // I/O edge: the demo runs at a multiple of real time
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}
