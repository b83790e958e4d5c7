package scaling

import (
	"math"
	"time"
)

// Forecast keeps replicas ahead of what a signal asks for: its mean over about Window, and Deviations times how far it rises above
// that. A step is seen by the signal at once and costs a cold start of waiting; what a forecast buys is that the next one, as great
// as those of the last minutes, finds replicas that stand. In a calm hour the deviations are small and so is what is kept.
type Forecast struct {
	Window     time.Duration // how long a rise is remembered; 0 turns the forecast off
	Deviations float64       // upward deviations kept ready above the mean, >= 0: 2 covers 98 of 100 minutes of a noise that is normal
	// Replaces makes it the signal's ask, in place of the reading's: up and down, under the windows, tolerances and rates. A reading of half
	// a minute is mostly chance, and replicas that it starts are ready when it has passed. Without it the forecast is a floor beside the reading.
	Replaces bool
}

// forecastState is what a forecast remembers of a signal's asks, in replicas: exponential moments, so that any history needs four numbers.
type forecastState struct {
	known  bool
	level  float64 // of the last half minute or less; a single scrape counts arrivals of a few seconds, whose chance is no demand
	mean   float64
	spread float64 // mean square of how far the level stood above the mean, doubled: the variance of what is symmetric
}

// next takes a tick's ask in. Only what rises above the mean is a deviation: a variance of both sides would ask for more replicas
// when demand ends.
func (o forecastState) next(ask float64, elapsed int64, f *Forecast) forecastState {
	tau, level := max(f.Window.Milliseconds(), 1), toward(o.level, ask, elapsed, f.settles())
	above := max(level-o.mean, 0)
	weight := float64(elapsed) / float64(elapsed+tau)
	square := float64(2 * above * above)
	return forecastState{known: true, level: level, mean: toward(o.mean, level, elapsed, tau),
		spread: float64((1 - weight) * (o.spread + float64(weight*square)))}
}

// settles is the time in which the level follows a reading, in milliseconds. One that replaces the reading is all that sees a step, so
// its level follows within about a scrape; each second that it hesitates is one in which a step finds too few.
func (f *Forecast) settles() int64 {
	if f.Replaces {
		return fastMillis / 2
	}
	return fastMillis
}

// upper is the ask that is to find its replicas ready.
func (o forecastState) upper(deviations float64) float64 {
	return o.mean + float64(deviations*math.Sqrt(o.spread))
}

// updateForecast takes a usable reading's ask into the signal's forecastState, and where that replaces the reading, makes it the ask.
//
// The first forecastState of a policy or a leader begins at the number in force, or a restart would forget what stood there for a reason. One
// that replaces the reading begins anew at zero replicas, and after a gap: a mean over the time asleep would answer the first crowd with
// one replica, and one from before an outage what came meanwhile.
func (t *tick) updateForecast(i int8) {
	f := &t.p.Signals[i].Forecast
	if f.Window <= 0 || t.status[i] != SignalOK {
		return
	}
	ask, o := t.proposals[i].Replicas, t.s.forecasts[i]
	if t.o.Readings[i].Shared {
		ask = min(ask, float64(t.s.lastTarget))
	}
	if !o.known || f.Replaces && t.s.lastTarget == 0 {
		from := max(ask, float64(t.s.lastTarget))
		o = forecastState{known: true, level: from, mean: from}
	}
	o = o.next(ask, t.elapsed, f)
	t.forecasts[i] = o
	if f.Replaces {
		t.proposals[i].Replicas = min(o.upper(f.Deviations), maxReplicas)
	}
}

// forecast raises to what is kept ahead of need, and never lowers; it wakes nobody, and what the cooldown has ended it lets go. A
// signal that is not known has none: where it is required the number is held anyway.
func (t *tick) forecast() {
	best, mean, index := float64(clamp(t.o.Forecast, 0, maxReplicas)), 0.0, int8(-1)
	for i := range t.signals {
		f := &t.p.Signals[i].Forecast
		if t.n == 0 && t.p.MinReplicas <= 0 || f.Window <= 0 || f.Replaces || t.status[i] != SignalOK || t.without(i) {
			continue
		}
		o := t.forecasts[i]
		ask := min(o.upper(f.Deviations), maxReplicas)
		if t.o.Readings[i].Shared {
			ask = min(ask, float64(t.s.lastTarget))
		}
		if ask > best {
			best, mean, index = ask, o.mean, i
		}
	}
	if best > 0 {
		t.set(RuleForecast, index, max(t.n, roundUp(best)), best, mean)
	}
}

// forecastKeepsTarget reports whether a forecast may keep the target although demand has ended. A mean still rises after the end of a rise, up
// to the last level; a forecast without samples begins at the number in force; and one that replaces the reading keeps the target
// while it is within the down tolerance.
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
			ask, down := o.upper(f.Deviations), t.p.ScaleDown.Tolerance
			if roundUp(ask) >= t.n || f.Replaces && ask >= float64(float64(t.s.lastTarget)*(1-down)) {
				return true
			}
		}
	}
	return false
}
