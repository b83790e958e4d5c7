package scaling

import "time"

// State is the history of one workload that Decide uses and updates in each tick. It is a value of fixed size, which the caller keeps.
// Decide with the zero State starts from the observed replicas, as Seed does.
type State struct {
	at     int64 // time of the last tick; all times are Unix milliseconds
	policy *Policy

	// lastTarget is the last target without the replicas that the rules about nodes (nodes at risk, surge, capacity) added or removed.
	// Rules compare with it and not with the observed replicas, because these change only after the next sync of the HPA. For example, if
	// the target is 10 and 6 replicas are observed, a rate that counted from 6 would lower the target again.
	lastTarget int32
	extra      int32 // replicas that the rules about nodes added to the last target
	activeAt   int64 // last time at which replicas were needed; the cooldown starts there
	panicUntil int64
	trends     [MaxSignals]trend
	forecasts  [MaxSignals]forecastState
	// stabilization windows; up stores negated recommendations, so that the greatest entry of each window is the one that applies
	down, up  window
	steps     steps
	schedules scheduleCache
	learner   *learner // nil: the policy has no objective
}

// seeded reports whether the state is not the zero State. It then has at least one step.
func (s *State) seeded() bool { return s.steps.n > 0 }

// Seed returns the state of a policy without history, for a new policy or a new leader. Both stabilization windows contain the current
// replicas, and the cooldown starts at now, so a restart does not scale down.
func Seed(p *Policy, replicas int32, now time.Time) State {
	at, n := stamp(now), clamp(replicas, 0, maxReplicas)
	s := State{at: at, policy: p, lastTarget: n, activeAt: at}
	s.down.push(at, n, n)
	s.up.push(at, -n, -n)
	s.steps.push(at, n, 0)
	return s
}

// Adopt replaces the policy of the state by p, which is another version of the same policy. It keeps the trend and the forecast of each
// signal that still measures the same quantity, even if its index changed. Otherwise the rule growing demand would have no effect for half
// a minute after each edit of a policy.
func (s *State) Adopt(p *Policy) {
	if s.policy == p {
		return
	}
	s.adoptLearned(p, s.policy)
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

// Reseed sets s to the result of Seed, but keeps what was learned for the objective.
func (s *State) Reseed(p *Policy, replicas int32, now time.Time) {
	s.Adopt(p)
	learned := s.learner
	*s = Seed(p, replicas, now)
	s.learner = learned
}

// Restart sets s to the result of Seed, but keeps the trends and forecasts of the signals, and what was learned for the objective.
func (s *State) Restart(p *Policy, replicas int32, now time.Time) {
	s.Adopt(p)
	trends, forecasts := s.trends, s.forecasts
	s.Reseed(p, replicas, now)
	s.trends, s.forecasts = trends, forecasts
}

// begin prepares the state for a tick and returns the milliseconds since the last tick. If the clock was set back, it moves all times in
// the state back by the same amount, so that no time has passed since the last tick. Unchanged times would be in the future and prevent
// every increase until the clock reaches them. If the state were deleted instead, every window would be empty.
func (s *State) begin(p *Policy, replicas int32, now time.Time) (elapsed int64) {
	if !s.seeded() {
		s.Reseed(p, replicas, now)
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
	s.adoptLearned(p, p)
	s.schedules.refresh(p, now)
	return stamp(now) - s.at
}

// maxReplicas limits every number of replicas, so that the sum of several such numbers does not overflow an int32.
const maxReplicas = 1 << 28

func clamp(n, low, high int32) int32 { return max(low, min(n, high)) }

// maxStamp limits every time, so that the sum of a time and a duration does not overflow an int64. It is after the year 100,000,000.
const maxStamp = int64(1) << 61

// stamp returns t in Unix milliseconds, limited to maxStamp. It also works for years for which the result of Time.UnixMilli is undefined.
func stamp(t time.Time) int64 {
	const maxSeconds = maxStamp / 1000
	return max(-maxSeconds, min(t.Unix(), maxSeconds))*1000 + int64(t.Nanosecond()/1e6)
}

// seconds converts Unix milliseconds to Unix seconds, the unit of times in a Reason.
func seconds(at int64) float64 { return float64(at) / 1000 }

// instant returns the time at, in Unix milliseconds, as a time.Time in UTC.
func instant(at int64) time.Time { return time.UnixMilli(at).UTC() }
