package scaling

import (
	"math"
	"time"
)

// Forecast keeps more replicas than a signal needs now: the mean of its proposals over about Window, plus Deviations times the typical
// upward deviation from that mean. New replicas are ready only after a cold start. With a forecast, ready replicas exist when demand rises
// as much as it did in the last minutes. If demand hardly varied, the deviation is small and few additional replicas are kept.
type Forecast struct {
	Window     time.Duration // how long a rise counts; 0 turns the forecast off
	Deviations float64       // upward deviations above the mean, >= 0; 2 covers 98% of the time if the noise is normally distributed
	// Replaces makes the forecast the signal's proposal, in place of the reading; stabilization windows, tolerances and rates apply to it.
	// Without Replaces, the forecast only raises the target. Replaces avoids starting replicas for noise: much of the variation between
	// readings of half a minute is noise, and has passed when a replica that was started for it is ready.
	Replaces bool
}

// forecastState is the history of a signal's proposals, in replicas: exponential moving averages of the mean and of the squared deviation.
// Its size does not depend on the length of the history.
type forecastState struct {
	known bool
	// mean of at most the last half minute; a single scrape counts the arrivals of a few seconds, which are mostly noise
	level  float64
	mean   float64
	spread float64 // mean square of the level's deviation above the mean, doubled: the variance of a symmetric distribution
}

// next returns the state after the proposal of a tick. Only values above the mean count as deviations. If values below it counted, too, the
// forecast would increase when demand ends.
func (o forecastState) next(proposal float64, elapsed int64, f *Forecast) forecastState {
	tau, level := max(f.Window.Milliseconds(), 1), toward(o.level, proposal, elapsed, f.settles())
	above := max(level-o.mean, 0)
	weight := float64(elapsed) / float64(elapsed+tau)
	square := float64(2 * above * above)
	return forecastState{known: true, level: level, mean: toward(o.mean, level, elapsed, tau),
		spread: float64((1 - weight) * (o.spread + float64(weight*square)))}
}

// settles returns the time constant, in milliseconds, of the average of the most recent proposals (level). It is shorter, about one scrape
// interval, if the forecast replaces the reading, because then only the forecast reacts to a rise of demand.
func (f *Forecast) settles() int64 {
	if f.Replaces {
		return fastMillis / 2
	}
	return fastMillis
}

// upper returns the number of replicas to keep, before rounding: the mean plus the given number of standard deviations.
func (o forecastState) upper(deviations float64) float64 {
	return o.mean + float64(deviations*math.Sqrt(o.spread))
}

// updateForecast adds the proposal of a usable reading to the signal's forecast. If Forecast.Replaces is set, it replaces the proposal by
// the forecast.
//
// A forecast without history starts at the last target, so that a new policy or a new leader does not lower the target. A forecast with
// Replaces also starts again after missing readings and while the last target is zero. Otherwise its mean would include the time at zero
// and be too small for the first demand, or would not include the demand during an outage of the source.
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

// forecast raises the target to the greatest forecast of the signals. It does not lower the target, does not scale up from zero, and does
// not prevent scale to zero after the cooldown. It ignores signals that cannot be used: if such a signal is required, the rule missing
// signal keeps the target.
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

// forecastKeepsTarget reports whether a forecast may prevent a decrease of the target for a time that is not known, even if demand has
// ended. There are three cases: after a rise of demand, the mean still increases; a forecast without history starts at the last target; a
// forecast with Replaces is within the tolerance of scaleDown.
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
