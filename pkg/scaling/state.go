package scaling

import "time"

// State is what one workload's decisions remember from tick to tick: a plain value of fixed size, comparable, kept by the caller.
// The zero State is seeded by the first Decide with the replicas that it observes.
type State struct {
	seeded bool
	at     int64 // the last tick; all stamps are Unix milliseconds
	policy *Policy

	// base is the number in force: the last target without what the nodes added or took (at-risk, surge, cap). Rules compare
	// with it and not with the observed replicas, which lag by an HPA sync: a rate that started anew from the observed 6 each
	// tick while 10 is served would fall back to 6.
	lastTarget int32
	extra      int32 // what the nodes added to it in the last target
	activeAt   int64 // the last instant at which something kept replicas; the cooldown counts from here
	panicUntil int64
	trends     [MaxSignals]trend
	forecasts  [MaxSignals]forecastState
	down, up   window // proposals; up holds them negated, so that both keep the greatest
	steps      steps
	schedules  scheduleCache
}

// Seed is the state of a policy that starts, or whose leader does: both windows hold the current replicas and the cooldown starts
// anew, so a restart never scales down.
func Seed(p *Policy, replicas int32, now time.Time) State {
	at, n := stamp(now), clamp(replicas, 0, maxReplicas)
	s := State{seeded: true, at: at, policy: p, lastTarget: n, activeAt: at}
	s.down.push(at, n, n)
	s.up.push(at, -n, -n)
	s.steps.push(at, n, 0)
	return s
}

// Adopt makes the state p's, another version of its policy. Signals and schedules of another version have other indexes; what was
// learned of a signal goes along where that is measured as before, or each edit would suspend the veto for half a minute.
func (s *State) Adopt(p *Policy) {
	if s.policy == p {
		return
	}
	old, trends, forecasts := s.policy, s.trends, s.forecasts
	s.policy, s.trends, s.forecasts, s.schedules = p, [MaxSignals]trend{}, [MaxSignals]forecastState{}, scheduleCache{}
	if old == nil {
		return
	}
	for i := range min(len(p.Signals), MaxSignals) {
		for j := range min(len(old.Signals), MaxSignals) {
			if p.Signals[i].measures(&old.Signals[j]) {
				s.trends[i], s.forecasts[i] = trends[j], forecasts[j]
				break
			}
		}
	}
}

// Restart is Seed for a workload that is still the one that the state knows: what was learned of its signals stays.
func (s *State) Restart(p *Policy, replicas int32, now time.Time) {
	s.Adopt(p)
	trends, forecasts := s.trends, s.forecasts
	*s = Seed(p, replicas, now)
	s.trends, s.forecasts = trends, forecasts
}

// begin makes the state fit the tick and returns the milliseconds since the last one. A clock that stepped back takes all stamps with it, so that time seems to stand still; frozen
// stamps would stop every rise until the clock caught up, dropped ones would let everything fall.
func (s *State) begin(p *Policy, replicas int32, now time.Time) (elapsed int64) {
	if !s.seeded {
		*s = Seed(p, replicas, now)
	}
	if back := s.at - stamp(now); back > 0 {
		s.at -= back
		s.activeAt -= back
		s.panicUntil -= back
		s.down.shift(-back)
		s.up.shift(-back)
		s.steps.shift(-back)
	}
	s.Adopt(p)
	s.schedules.refresh(p, now)
	return stamp(now) - s.at
}

// maxReplicas keeps every sum of a few numbers of replicas inside an int32.
const maxReplicas = 1 << 28

func clamp(n, low, high int32) int32 { return max(low, min(n, high)) }

// maxStamp keeps every sum of a stamp and a duration inside an int64; it lies beyond the year 100,000,000.
const maxStamp = int64(1) << 61

// stamp is Unix milliseconds, for years beyond what UnixMilli can hold too.
func stamp(t time.Time) int64 {
	const maxSeconds = maxStamp / 1000
	return max(-maxSeconds, min(t.Unix(), maxSeconds))*1000 + int64(t.Nanosecond()/1e6)
}

// seconds is a stamp as a Reason holds it.
func seconds(at int64) float64 { return float64(at) / 1000 }

// instant is a stamp as people read it.
func instant(at int64) time.Time { return time.UnixMilli(at).UTC() }
