package scaling

// trend holds a short and a long mean of a demand or latency signal.
type trend struct {
	known      bool
	fast, slow float64
}

// A signal grows while its mean of the last half minute exceeds that of the last three minutes by more than a tenth, and by more than a
// tenth of the target. On a ramp that is growth of about 4% a minute. Two means are compared and not two samples, because a queue of 20
// can change by 4 from scrape to scrape without growing. The condition on the target excludes queues that are almost empty.
const (
	fastMillis = 30_000
	slowMillis = 180_000
	growth     = 0.1
)

// learn adds the readings of this tick to the trends and the forecasts. Those of a signal that cannot be used do not change.
func (s *State) learn(t *tick) {
	for i := range t.signals {
		if t.status[i] != SignalOK {
			if t.p.Signals[i].Forecast.Replaces {
				// It starts again at the last target, because the time without readings is not known.
				s.forecasts[i] = forecastState{}
			}
			continue
		}
		if t.p.Signals[i].Class != Utilization {
			s.trends[i] = s.trends[i].next(t.proposals[i].Value, t.elapsed)
		}
		if t.p.Signals[i].Forecast.Window > 0 {
			s.forecasts[i] = t.forecasts[i]
		}
	}
}

// next returns the trend with a value: a first-order filter with fractional weights, because math.Exp differs between CPU architectures.
func (r trend) next(value float64, elapsed int64) trend {
	if !r.known {
		return trend{true, value, value}
	}
	return trend{true, toward(r.fast, value, elapsed, fastMillis), toward(r.slow, value, elapsed, slowMillis)}
}

func toward(from, to float64, elapsed, tau int64) float64 {
	weight := float64(elapsed) / float64(elapsed+tau)
	return from + float64(float64(to-from)*weight)
}

func (r trend) grows(target float64) bool {
	rise := r.fast - r.slow
	return r.known && rise > float64(growth*r.slow) && rise > float64(growth*target)
}

// growingDemand keeps the target while a demand or latency signal grows and the policy has a utilization signal. Utilization falls when
// a backend hangs; the queue in front of it shows that. A policy without utilization signals does not need the rule.
func (t *tick) growingDemand() {
	if t.n >= t.lastTarget {
		return
	}
	utilization := false
	grows := int8(-1)
	var rising trend
	for i := range t.signals {
		sig := &t.p.Signals[i]
		switch {
		case t.without(i):
		case sig.Class == Utilization:
			utilization = true
		case grows < 0 && t.status[i] == SignalOK:
			if r := t.s.trends[i].next(t.proposals[i].Value, t.elapsed); r.grows(sig.Target) {
				grows, rising = i, r
			}
		}
	}
	if utilization && grows >= 0 {
		t.set(RuleGrowingDemand, grows, t.lastTarget, rising.fast, rising.slow)
	}
}
