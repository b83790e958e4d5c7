package objective

import (
	"math"
	"time"
)

// ages contains the mean ages of the measurements, and recent measurements that are compared with the load of the same time. A rate over a
// minute is half a minute old on average when it is measured. The time until the next scrape and the next poll adds to its age. A queue is
// only as old as its sample.
type ages struct {
	Load   float64   // mean age of the load in seconds; 0: no age was measured
	Queue  float64   // mean age of the queue in seconds
	LoadAt signedInt // time of the last sample of the load, nanoseconds since 1970
	Span   float64   // seconds of which the last sample of the load is the mean
	Since  signedInt // time since which every sample of the queue contains work, nanoseconds since 1970; 0: no work waits
	Hidden float64   // work that has arrived according to the queue, but is not yet part of the measured load
	Spread spread
	Recent recent
}

// recent contains measurements of the last time slots. Head is the index of the newest. Count is the number of time slots since the last
// time without measurements; older time slots must not be used.
type recent struct {
	Queued, Load [recentSlots]float32
	Ready        [recentSlots]uint16
	Head, Count  uint8
}

// recentSlots is the number of time slots in recent. It is enough for a rate over two minutes.
const recentSlots = 32

// ageSeconds is the time constant, in seconds, of the mean ages. It includes many polls, so the result does not depend on the time between
// a scrape and the next poll.
const ageSeconds = 600

// measureAges updates the mean ages of the load and of the queue. elapsed is the time since the last tick, in seconds.
func (m *Model) measureAges(now time.Time, e *Evidence, elapsed float64) {
	a := &m.saved.Ages
	load := &e.Arrivals
	if !usable(*load) {
		load = &e.Served
	}
	w := max(elapsed/(elapsed+ageSeconds), elapsed/(elapsed+m.saved.Observed)) // while the history is short, all ticks have the same weight
	if usable(*load) && !load.At.IsZero() {
		if at := signedInt(load.At.UnixNano()); at != a.LoadAt {
			if a.Span = load.Window.Seconds(); a.Span == 0 && a.LoadAt != 0 {
				a.Span = max(float64(at-a.LoadAt)/1e9, 0)
			}
			a.Span, a.LoadAt = min(a.Span, maxGap), at
		}
		a.Load += float64(w * (age(now, load.At) + a.Span/2 - a.Load))
	}
	if usable(e.Queued) && !e.Queued.At.IsZero() {
		a.Queue += float64(w * (age(now, e.Queued.At) - a.Queue))
	}
}

// age returns the age in seconds of a sample, limited to maxGap.
func age(now, at time.Time) float64 { return min(max(now.Sub(at).Seconds(), 0), maxGap) }

// slots returns the mean age of the load in complete time slots.
func (a *ages) slots(slot float64) int { return int(a.Load / slot) }

// queued returns the queue at the time to which the newest load belongs.
func (a *ages) queued(slot float64) float64 {
	n := min(max(int((a.Load-a.Queue)/slot), 0), recentSlots-1)
	return float64(a.Recent.Queued[a.Recent.before(n)])
}

// add adds a time slot.
func (r *recent) add(queued, load float64, ready int32) {
	r.Head, r.Count = (r.Head+1)%recentSlots, min(r.Count+1, recentSlots)
	r.Queued[r.Head], r.Load[r.Head], r.Ready[r.Head] = float32(queued), float32(load), uint16(ready)
}

// before returns the index of the time slot n slots before the newest. n must be less than recentSlots.
func (r *recent) before(n int) int { return (int(r.Head) + recentSlots - n) % recentSlots }

// ready returns the mean number of ready replicas during the time of which a sample is the mean. It returns 0 if this time is not known or
// if it includes older time slots. now is the end of the slot after the newest slot, and slot is the length of a slot in seconds.
func (r *recent) ready(v *Value, now time.Time, slot float64) (mean float64) {
	if v.Window <= 0 || slot <= 0 {
		return 0
	}
	first, n := max(int(math.Round(age(now, v.At)/slot))-1, 0), int(math.Round(v.Window.Seconds()/slot))
	if n == 0 || first+n > int(r.Count) {
		return 0
	}
	for i := range n {
		mean += float64(r.Ready[r.before(first+i)])
	}
	return mean / float64(n)
}

// waited reports whether work waited during the whole time of which a sample is the mean.
func (a *ages) waited(v *Value) bool {
	return a.Since != 0 && int64(a.Since) <= v.At.UnixNano()-int64(v.Window)
}

// hidingSpan is the shortest time, in seconds, of which the load must be a mean to hide bursts that the queue shows. A queue is usually
// measured every 15 s, so it shows little more than a load that is a mean of 15 s: with irate, sharpened loads met the SLO on 8 of 19
// simulated days of the demo instead of 12.
const hidingSpan = 30

// sharpened returns the work that arrived since the last tick, without the delay of its measurement, as far as the queue shows it. work is
// the measured load multiplied by the time since the last tick. If the queue grows, work has arrived that becomes part of the measured load
// later. sharpened adds this work now and subtracts it from the work that is measured later. newQueue is true if the queue was measured in
// this tick.
//
// The work that is added is limited to the work that all allowed replicas can serve within twice the age of the load, because a wrong
// queue must not teach a greater load.
func (m *Model) sharpened(work, elapsed float64, newQueue bool) float64 {
	s := &m.saved
	a := &s.Ages
	if a.Span < hidingSpan || s.Capacity.Value <= 0 {
		a.Hidden = 0
		return work
	}
	before := a.Hidden
	a.Hidden = max(before-work, 0)
	if a.Since != 0 { // the queue is known, and work waits
		arrived := m.arrivedByQueue(elapsed, newQueue)
		most := 2 * a.Load * min(max(arrived, work)/elapsed, float64(max(s.L.Max, 1))*s.Capacity.Value)
		a.Hidden = max(a.Hidden, min(before+arrived-work, most))
	}
	return max(work+a.Hidden-before, 0)
}

// arrivedByQueue returns the work that arrived since the last tick while work waits: the work by which the queue grew, and the work that
// the replicas served. The work by which the queue grew is added in one tick, because it may have arrived in a short time. In the time
// before the first sample with a queue, the replicas are assumed to have been saturated half of the time.
func (m *Model) arrivedByQueue(elapsed float64, newQueue bool) float64 {
	s := &m.saved
	served := float64(float64(s.Ready) * s.Capacity.Value * elapsed)
	if s.Before <= 0 {
		served /= 2
	}
	switch {
	case s.Growth < 0:
		return max(served+float64(float64(s.Growth)*elapsed), 0)
	case newQueue:
		return served + max(s.Queued-s.Before, 0)
	}
	return served
}
