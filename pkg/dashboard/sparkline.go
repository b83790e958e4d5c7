package dashboard

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// sparkline is a small chart of a workload over the last three hours, as SVG path data.
type sparkline struct{ Area, Line string }

const (
	sparklineSpan   = 3 * time.Hour
	sparklineHeight = 20
)

// sparkline draws the target as a line, and the ready replicas as an area.
func (p *Page) sparkline(k scaling.Key) sparkline {
	now := p.options.Clock().Truncate(time.Minute) // rounded, so that the chart changes only once a minute
	w := span{now.Add(-sparklineSpan), now.Add(time.Minute)}
	var target, ready []point
	top := 1.0
	p.sampler.read(k, w, 1, func(s sample) {
		t, r := float64(s.values[columnTarget]), float64(s.values[columnReady])
		top = max(top, t, r)
		at := s.at.Truncate(s.step)
		target = append(target, point{at, at.Add(s.step), t})
		ready = append(ready, point{at, at.Add(s.step), r})
	})
	plot := newPlot(w, sparklineHeight, top)
	return sparkline{plot.steps(ready, true), plot.steps(target, false)}
}
