package simulator

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/policy"
	"github.com/gpuscaler/gpuscaler/pkg/replay/measure"
	"github.com/gpuscaler/gpuscaler/pkg/replay/reproducible"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/autoscaler"
	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/events"
	"github.com/gpuscaler/gpuscaler/pkg/replay/waits"
	"github.com/gpuscaler/gpuscaler/pkg/scaling"
)

// scraped is the result of one scrape.
type scraped struct {
	at     time.Duration
	ready  int32
	values [measure.Count]float64
	known  [measure.Count]bool
}

// meter samples the metrics of a load and stores the readings of the polls.
type meter struct {
	phase    float64 // random number 0..1: the phase at which the loop of the actuator starts
	random   *reproducible.Draws
	past     [3]scraped        // the newest scrapes, newest first
	meanings []measure.Meaning // what each signal measures, in the order of Policy.Signals
	readings []scaling.Reading
	every    []time.Duration // time between two polls of each signal, in the order of Policy.Signals
	polls    []time.Duration // the different values in every

	since                            time.Duration // start time of the integrals below
	readyTime, runningTime, busyTime int64
	arrived                          int64
	latencies                        *waits.Window // waits of the recent scrape intervals; nil if no signal measures a wait

	counters    []counter     // the counter of arrivals at the recent scrapes, oldest first; nil if no signal computes a rate over a window
	keepCounter time.Duration // how long a scrape of the counter is stored; 0: not at all
}

func (l *load) openMeter() error {
	m := &l.meter
	m.random = l.w.draws("metrics " + l.key.String())
	m.phase = m.random.Uniform()
	for i := range m.past {
		m.past[i].at = -1
	}
	if l.config.Policy == nil {
		return nil
	}
	signals := l.config.Policy.Workload.Policy.Signals
	for i := range signals {
		means := measure.Of(l.config.Policy, i, l.config.Measures)
		if means.Measure == measure.Unmeasured || means.Measure >= measure.Count {
			return fmt.Errorf("signal %s: the simulator does not measure %s %s; set its measure in Measures",
				signals[i].Name, signals[i].Type, l.config.Policy.Sources[i].Metric)
		}
		if means.Measure == measure.QueueTime {
			if m.latencies == nil {
				m.latencies = &waits.Window{}
			}
			m.latencies.Keep = max(m.latencies.Keep, l.config.Policy.Sources[i].Window+l.w.assumptions.ScrapeInterval+l.w.assumptions.ScrapeLag)
		}
		m.keepCounter = max(m.keepCounter, means.Window)
		m.meanings = append(m.meanings, means)
		m.every = append(m.every, l.pollInterval(i))
		if !slices.Contains(m.polls, m.every[i]) {
			m.polls = append(m.polls, m.every[i])
		}
		m.readings = append(m.readings, scaling.Reading{Reported: -1, Cause: scaling.CauseNever})
	}
	if m.keepCounter > 0 {
		m.counters = []counter{{}} // no request arrives before the start
	}
	return nil
}

// pollInterval returns the time between two polls of a signal: the interval in the PlatformConfig or, if it has the default interval, the
// interval of the assumptions.
func (l *load) pollInterval(signal int) time.Duration {
	if polls := l.config.Policy.Polls; polls != nil && polls[signal] != policy.DefaultInterval {
		return polls[signal]
	}
	return l.w.assumptions.PollInterval
}

// beginMeter adds the events of the first scrape and of the first poll of each interval, at random times.
func (l *load) beginMeter() {
	begin := func(every time.Duration, kind events.Kind, index int) {
		at := time.Duration(l.meter.random.Uniform() * float64(every)).Truncate(time.Microsecond)
		l.w.queue.Add(events.Event{At: at, Kind: kind, A: l.index, B: int32(index)})
	}
	begin(l.w.assumptions.ScrapeInterval, scrape, 0)
	for i, every := range l.meter.polls {
		begin(every, poll, i)
	}
}

// waits records a wait that has ended.
func (m *meter) waits(d time.Duration) {
	if m.latencies != nil {
		m.latencies.Add(d)
	}
}

// scrape takes a sample of every measure.
func (l *load) scrape() {
	l.touch()
	m := &l.meter
	s := scraped{at: l.w.queue.Now, ready: l.ready}
	set := func(of measure.Measure, value float64, known bool) { s.values[of], s.known[of] = value, known }
	dt := (l.w.queue.Now - m.since).Seconds()
	set(measure.Queue, float64(l.queue.n), true)
	set(measure.InSystem, float64(l.queue.n+int(l.running)+int(l.drainRunning)), true)
	set(measure.Arrivals, float64(l.arrived-m.arrived)/dt, dt > 0)
	set(measure.Waiting, float64(l.queue.n), l.ready > 0)
	set(measure.Running, float64(l.running), l.ready > 0)
	if room := int64(l.ready) * int64(l.service.CacheTokens); room > 0 {
		set(measure.CacheUse, min(1, float64(l.cached)/float64(room)), true)
	} else {
		set(measure.CacheUse, 0, l.ready > 0)
	}
	if ready := l.readyTime - m.readyTime; ready > 0 && l.ready > 0 {
		set(measure.Activity, l.activity(ready), true)
	}
	if m.latencies != nil {
		m.latencies.Scrape(l.w.queue.Now)
		s.known[measure.QueueTime] = l.ready > 0
	}
	m.since, m.readyTime, m.runningTime, m.busyTime = l.w.queue.Now, l.readyTime, l.runningTime, l.busyTime
	m.arrived = l.arrived
	m.count(l.w.queue.Now)
	m.past[2], m.past[1], m.past[0] = m.past[1], m.past[0], s
	l.w.queue.Add(events.Event{At: l.w.queue.Now + l.w.assumptions.ScrapeInterval, Kind: scrape, A: l.index})
}

