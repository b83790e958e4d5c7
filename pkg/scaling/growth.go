package scaling

// trend contains the mean of a signal's values over the last half minute (fast) and the last three minutes (slow).
type trend struct {
	known      bool
	fast, slow float64
}

// fastMillis, slowMillis and growth define when a signal grows: when its mean of the last half minute exceeds the mean of the last three
// minutes by more than a tenth, and by more than a tenth of the target. If the value rises steadily, that is growth of about 4% a minute.
// Means are compared and not two samples, because a queue of 20 can change by 4 from scrape to scrape without growing. The condition on the
// target excludes queues that are almost empty.
const (
	fastMillis = 30_000
	slowMillis = 180_000
	growth     = 0.1
)

// learn adds the readings of this tick to the trends and the forecasts. It does not change those of a signal that cannot be used.
func (s *State) learn(t *tick) {
	for i := range t.signals {
		if t.status[i] != SignalOK {
			if t.p.Signals[i].Forecast.Replaces {
				// A forecast without state starts again at the last target with the next reading. The demand during the time without readings is not
				// known.
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

// next returns the trend after a new value. The weights are fractions and not exponentials, because the result of math.Exp differs between
// CPU architectures.
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

// growingDemand prevents a decrease while a demand or latency signal grows, if the policy has a utilization signal. When a backend hangs,
// its utilization falls although its queue grows, so a low utilization does not show that fewer replicas are enough. The rule has no effect
// for a policy without utilization signals.
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
		case t.without(i), sig.isEvidence():
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
