package scaling

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
)

// Forecast keeps more replicas than a signal needs now. Their number is the mean of the signal's proposals over about Window, plus
// Deviations times the typical upward deviation from this mean. The reason is that new replicas are ready only after a cold start. With a
// forecast, enough replicas are already ready when demand rises as much as it did in the last minutes. If demand hardly varied, the
// deviation is small and few additional replicas are kept.
type Forecast struct {
	Window     time.Duration // how long a rise of demand has an effect; 0 disables the forecast
	Deviations float64       // number of deviations above the mean, >= 0; 2 is enough for 98% of the time if demand is normally distributed
	// If Replaces is true, the forecast replaces the signal's proposal, so that stabilization windows, tolerances and rates apply to the
	// forecast. The purpose is that noise starts no replica: changes within half a minute are mostly noise, which ends before a new replica is
	// ready. If Replaces is false, the forecast only raises the target.
	Replaces bool
}

// averages returns the time constants of the moving averages of the forecast. Level is the mean of the most recent proposals. Its time
// constant is half a minute. With Replaces, the target follows only the forecast, so the time constant of Level is shorter: about one
// scrape interval.
func (f *Forecast) averages() history.Averages {
	over := history.Averages{Mean: max(f.Window.Milliseconds(), 1), Level: 30_000}
	if f.Replaces {
		over.Level = 15_000
	}
	return over
}

// updateForecast adds the proposal of a usable reading to the signal's forecast. If Forecast.Replaces is set, it then replaces the proposal
// with the forecast.
//
// A forecast without history starts at the last target, so that a new policy or a new leader does not lower the target. If Replaces is set,
// the forecast also starts again in two cases. While the last target is zero, it starts again because otherwise its mean would include the
// time at zero and would be too small for the first demand. After missing readings, it starts again because its mean does not include the
// demand during that time.
func (t *tick) updateForecast(i int8) {
	f := &t.p.Signals[i].Forecast
	if f.Window <= 0 || t.status[i] != SignalOK {
		return
	}
	proposal, o := t.proposals[i].Replicas, t.s.forecasts[i]
	if t.o.Readings[i].Shared {
		proposal = min(proposal, float64(t.s.lastTarget))
	}
	if !o.Known || f.Replaces && t.s.lastTarget == 0 {
		from := max(proposal, float64(t.s.lastTarget))
		o = history.StartForecast(from)
	}
	o = o.Next(proposal, t.elapsed, f.averages())
	t.forecasts[i] = o
	if f.Replaces {
		t.proposals[i].Replicas = min(o.Upper(f.Deviations), maxReplicas)
	}
}

// forecast raises the target to the greatest forecast of the signals. It does not lower the target, does not scale up from zero, and does
// not prevent scale to zero after the cooldown. It ignores signals that cannot be used. If such a signal is required, RuleMissing prevents
// a decrease.
func (t *tick) forecast() {
	best, mean, index := float64(clamp(t.o.Forecast, 0, maxReplicas)), 0.0, int8(-1)
	for i := range t.signals {
		f := &t.p.Signals[i].Forecast
		if t.n == 0 && t.p.MinReplicas <= 0 || f.Window <= 0 || f.Replaces || t.status[i] != SignalOK || t.without(i) {
			continue
		}
		o := t.forecasts[i]
		proposal := min(o.Upper(f.Deviations), maxReplicas)
		if t.o.Readings[i].Shared {
			proposal = min(proposal, float64(t.s.lastTarget))
		}
		if proposal > best {
			best, mean, index = proposal, o.Mean, i
		}
	}
	if best > 0 {
		t.set(RuleForecast, index, max(t.n, roundUp(best)), best, mean)
	}
}

// forecastKeepsTarget reports whether a forecast may prevent a decrease of the target until an unknown time, even if demand has ended. It
// returns true in each of these cases:
//   - Observation.Forecast is at least the target.
//   - A forecast has no history. It then starts at the last target.
//   - A forecast can still increase to the target after a rise of demand.
//   - A forecast with Replaces is close to the last target, and the tolerance of scaleDown ignores the difference.
func (t *tick) forecastKeepsTarget() bool {
	if t.n <= t.o.Forecast {
		return true
	}
	for i := range t.signals {
		if f := &t.p.Signals[i].Forecast; f.Window > 0 {
			o := t.s.forecasts[i]
			if !o.Known {
				return true
			}
			proposal, down := o.Highest().Upper(f.Deviations), t.p.ScaleDown.Tolerance
			if roundUp(proposal) >= t.n || f.Replaces && proposal >= float64(float64(t.s.lastTarget)*(1-down)) {
				return true
			}
		}
	}
	return false
}
