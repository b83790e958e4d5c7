package scaling

import (
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/planner"
)

// State contains the history of one workload that Decide uses and updates in each tick. It is a value of fixed size, and the caller stores
// it. If the State is zero, Decide starts with the observed replicas, as Seed does.
type State struct {
	at     int64 // time of the last tick; all times are in Unix milliseconds
	policy *Policy

	// lastTarget is the last target without the replicas that the rules about nodes (nodes at risk, surge, capacity) added or removed. Rules
	// compare a new target with lastTarget and not with the observed replicas, because these change only after the next sync of the HPA. For
	// example, if the target is 10 and 6 replicas are observed, a rate that starts from 6 would lower the target again.
	lastTarget int32
	extra      int32 // replicas that the rules about nodes added to the last target
	activeAt   int64 // last time at which replicas were needed, which is the start of the cooldown
	panicUntil int64
	trends     [MaxSignals]history.Trend
	forecasts  [MaxSignals]history.Forecast
	// Stabilization windows. up stores negative recommendations (n is stored as -n), so that the greatest entry determines the result in both
	// windows.
	down, up  history.Window
	steps     history.Steps
	schedules scheduleCache
	planner   *planner.Planner // nil if the policy has no objective
}

// seeded reports whether the state is not the zero State. A seeded state has at least one step.
func (s *State) seeded() bool { return !s.steps.Empty() }

// Seed returns the state of a policy without history, for a new policy or a new leader. Both stabilization windows contain the current
// replicas, and the cooldown starts at the time now. A restart therefore does not scale down.
func Seed(p *Policy, replicas int32, now time.Time) State {
	at, n := history.Stamp(now), clamp(replicas, 0, maxReplicas)
	s := State{at: at, policy: p, lastTarget: n, activeAt: at}
	s.down.Push(at, n, n)
	s.up.Push(at, -n, -n)
	s.steps.Push(at, n, 0)
	return s
}

// Adopt replaces the policy in the state with p, which is another version of the same policy. It keeps the trend and the forecast of each
// signal that still measures the same quantity, even if its index has changed. Otherwise RuleGrowingDemand would have no effect for half a
// minute after each edit of a policy.
func (s *State) Adopt(p *Policy) {
	if s.policy == p {
		return
	}
	s.adoptLearned(p, s.policy)
	old, trends, forecasts := s.policy, s.trends, s.forecasts
	s.policy, s.trends, s.forecasts, s.schedules = p, [MaxSignals]history.Trend{}, [MaxSignals]history.Forecast{}, scheduleCache{}
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

// Reseed sets s to the result of Seed, but keeps the planner, which contains the model that was learned for the objective.
func (s *State) Reseed(p *Policy, replicas int32, now time.Time) {
	s.Adopt(p)
	learned := s.planner
	*s = Seed(p, replicas, now)
	s.planner = learned
}

// Restart sets s to the result of Seed, but keeps the trends and forecasts of the signals, and the planner.
func (s *State) Restart(p *Policy, replicas int32, now time.Time) {
	s.Adopt(p)
	trends, forecasts := s.trends, s.forecasts
	s.Reseed(p, replicas, now)
	s.trends, s.forecasts = trends, forecasts
}

// begin prepares the state for a tick and returns the milliseconds since the last tick. If the clock was set back, begin moves all times in
// the state back by the same amount. The rules then work as if no time has passed since the last tick. Otherwise, times in the state would
// be in the future and would prevent every increase until the clock reaches them. If the state were deleted instead, every window would be
// empty.
func (s *State) begin(p *Policy, replicas int32, now time.Time) (elapsed int64) {
	if !s.seeded() {
		s.Reseed(p, replicas, now)
	}
	if back := s.at - history.Stamp(now); back > 0 {
		s.at -= back
		s.activeAt -= back
		s.panicUntil -= back
		s.down.Shift(-back)
		s.up.Shift(-back)
		s.steps.Shift(-back)
	}
	s.Adopt(p)
	s.adoptLearned(p, p)
	s.schedules.refresh(p, s.planner.LeadTime(p.Objective), now)
	return history.Stamp(now) - s.at
}

// Restore sets the model of the workload, for example the model of the previous leader. The parameter at is the time of the last
// observation in this model. Restore has no effect after the first tick, or for a policy without an objective.
func (s *State) Restore(p *Policy, m *objective.Model, at time.Time) {
	if p.Objective != nil && m != nil && s.planner == nil {
		s.policy, s.planner = p, planner.Restore(m, history.Stamp(at))
	}
}

// Learned returns the model of the objective in the state, or nil if the policy has no objective. The caller must not change it.
func (s *State) Learned() *objective.Model { return s.planner.Model() }

// adoptLearned keeps the planner if p, the new policy, has an objective and measures the same unit of work as old, the previous policy. If
// the unit differs or there is no planner, it creates an empty planner. If p has no objective, it deletes the planner.
func (s *State) adoptLearned(p, old *Policy) {
	switch {
	case p.Objective == nil:
		s.planner = nil
	case s.planner == nil || old != nil && !p.Work().Same(old.Work()):
		s.planner = planner.New()
	}
}

// learn adds the readings of this tick to the trends and the forecasts of the signals. It does not change the trend and the forecast of a
// signal that cannot be used.
func (s *State) learn(t *tick) {
	for i := range t.signals {
		if t.status[i] != SignalOK {
			if t.p.Signals[i].Forecast.Replaces {
				// A deleted forecast starts again at the last target with the next reading. The demand during the time without readings is unknown, so
				// the forecast must not use its old mean.
				s.forecasts[i] = history.Forecast{}
			}
			continue
		}
		if t.p.Signals[i].Class != Utilization {
			s.trends[i] = s.trends[i].Next(t.proposals[i].Value, t.elapsed)
		}
		if t.p.Signals[i].Forecast.Window > 0 {
			s.forecasts[i] = t.forecasts[i]
		}
	}
}

// maxReplicas limits every number of replicas, so that the sum of several numbers of replicas does not overflow an int32.
const maxReplicas = 1 << 28

func clamp(n, low, high int32) int32 { return max(low, min(n, high)) }

// seconds converts Unix milliseconds to Unix seconds, which is the unit of times in a Reason.
func seconds(at int64) float64 { return float64(at) / 1000 }
