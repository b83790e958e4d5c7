package decisions

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// Numbers of slots in a usual installation. Prometheus scrapes every 15 s, gpuscaler polls every 15 s, and rates are computed over a
// minute. A sample is read two slots after its scrape, because half of a poll interval passes on average between a scrape and the next
// poll, and a second passes until a query returns the sample.
const (
	scrapeSlots = 3
	rateSlots   = 12
	lagSlots    = 2
)

// samples computes the measurements that a policy reads instead of the exact values of the last slot.
type samples struct {
	arrived, served       [rateSlots]float64 // work of the last slots; the index is the slot modulo rateSlots
	scraped, polled       sample             // the newest scrape, and the newest one that was read
	allArrived, allServed float64            // sums of arrived and served
}

// sample contains the measurements of one scrape.
type sample struct {
	at                      time.Time
	arrivals, served, queue float64 // the first two are rates per second over a minute
}

// read adds the values of the last slot, and returns the values of the newest poll. They are unknown until a minute has passed.
func (s *samples) read(v *view, now time.Time) (arrivals, served, queued objective.Value) {
	i := v.t % rateSlots
	s.allArrived, s.allServed = s.allArrived+v.arrived-s.arrived[i], s.allServed+v.served-s.served[i]
	s.arrived[i], s.served[i] = v.arrived, v.served
	if v.t%scrapeSlots == 0 && v.t >= rateSlots {
		const seconds = rateSlots * SlotSeconds
		s.scraped = sample{now, max(s.allArrived, 0) / seconds, max(s.allServed, 0) / seconds, v.queue}
	}
	if v.t%scrapeSlots == lagSlots {
		s.polled = s.scraped
	}
	p := &s.polled
	known := func(x float64, window time.Duration) objective.Value {
		return objective.Value{V: x, At: p.at, Known: !p.at.IsZero(), Window: window}
	}
	return known(p.arrivals, rateSlots*SlotSeconds*time.Second), known(p.served, rateSlots*SlotSeconds*time.Second), known(p.queue, 0)
}
