package scaling

import "time"

// State is what the decisions for one workload remember from tick to tick. It is a value of fixed size that the caller keeps. The first
// Decide with the zero State starts from the observed replicas, as Seed does.
type State struct {
	at     int64 // the last tick; all times are Unix milliseconds
	policy *Policy

	// lastTarget is the last target without what the rules about nodes (at-risk, surge, capacity) added or removed. Rules compare with
	// it and not with the observed replicas, because these follow a target only after the HPA's next sync: a rate that counted from
	// the observed 6 while 10 is served would lower the target to 6 again.
	lastTarget int32
	extra      int32 // what the rules about nodes added to it
	activeAt   int64 // when something last kept replicas; the cooldown counts from here
	panicUntil int64
	trends     [MaxSignals]trend
	forecasts  [MaxSignals]forecastState
	down, up   window // recommendations; up holds them negated, so that both windows return the greatest
	steps      steps
	schedules  scheduleCache
}

// seeded reports whether the state has started: from then on it has at least one step.
func (s *State) seeded() bool { return s.steps.n > 0 }

// Seed returns the state of a policy without history, for a new policy or a new leader. Both windows hold the current replicas and the
// cooldown starts at now, so a restart never scales down.
func Seed(p *Policy, replicas int32, now time.Time) State {
	at, n := stamp(now), clamp(replicas, 0, maxReplicas)
	s := State{at: at, policy: p, lastTarget: n, activeAt: at}
	s.down.push(at, n, n)
	s.up.push(at, -n, -n)
	s.steps.push(at, n, 0)
	return s
}

// Adopt makes s the state of p, another version of its policy. The trends and forecasts of signals that are measured as before are kept,
// although their indexes may differ; otherwise each edit would turn off the rule of growing demand for half a minute.
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

// Restart is Seed for the workload of the state: the trends and forecasts of its signals are kept.
func (s *State) Restart(p *Policy, replicas int32, now time.Time) {
	s.Adopt(p)
	trends, forecasts := s.trends, s.forecasts
	*s = Seed(p, replicas, now)
	s.trends, s.forecasts = trends, forecasts
}

// begin prepares the state for a tick and returns the milliseconds since the last one. If the clock stepped back, all times move with it,
// as if no time had passed. Unchanged times would stop every increase until the clock caught up; without the times every window would
// be empty.
func (s *State) begin(p *Policy, replicas int32, now time.Time) (elapsed int64) {
	if !s.seeded() {
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

// maxReplicas limits every number of replicas, so that sums of a few do not overflow an int32.
const maxReplicas = 1 << 28

func clamp(n, low, high int32) int32 { return max(low, min(n, high)) }

// maxStamp limits every time, so that the sum of a time and a duration does not overflow an int64. It is after the year 100,000,000.
const maxStamp = int64(1) << 61

// stamp returns Unix milliseconds, also for years that UnixMilli cannot represent.
func stamp(t time.Time) int64 {
	const maxSeconds = maxStamp / 1000
	return max(-maxSeconds, min(t.Unix(), maxSeconds))*1000 + int64(t.Nanosecond()/1e6)
}

// seconds returns a time in the unit of a Reason.
func seconds(at int64) float64 { return float64(at) / 1000 }

// instant returns a time as a time.Time in UTC.
func instant(at int64) time.Time { return time.UnixMilli(at).UTC() }
