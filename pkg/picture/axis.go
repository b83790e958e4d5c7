package picture

import (
	"fmt"
	"math"
	"time"
)

// Axis is the time axis of a chart. It contains the position at which each value of a series begins, and the ticks.
type Axis struct {
	seconds float64   // length of the axis in seconds
	edges   []float64 // positions in seconds at which each value begins, and the position at which the last value ends
	ticks   []Tick
}

// Tick is a grid line or a time label. A narrow screen hides minor ticks.
type Tick struct {
	At, Label, Anchor string
	Minor             bool
}

// Elapsed returns an axis for the time since a start: from 0 to the given number of seconds. Each value of a series lasts for one step.
func Elapsed(step time.Duration, seconds float64) Axis {
	a := Axis{seconds: seconds}
	for i := 0; float64(i)*step.Seconds() < seconds; i++ {
		a.edges = append(a.edges, float64(i)*step.Seconds())
	}
	a.edges = append(a.edges, seconds)
	every := a.every()
	for at := 0.0; at <= seconds; at += every {
		label := Clock(at)
		if every >= 86400 {
			label = fmt.Sprintf("%.0fd", at/86400)
		}
		a.tick(at, label)
	}
	return a
}

// Calendar returns an axis with dates and times in UTC. The parameter begins contains the time at which each value of a series begins, in
// ascending order. The last value ends at the time to.
func Calendar(from, to time.Time, begins []time.Time) Axis {
	a := Axis{seconds: to.Sub(from).Seconds()}
	for _, at := range begins {
		a.edges = append(a.edges, at.Sub(from).Seconds())
	}
	a.edges = append(a.edges, a.seconds)
	every := time.Duration(a.every()) * time.Second
	for t := from.UTC().Truncate(every).Add(every); t.Before(to); t = t.Add(every) {
		format := "15:04"
		if t.Truncate(24 * time.Hour).Equal(t) {
			format = "Jan 2"
		}
		a.tick(t.Sub(from).Seconds(), t.Format(format))
	}
	return a
}

// every returns the number of seconds between two ticks. It is a round number, chosen so that the axis has at most eight ticks after the
// first.
func (a *Axis) every() float64 {
	for _, s := range []float64{10, 30, 60, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200} {
		if 8*s >= a.seconds {
			return s
		}
	}
	return 86400 * math.Ceil(a.seconds/8/86400)
}

func (a *Axis) tick(at float64, label string) {
	t := Tick{At: Percent(a.x(at)), Label: label, Anchor: "middle", Minor: len(a.ticks)%2 == 1}
	if at > 0.97*a.seconds {
		t.Anchor = "end"
	}
	a.ticks = append(a.ticks, t)
}

func (a *Axis) x(seconds float64) float64 {
	return Canvas * min(max(seconds/max(a.seconds, 1), 0), 1)
}

// held returns the values of a series with their positions on the axis. It omits values that begin after the right end of the axis.
func (a *Axis) held(values []float64) []Held {
	out := make([]Held, min(len(values), len(a.edges)-1))
	for i := range out {
		out[i] = Held{a.x(a.edges[i]), a.x(a.edges[i+1]), values[i]}
	}
	return out
}
