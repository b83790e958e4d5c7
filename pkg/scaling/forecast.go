package scaling

import (
	"math"
	"time"
)

// Forecast keeps more replicas than a signal needs now: for the mean of its proposals over about Window, plus Deviations times their
// upward deviation from it. Replicas for a step in demand are ready only after a cold start; with a forecast the next step of a size as
// in the last minutes finds ready replicas. In a calm hour the deviations are small, and few replicas are kept.
type Forecast struct {
	Window     time.Duration // how long a rise counts; 0 turns the forecast off
	Deviations float64       // upward deviations above the mean, >= 0; 2 covers 98% of the time if the noise is normally distributed
	// Replaces makes the forecast the signal's proposal instead of the reading, up and down, under the windows, tolerances and rates. A
	// reading of half a minute is mostly noise, and replicas that it starts are ready when it has passed. Without Replaces the forecast is
	// a minimum.
	Replaces bool
}

// forecastState is what a forecast remembers of a signal's proposals, in replicas: exponential moments, which need four numbers for any
// history.
type forecastState struct {
	known  bool
	level  float64 // of at most the last half minute; a single scrape counts arrivals of a few seconds, which are mostly noise
	mean   float64
	spread float64 // mean square of the level's deviation above the mean, doubled: the variance of a symmetric distribution
}

// next returns the state with the proposal of a tick. Only values above the mean count as deviations: with both sides, more replicas
// would be kept when demand ends.
func (o forecastState) next(proposal float64, elapsed int64, f *Forecast) forecastState {
	tau, level := max(f.Window.Milliseconds(), 1), toward(o.level, proposal, elapsed, f.settles())
	above := max(level-o.mean, 0)
	weight := float64(elapsed) / float64(elapsed+tau)
	square := float64(2 * above * above)
	return forecastState{known: true, level: level, mean: toward(o.mean, level, elapsed, tau),
		spread: float64((1 - weight) * (o.spread + float64(weight*square)))}
}

// settles returns the time constant, in milliseconds, with which the level follows a reading. If the forecast replaces the reading, the
// level follows within about one scrape, because nothing else reacts to a step.
func (f *Forecast) settles() int64 {
	if f.Replaces {
		return fastMillis / 2
	}
	return fastMillis
}

// upper returns the number of replicas to keep.
func (o forecastState) upper(deviations float64) float64 {
	return o.mean + float64(deviations*math.Sqrt(o.spread))
}

// updateForecast adds the proposal of a usable reading to the signal's forecast, and replaces the proposal by it if the policy says so.
//
// The first state of a policy or a leader starts at the last target, because a restart must not lower the target. A forecast that
// replaces the reading also starts again at zero replicas and after a gap: a mean that includes the time at zero would propose too few
// replicas for the first demand, and one from before an outage does not include the demand during it.
func (t *tick) updateForecast(i int8) {
	f := &t.p.Signals[i].Forecast
	if f.Window <= 0 || t.status[i] != SignalOK {
		return
	}
	proposal, o := t.proposals[i].Replicas, t.s.forecasts[i]
	if t.o.Readings[i].Shared {
		proposal = min(proposal, float64(t.s.lastTarget))
	}
	if !o.known || f.Replaces && t.s.lastTarget == 0 {
		from := max(proposal, float64(t.s.lastTarget))
		o = forecastState{known: true, level: from, mean: from}
	}
	o = o.next(proposal, t.elapsed, f)
	t.forecasts[i] = o
	if f.Replaces {
		t.proposals[i].Replicas = min(o.upper(f.Deviations), maxReplicas)
	}
}

// forecast raises the target to the number of replicas that the forecasts keep. It does not lower it, does not scale up from zero, and
// does not prevent scale to zero after the cooldown. A signal that cannot be used has no forecast: if it is required, the target is kept
// anyway.
func (t *tick) forecast() {
	best, mean, index := float64(clamp(t.o.Forecast, 0, maxReplicas)), 0.0, int8(-1)
	for i := range t.signals {
		f := &t.p.Signals[i].Forecast
		if t.n == 0 && t.p.MinReplicas <= 0 || f.Window <= 0 || f.Replaces || t.status[i] != SignalOK || t.without(i) {
			continue
		}
		o := t.forecasts[i]
		proposal := min(o.upper(f.Deviations), maxReplicas)
		if t.o.Readings[i].Shared {
			proposal = min(proposal, float64(t.s.lastTarget))
		}
		if proposal > best {
			best, mean, index = proposal, o.mean, i
		}
	}
	if best > 0 {
		t.set(RuleForecast, index, max(t.n, roundUp(best)), best, mean)
	}
}

// forecastKeepsTarget reports whether a forecast may keep the target although demand has ended. After a rise the mean still increases to
// the last level; a forecast without samples starts at the last target; and a forecast that replaces the reading keeps the target while
// it is within the tolerance of scaleDown.
func (t *tick) forecastKeepsTarget() bool {
	if t.n <= t.o.Forecast {
		return true
	}
	for i := range t.signals {
		if f := &t.p.Signals[i].Forecast; f.Window > 0 {
			o := t.s.forecasts[i]
			if !o.known {
				return true
			}
			above := max(o.level-o.mean, 0)
			o.mean, o.spread = o.mean+above, o.spread+float64(2*above*above)
			proposal, down := o.upper(f.Deviations), t.p.ScaleDown.Tolerance
			if roundUp(proposal) >= t.n || f.Replaces && proposal >= float64(float64(t.s.lastTarget)*(1-down)) {
				return true
			}
		}
	}
	return false
}
