package dashboard

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// spark is the last three hours of a workload in a thumbnail of 96 by 20.
type spark struct{ Area, Line string }

const (
	sparkBack   = 3 * time.Hour
	sparkHeight = 20
)

// spark draws the target as a line over the ready replicas.
func (p *Page) spark(k scaling.Key) spark {
	now := p.options.Clock().Truncate(time.Minute) // a picture that moves on once a minute
	w := span{now.Add(-sparkBack), now.Add(time.Minute)}
	var target, ready []point
	top := 1.0
	p.sampler.read(k, w, 1, func(s sample) {
		t, r := float64(s.values[columnTarget]), float64(s.values[columnReady])
		top = max(top, t, r)
		at := s.at.Truncate(s.step)
		target = append(target, point{at, at.Add(s.step), t})
		ready = append(ready, point{at, at.Add(s.step), r})
	})
	plot := newPlot(w, sparkHeight, top)
	return spark{plot.steps(ready, true), plot.steps(target, false)}
}
