package scaling

// trend follows one demand or latency signal at two speeds.
type trend struct {
	known      bool
	fast, slow float64
}

// A signal grows while its level of the last half minute stands more than a tenth above its level of the last three minutes, and
// the difference is more than a tenth of the target: on a ramp that is growth of about 4% a minute. Two averages and not two
// samples, because a queue around 20 moves by 4 from scrape to scrape without growing; the floor of a tenth of the target, because
// a queue that goes from 0.1 to 0.2 is empty.
const (
	fastMillis = 30_000
	slowMillis = 180_000
	growth     = 0.1
)

// learn feeds the trends and the forecasts with what this tick could see. A signal that is not known keeps them.
func (s *State) learn(t *tick) {
	for i := range t.signals {
		if t.status[i] != SignalOK {
			if t.p.Signals[i].Forecast.Replaces {
				s.forecasts[i] = forecastState{} // it begins anew at the number in force: what nobody measured must not count as what was before
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

// next is a first-order filter that holds its weights as plain fractions: math.Exp differs between CPU architectures.
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

// veto holds the number while a demand or latency signal grows and the policy listens to utilization: busy fractions fall when a
// backend hangs, and the queue in front of it is what tells. A policy of demand alone needs no veto, its demand decides.
func (t *tick) growingDemand() {
	if t.n >= t.lastTarget {
		return
	}
	utilization := false
	grows := int8(-1)
	var seen trend
	for i := range t.signals {
		sig := &t.p.Signals[i]
		switch {
		case t.without(i):
		case sig.Class == Utilization:
			utilization = true
		case grows < 0 && t.status[i] == SignalOK:
			if r := t.s.trends[i].next(t.proposals[i].Value, t.elapsed); r.grows(sig.Target) {
				grows, seen = i, r
			}
		}
	}
	if utilization && grows >= 0 {
		t.set(RuleGrowingDemand, grows, t.lastTarget, seen.fast, seen.slow)
	}
}