// activity returns the mean GPU activity of the ready replicas since the last scrape, 0..1. A replica with one running request has the
// activity BusyActivity of the assumptions. The activity increases in proportion to the used slots, up to 1 if all slots are used.
func (l *load) activity(ready int64) float64 {
	base := l.w.assumptions.BusyActivity
	busy := float64(l.busyTime-l.meter.busyTime) / float64(ready)
	if l.service.Slots == 1 {
		return min(1, busy)
	}
	taken := float64(l.runningTime-l.meter.runningTime) / float64(ready*int64(l.service.Slots))
	return min(1, float64(base*busy)+float64((1-base)*taken))
}

// visible returns the newest scrape that a query can return now, which is at least ScrapeLag old. It returns nil if there is none.
func (l *load) visible() *scraped {
	for i := range l.meter.past {
		s := &l.meter.past[i]
		if s.at >= 0 && s.at+l.w.assumptions.ScrapeLag <= l.w.queue.Now {
			return s
		}
	}
	return nil
}

func (l *load) fault(signal string) *Fault {
	for i := range l.w.config.Faults {
		if f := &l.w.config.Faults[i]; f.silences(l.key, signal, l.w.queue.Now) {
			return f
		}
	}
	return nil
}

func (l *load) newest(m measure.Measure, signal string) (autoscaler.Sample, bool) {
	s, f := l.visible(), l.fault(signal)
	partly := f != nil && f.Share > 0 && m.OfPods()
	if s == nil || !s.known[m] || f != nil && !partly {
		return autoscaler.Sample{}, false
	}
	out := autoscaler.Sample{Value: s.values[m], At: l.w.config.Start.Add(s.at), Pods: s.ready}
	if partly {
		out.Value, out.Pods = f.thin(m, out.Value, out.Pods)
	}
	return out, true
}

// poll polls the signals that have the interval with the given index in meter.polls.
func (l *load) poll(index int32) {
	s, every := l.visible(), l.meter.polls[index]
	for i := range l.meter.meanings {
		if l.meter.every[i] == every {
			l.pollSignal(i, s)
		}
	}
	l.w.queue.Add(events.Event{At: l.w.queue.Now + every, Kind: poll, A: l.index, B: index})
}

// pollSignal updates the reading of a signal from a scrape as package telemetry does. s is nil if there is no scrape yet.
func (l *load) pollSignal(signal int, s *scraped) {
	means, r := l.meter.meanings[signal], &l.meter.readings[signal]
	m := means.Measure
	f := l.fault(l.config.Policy.Workload.Policy.Signals[signal].Name)
	partly := f != nil && f.Share > 0 && m.OfPods()
	switch {
	case f != nil && !partly:
		l.meter.fail(r, f.Cause)
		return
	case s == nil || !s.known[m] || means.Each && s.ready == 0: // the mean over zero replicas is unknown
		l.meter.fail(r, scaling.CauseEmpty)
		return
	}
	value, ok := s.values[m], true
	switch {
	case m == measure.QueueTime:
		source := &l.config.Policy.Sources[signal]
		value, ok = l.meter.latencies.Read(s.at, source.Window, source.Quantile)
	case means.Window > 0:
		value, ok = l.rate(s, means.Window)
	}
	if !ok {
		l.meter.fail(r, scaling.CauseEmpty)
		return
	}
	if means.Each {
		value /= float64(s.ready)
	}
	*r = scaling.Reading{Value: value * means.Units, At: l.w.config.Start.Add(s.at), Coverage: 1, Reported: -1, Known: true}
	if m.OfPods() {
		r.Reported = min(s.ready, l.ready)
		if partly {
			r.Value, r.Reported = f.thin(m, r.Value, r.Reported)
		}
		r.Coverage, r.Measured = coverage(r.Reported, l.ready), l.ready
	}
}

// thin applies a fault that hides a share of the pods. It returns the value and the number of pods without the hidden pods: a sum becomes
// smaller, a mean does not change.
func (f *Fault) thin(m measure.Measure, value float64, pods int32) (float64, int32) {
	left := int32(float64(pods) * max(0, 1-f.Share))
	if (m == measure.Waiting || m == measure.Running) && pods > 0 {
		value = value * float64(left) / float64(pods)
	}
	return value, left
}

func coverage(reported, ready int32) float64 {
	if ready == 0 {
		return 0
	}
	return float64(reported) / float64(ready)
}

func (m *meter) fail(r *scaling.Reading, cause scaling.Cause) {
	if cause == scaling.CauseNone {
		cause = scaling.CauseUnreachable
	}
	r.Failures++
	r.Cause = cause
	if !cause.KeepsSample() {
		r.Known = false // the query returned no value; if the source did not respond, the newest sample remains until it is stale
	}
}

func (l *load) read(out []scaling.Reading) {
	n := copy(out, l.meter.readings)
	clear(out[n:])
}
