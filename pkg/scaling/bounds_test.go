package scaling

import (
	"math"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/capcause"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
)

func TestTolerance(t *testing.T) {
	tenth := func(p *Policy) { p.ScaleUp.Tolerance, p.ScaleDown.Tolerance, p.MaxReplicas = 0.1, 0.1, 100 }
	check(t, RuleTolerance, []row{
		{name: "4% more", replicas: 10, values: []float64{104}, policy: tenth, want: 10, from: 11, to: 10, a: 1.04, b: 0.1},
		{name: "just above 10% more", replicas: 10, values: []float64{110.5}, policy: tenth, want: 12, from: noReason},
		{name: "exactly 10% less", replicas: 20, values: []float64{180}, policy: tenth, want: 20, from: 18, to: 20, a: 0.9, b: 0.1},
		{name: "just below", replicas: 20, values: []float64{179}, policy: tenth, want: 18, from: noReason},
		{name: "none asked for", replicas: 10, values: []float64{104}, want: 11, from: noReason},
		{name: "no tolerance at zero", replicas: 0, values: []float64{1}, policy: tenth, want: 1, from: noReason},
		{name: "an unchanged target is equal and not within the tolerance", replicas: 10, values: []float64{math.NaN()}, policy: tenth,
			want: 10, from: noReason},
	})
}

func TestPanic(t *testing.T) {
	p := func(p *Policy) { p.Panic = Panic{Threshold: 2, Window: time.Minute} }
	slow := func(q *Policy) { p(q); q.ScaleUp.Rates = []RatePolicy{{Pods, 1, time.Minute}} }
	check(t, RulePanic, []row{
		{name: "twice the ready replicas", replicas: 5, values: []float64{100}, policy: slow, want: 10,
			from: 10, to: 10, a: 2, b: unix(time.Minute)},
		{name: "less than twice", replicas: 5, values: []float64{90}, policy: slow, want: 6, from: noReason},
		{name: "an open window keeps the last target", replicas: 5, values: []float64{10}, policy: p,
			recall: func(s *State) { s.panicUntil = history.Stamp(nine) + 1000 },
			want:   5, from: 1, to: 5, a: 0.2, b: unix(time.Second)},
		{name: "a window that ended", replicas: 5, values: []float64{10}, policy: p,
			recall: func(s *State) { s.panicUntil = history.Stamp(nine) }, want: 1, from: noReason},
		{name: "no ready replica counts as one", replicas: 1, values: []float64{20}, policy: slow, see: func(o *Observation) { o.Ready = 0 },
			want: 2, from: 2, to: 2, a: 2, b: unix(time.Minute)},
		{name: "off", replicas: 5, values: []float64{150}, want: 15, from: noReason},
	})
}

func TestStabilize(t *testing.T) {
	p := func(p *Policy) {
		p.ScaleUp.StabilizationWindow, p.ScaleDown.StabilizationWindow, p.MinReplicas = time.Minute, 10*time.Minute, 1
	}
	past := func(ago time.Duration, n int32) func(*State) {
		return func(s *State) {
			s.down.Push(history.Stamp(nine.Add(-ago)), n, 0)
			s.up.Push(history.Stamp(nine.Add(-ago)), -n, 0)
		}
	}
	check(t, RuleStabilize, []row{
		{name: "down to the greatest of the window", replicas: 9, values: []float64{20}, policy: p, recall: past(time.Minute, 5), want: 5,
			from: 2, to: 5, a: 600, b: unix(9 * time.Minute)},
		{name: "at most the last target", replicas: 4, values: []float64{20}, policy: p, recall: past(time.Minute, 5), want: 4,
			from: 2, to: 4, a: 600, b: unix(9 * time.Minute)},
		{name: "when the recommendation leaves the window", replicas: 9, values: []float64{20}, policy: p,
			recall: past(10*time.Minute, 9), want: 2, from: noReason},
		{name: "one millisecond before", replicas: 9, values: []float64{20}, policy: p, recall: past(10*time.Minute-time.Millisecond, 9),
			want: 9, from: 2, to: 9, a: 600, b: unix(time.Millisecond)},
		{name: "up to the least of the window", replicas: 2, values: []float64{90}, policy: p, recall: past(30*time.Second, 5), want: 5,
			from: 9, to: 5, a: 60, b: unix(30 * time.Second)},
		{name: "at least the last target", replicas: 6, values: []float64{90}, policy: p, recall: past(30*time.Second, 5), want: 6,
			from: 9, to: 6, a: 60, b: unix(30 * time.Second)},
		{name: "no windows", replicas: 6, values: []float64{20}, recall: past(time.Second, 6), want: 2, from: noReason},
	})
}

func TestIdle(t *testing.T) {
	p := func(p *Policy) { p.CooldownPeriod = 15 * time.Minute; p.Signals[0].Activation = 5 }
	quiet := func(d time.Duration) func(*State) { return func(s *State) { s.activeAt = history.Stamp(nine.Add(-d)) } }
	check(t, RuleIdle, []row{
		{name: "one replica is kept during the cooldown", replicas: 1, values: []float64{0}, policy: p, recall: quiet(14 * time.Minute),
			want: 1, from: 0, to: 1, a: 840, b: unix(time.Minute)},
		{name: "the cooldown is over", replicas: 1, values: []float64{0}, policy: p, recall: quiet(15 * time.Minute), want: 0,
			from: 0, to: 0, a: 900, b: unix(0)},
		{name: "below the activation although one replica is proposed", replicas: 1, values: []float64{5}, policy: p,
			recall: quiet(time.Hour), want: 0, from: 1, to: 0, a: 3600, b: unix(-45 * time.Minute)},
		{name: "above the activation", replicas: 1, values: []float64{5.1}, policy: p, recall: quiet(time.Hour), want: 1, from: noReason},
		{name: "at zero under the activation", replicas: 0, values: []float64{5}, policy: p, want: 0,
			from: 1, to: 0, a: 3600, b: unix(-45 * time.Minute)},
		{name: "at zero with first demand", replicas: 0, values: []float64{45}, policy: p, want: 5, from: noReason},
		{name: "at least one from zero", replicas: 0, values: []float64{0.1}, policy: func(p *Policy) {
			p.Formula = func([]Proposal, int32, int32) (float64, bool) { return 0, true }
		}, want: 1, from: 0, to: 1, a: 0, b: unix(-time.Hour)},
		{name: "a formula that fails at zero does not prevent a scale-up", replicas: 0, values: []float64{50}, policy: func(p *Policy) {
			p.Formula = func([]Proposal, int32, int32) (float64, bool) { return 0, false }
		}, want: 1, from: 0, to: 1, a: 0, b: unix(-time.Hour)},
		{name: "missing signals prevent it", replicas: 1, values: []float64{math.NaN()}, policy: p, recall: quiet(time.Hour), want: 1,
			from: noReason},
		{name: "a minimum of one", replicas: 1, values: []float64{0}, policy: func(q *Policy) { p(q); q.MinReplicas = 1 },
			recall: quiet(time.Hour), want: 1, from: noReason},
		{name: "all must be active: one is", replicas: 1, values: []float64{50, 0},
			policy: func(q *Policy) { twoSignals(q); q.Activation = ActiveByAll }, recall: quiet(time.Hour),
			want: 0, from: 5, to: 0, a: 3600, b: unix(-time.Hour)},
		{name: "all must be active: both are", replicas: 1, values: []float64{50, 0.1},
			policy: func(q *Policy) { twoSignals(q); q.Activation = ActiveByAll }, recall: quiet(time.Hour),
			want: 5, from: noReason},
	})
}

func TestRate(t *testing.T) {
	up := func(s SelectPolicy, r ...RatePolicy) func(*Policy) {
		return func(p *Policy) { p.ScaleUp = Direction{Select: s, Rates: r} }
	}
	down := func(s SelectPolicy, r ...RatePolicy) func(*Policy) {
		return func(p *Policy) { p.ScaleDown = Direction{Select: s, Rates: r} }
	}
	steps := func(v ...int32) func(*State) { // the returned function stores v as targets every 10 s, the last one 10 s before nine
		return func(s *State) {
			for i, n := range v {
				s.steps.Push(history.Stamp(nine.Add(time.Duration(i-len(v))*10*time.Second)), n, 3_600_000)
				s.lastTarget = n
			}
		}
	}
	check(t, RuleRate, []row{
		{name: "4 pods", replicas: 2, values: []float64{200}, policy: up(SelectMax, RatePolicy{Pods, 4, 15 * time.Second}), want: 6,
			from: 20, to: 6, a: 0, b: 2},
		{name: "100 percent", replicas: 6, values: []float64{200}, policy: up(SelectMax,
			RatePolicy{Pods, 4, 15 * time.Second}, RatePolicy{PercentRate, 100, 15 * time.Second}),
			want: 12, from: 20, to: 12, a: 1, b: 6},
		{name: "the least of both", replicas: 6, values: []float64{200},
			policy: up(SelectMin, RatePolicy{Pods, 4, 15 * time.Second}, RatePolicy{PercentRate, 100, 15 * time.Second}),
			want:   10, from: 20, to: 10, a: 0, b: 6},
		{name: "10 percent of 5 is rounded up", replicas: 5, values: []float64{200},
			policy: up(SelectMax, RatePolicy{PercentRate, 10, 15 * time.Second}), want: 6, from: 20, to: 6, a: 0, b: 5},
		{name: "counted from the period's start", replicas: 6, values: []float64{200}, recall: steps(2, 6),
			policy: up(SelectMax, RatePolicy{Pods, 4, 15 * time.Second}),
			want:   6, from: 20, to: 6, a: 0, b: 2},
		{name: "a decrease in the period allows more", replicas: 4, values: []float64{200}, recall: steps(8, 4),
			policy: up(SelectMax, RatePolicy{Pods, 1, 15 * time.Second}),
			want:   9, from: 20, to: 9, a: 0, b: 8},
		{name: "up is disabled", replicas: 6, values: []float64{200}, policy: up(Disabled), want: 6, from: 20, to: 6, a: -1, b: 6},
		{name: "one at a time down", replicas: 6, values: []float64{10}, policy: down(SelectMax, RatePolicy{Pods, 1, time.Minute}),
			want: 5, from: 1, to: 5, a: 0, b: 6},
		{name: "10 percent of 5 takes one", replicas: 5, values: []float64{10},
			policy: down(SelectMax, RatePolicy{PercentRate, 10, time.Minute}), want: 4, from: 1, to: 4, a: 0, b: 5},
		{name: "the greater decrease of both", replicas: 16, values: []float64{10},
			policy: down(SelectMax, RatePolicy{Pods, 1, time.Minute}, RatePolicy{PercentRate, 50, time.Minute}),
			want:   8, from: 1, to: 8, a: 1, b: 16},
		{name: "the smaller decrease of both", replicas: 16, values: []float64{10},
			policy: down(SelectMin, RatePolicy{Pods, 1, time.Minute}, RatePolicy{PercentRate, 50, time.Minute}),
			want:   15, from: 1, to: 15, a: 0, b: 16},
		{name: "the rate of the period is used up", replicas: 5, values: []float64{10}, recall: steps(6, 5),
			policy: down(SelectMax, RatePolicy{Pods, 1, 15 * time.Second}), want: 5, from: 1, to: 5, a: 0, b: 6},
		{name: "an increase in the period can be reverted at once", replicas: 9, values: []float64{10}, recall: steps(5, 9),
			policy: down(SelectMax, RatePolicy{Pods, 1, 15 * time.Second}),
			want:   4, from: 1, to: 4, a: 0, b: 5},
		{name: "down is disabled", replicas: 6, values: []float64{10}, policy: down(Disabled), want: 6, from: 1, to: 6, a: -1, b: 6},
		{name: "a percentage allows one from zero", replicas: 0, values: []float64{200},
			policy: up(SelectMax, RatePolicy{PercentRate, 100, 15 * time.Second}), want: 1, from: 20, to: 1, a: 0, b: 0},
		{name: "no rates", replicas: 1, values: []float64{200}, want: 20, from: noReason},
	})
}

func TestForecast(t *testing.T) {
	ahead := func(p *Policy) { p.Signals[0].Forecast = Forecast{Window: 5 * time.Minute, Deviations: 2} }
	lately := func(level, mean, spread float64) func(*State) {
		return func(s *State) {
			s.forecasts[0] = history.Forecast{Known: true, Level: level, Mean: mean, Spread: spread}
		}
	}
	check(t, RuleForecast, []row{
		{name: "raises at once", replicas: 2, values: []float64{20}, policy: func(p *Policy) { p.ScaleUp.Select = Disabled },
			see: func(o *Observation) { o.Forecast = 7 }, want: 7, from: 2, to: 7, a: 7},
		{name: "never lowers", replicas: 2, values: []float64{90}, see: func(o *Observation) { o.Forecast = 7 }, want: 9, from: 9, to: 9, a: 7},
		{name: "none", replicas: 2, values: []float64{90}, see: func(o *Observation) { o.Forecast = -3 }, want: 9, from: noReason},
		{name: "keeps two deviations", replicas: 4, values: []float64{30}, policy: ahead, recall: lately(3, 3, 1), want: 5,
			from: 3, to: 5, a: 3 + 2*math.Sqrt(300.0/301), b: 3},
		{name: "without deviations it keeps nothing", replicas: 4, values: []float64{30}, policy: ahead, recall: lately(3, 3, 0), want: 3,
			from: 3, to: 3, a: 3, b: 3},
		{name: "starts at the last target", replicas: 4, values: []float64{30}, policy: ahead, want: 4,
			from: 3, to: 4, a: 4 - (1.0/31)*(1.0/301), b: 4 - (1.0/31)*(1.0/301)},
		{name: "the greater of both counts", replicas: 4, values: []float64{30}, policy: ahead, recall: lately(3, 3, 1),
			see: func(o *Observation) { o.Forecast = 7 }, want: 7, from: 3, to: 7, a: 7},
		{name: "does not scale up from zero", replicas: 0, values: []float64{0}, policy: ahead, recall: lately(3, 3, 1), want: 0, from: noReason},
		{name: "does not prevent scale to zero", replicas: 4, values: []float64{0},
			policy: func(p *Policy) { ahead(p); p.CooldownPeriod = time.Minute }, recall: lately(0, 1, 1), want: 0, from: noReason},
		{name: "has no effect for a missing signal", replicas: 4, values: []float64{math.NaN()}, policy: ahead, recall: lately(9, 9, 1),
			want: 4, from: noReason},
		{name: "bounds apply", replicas: 4, values: []float64{30}, policy: ahead, recall: lately(90, 90, 1), want: 20,
			from: 3, to: 92, a: 90 + 2*math.Sqrt(300.0/301) - (60.0/31)*(1.0/301) - (27.0/31)*(1.0/301), b: 90 - (87.0/31)*(1.0/301)},
	})
}

// on returns a schedule that is open from the time 09:00 plus from until 09:00 plus to.
func on(name string, from, to time.Duration, low, high int32) Schedule {
	return Schedule{Window: calendar.Window{Name: name, From: nine.Add(from), To: nine.Add(to)}, Min: low, Max: high}
}

func TestScheduleFloor(t *testing.T) {
	with := func(s ...Schedule) func(*Policy) { return func(p *Policy) { p.Schedules = s } }
	ahead := on("office", 5*time.Minute, time.Hour, 6, -1)
	ahead.Lead = 10 * time.Minute
	check(t, RuleScheduleFloor, []row{
		{name: "open", replicas: 2, values: []float64{20}, policy: with(on("office", 0, time.Hour, 6, -1)), want: 6,
			from: 2, to: 6, a: 6, b: unix(time.Hour)},
		{name: "the greatest of two", replicas: 2, values: []float64{20},
			policy: with(on("a", 0, time.Hour, 4, -1), on("b", -time.Hour, time.Minute, 5, -1)),
			want:   5, from: 2, to: 5, a: 5, b: unix(time.Minute)},
		{name: "ended", replicas: 2, values: []float64{20}, policy: with(on("office", -time.Hour, 0, 6, -1)), want: 2, from: noReason},
		{name: "not yet", replicas: 2, values: []float64{20}, policy: with(on("office", time.Second, time.Hour, 6, -1)), want: 2, from: noReason},
		{name: "early by its lead", replicas: 2, values: []float64{20}, policy: with(ahead), want: 6,
			from: 2, to: 6, a: 6, b: -unix(5 * time.Minute)},
		{name: "does not lower", replicas: 2, values: []float64{90}, policy: with(on("office", 0, time.Hour, 6, -1)), want: 9,
			from: 9, to: 9, a: 6, b: unix(time.Hour)},
		{name: "is exempt from rates", replicas: 1, values: []float64{10}, policy: func(p *Policy) {
			with(on("office", 0, time.Hour, 6, -1))(p)
			p.ScaleUp.Rates = []RatePolicy{{Pods, 1, time.Minute}}
		}, want: 6, from: 1, to: 6, a: 6, b: unix(time.Hour)},
		{name: "scales up from zero", replicas: 0, values: []float64{0}, policy: with(on("office", 0, time.Hour, 2, -1)), want: 2,
			from: 0, to: 2, a: 2, b: unix(time.Hour)},
		{name: "with readings missing", replicas: 2, values: []float64{math.NaN()}, policy: with(on("office", 0, time.Hour, 6, -1)),
			want: 6, from: 2, to: 6, a: 6, b: unix(time.Hour)},
		{name: "above the bounds", replicas: 2, values: []float64{20}, policy: with(on("office", 0, time.Hour, 60, -1)), want: 20,
			from: 2, to: 60, a: 60, b: unix(time.Hour)},
	})
}

func TestScheduleCeiling(t *testing.T) {
	with := func(s ...Schedule) func(*Policy) { return func(p *Policy) { p.Schedules = s } }
	night := on("night", 0, time.Hour, -1, 0)
	stepwise := func(s ...Schedule) func(*Policy) {
		return func(p *Policy) { p.Schedules = s; p.ScaleDown.Rates = []RatePolicy{{Pods, 1, time.Minute}} }
	}
	check(t, RuleScheduleCeiling, []row{
		{name: "with a backlog", replicas: 9, values: []float64{90}, policy: with(night), want: 0, from: 9, to: 0, a: 0, b: unix(time.Hour)},
		{name: "at the scale-down rate", replicas: 9, values: []float64{90}, policy: stepwise(night), want: 8,
			from: 9, to: 8, a: 0, b: unix(time.Hour)},
		{name: "stops an increase at once", replicas: 9, values: []float64{150}, policy: stepwise(night), want: 8,
			from: 15, to: 8, a: 0, b: unix(time.Hour)},
		{name: "with readings missing", replicas: 9, values: []float64{math.NaN()}, policy: stepwise(night), want: 8,
			from: 9, to: 8, a: 0, b: unix(time.Hour)},
		{name: "with another floor", replicas: 9, values: []float64{90}, policy: with(night, on("office", 0, time.Hour, 4, -1)), want: 0,
			from: 9, to: 0, a: 0, b: unix(time.Hour)},
		{name: "the least of two", replicas: 9, values: []float64{90},
			policy: with(on("a", 0, time.Hour, -1, 5), on("b", 0, time.Minute, -1, 3)), want: 3, from: 9, to: 3, a: 3, b: unix(time.Minute)},
		{name: "does not raise", replicas: 2, values: []float64{20}, policy: with(on("a", 0, time.Hour, -1, 5)), want: 2,
			from: 2, to: 2, a: 5, b: unix(time.Hour)},
		{name: "does not lower with scaleDown Disabled", replicas: 9, values: []float64{150},
			policy: func(p *Policy) { with(night)(p); p.ScaleDown.Select = Disabled },
			want:   9, from: 15, to: 9, a: 0, b: unix(time.Hour)},
		{name: "without an end", replicas: 9, values: []float64{90},
			policy: func(p *Policy) { with(night)(p); p.Schedules[0].Window.To = time.Time{} }, want: 0, from: 9, to: 0},
		{name: "below MinReplicas", replicas: 9, values: []float64{90}, policy: func(p *Policy) { with(night)(p); p.MinReplicas = 1 },
			want: 1, from: 9, to: 0, a: 0, b: unix(time.Hour)},
	})
}

func TestAdvice(t *testing.T) {
	risk := func(ready, n int32) func(*Observation) {
		return func(o *Observation) { o.Ready, o.Advice.AtRisk = ready, n }
	}
	reserve := func(ready, n, reserved int32) func(*Observation) {
		return func(o *Observation) { o.Ready, o.Advice.AtRisk, o.Advice.Reserve = ready, n, reserved }
	}
	check(t, RuleAtRisk, []row{
		{name: "replacements before the interruption", replicas: 9, values: []float64{90}, see: risk(9, 2), want: 11, from: 9, to: 11, a: 2},
		{name: "during a decrease the remaining replicas count", replicas: 9, values: []float64{70}, see: risk(9, 3), want: 10,
			from: 7, to: 10, a: 3},
		{name: "a ready replacement is not spare", replicas: 11, values: []float64{90}, see: risk(11, 2), want: 11, from: 9, to: 11, a: 2},
		{name: "the replicas at risk are no longer ready", replicas: 11, values: []float64{90}, see: risk(1, 2), want: 11, from: 9, to: 11,
			a: 2},
		{name: "with a reserve", replicas: 9, values: []float64{90}, see: reserve(9, 3, 1), want: 12, from: 9, to: 12, a: 3, b: 1},
		{name: "the reserve stays when replicas fail", replicas: 12, values: []float64{90}, see: reserve(2, 3, 2), want: 12, from: 9, to: 12,
			a: 3, b: 2},
		{name: "none at zero", replicas: 0, values: []float64{0}, see: risk(2, 2), want: 0, from: noReason},
		{name: "above a ceiling", replicas: 4, values: []float64{90},
			policy: func(p *Policy) { p.Schedules = []Schedule{on("a", 0, time.Hour, -1, 4)} },
			see:    risk(4, 1), want: 5, from: 4, to: 5, a: 1},
		{name: "negative is none", replicas: 4, values: []float64{40}, see: risk(4, -1), want: 4, from: noReason},
		{name: "added to minReplicas", replicas: 3, values: []float64{10}, policy: func(p *Policy) { p.MinReplicas = 3 }, see: risk(3, 2),
			want: 5, from: 1, to: 5, a: 2},
	})
	surge := func(n int32) func(*Observation) { return func(o *Observation) { o.Advice.Surge = n } }
	check(t, RuleSurge, []row{
		{name: "one replica", replicas: 9, values: []float64{90}, see: surge(1), want: 10, from: 9, to: 10, a: 1},
		{name: "none at zero", replicas: 0, values: []float64{0}, see: surge(1), want: 0, from: noReason},
		{name: "added to minReplicas without demand", replicas: 3, values: []float64{0}, policy: func(p *Policy) { p.MinReplicas = 3 },
			see: surge(1), want: 4, from: 0, to: 4, a: 1},
		{name: "within the bounds", replicas: 20, values: []float64{200}, see: surge(3), want: 20, from: 20, to: 23, a: 3},
	})
	cap := func(n int32) func(*Observation) { return func(o *Observation) { o.Advice.Cap = n } }
	check(t, RuleCapacity, []row{
		{name: "stops an increase", replicas: 6, values: []float64{90}, see: cap(7), want: 7, from: 9, to: 7, a: 7},
		{name: "does not lower below the current replicas", replicas: 6, values: []float64{90}, see: cap(4), want: 6, from: 9, to: 6, a: 4},
		{name: "does not raise", replicas: 6, values: []float64{30}, see: cap(7), want: 3, from: 3, to: 3, a: 7},
		{name: "none", replicas: 6, values: []float64{90}, see: cap(-1), want: 9, from: noReason},
		{name: "pods are rejected", replicas: 6, values: []float64{90}, see: func(o *Observation) { o.Advice.Cap, o.Advice.Rejected = 5, true },
			want: 6, from: 9, to: 6, a: 5, b: 1},
	})
}

func TestOperator(t *testing.T) {
	says := func(op Operator) func(*Observation) { return func(o *Observation) { o.Operator = op } }
	hour := nine.Add(time.Hour)
	night := func(p *Policy) { p.Schedules = []Schedule{on("night", 0, time.Hour, -1, 0)} }
	check(t, RuleOverride, []row{
		{name: "min", replicas: 6, values: []float64{20}, see: says(Operator{Min: 12, Max: -1, Until: hour}), want: 12,
			from: 2, to: 12, a: 12, b: -1},
		{name: "max, at once", replicas: 6, values: []float64{90}, see: says(Operator{Min: -1, Max: 3, Until: hour}),
			policy: func(p *Policy) { p.ScaleDown.Select = Disabled },
			want:   3, from: 9, to: 3, a: -1, b: 3},
		{name: "max with readings missing", replicas: 6, values: []float64{math.NaN()}, see: says(Operator{Min: -1, Max: 3, Until: hour}),
			want: 3, from: 6, to: 3, a: -1, b: 3},
		{name: "min above its own max", replicas: 6, values: []float64{90}, see: says(Operator{Min: 5, Max: 3, Until: hour}), want: 5,
			from: 9, to: 5, a: 5, b: 3},
		{name: "min above a ceiling", replicas: 6, values: []float64{90}, policy: night, see: says(Operator{Min: 5, Max: -1,
			Until: hour}), want: 5, from: 0, to: 5, a: 5, b: -1},
		{name: "ended", replicas: 6, values: []float64{20}, see: says(Operator{Min: 12, Max: -1, Until: nine}), want: 2, from: noReason},
		{name: "without an end it does not apply", replicas: 6, values: []float64{20}, see: says(Operator{}), want: 2, from: noReason},
		{name: "not above the bounds", replicas: 6, values: []float64{20}, see: says(Operator{Min: 99, Max: -1, Until: hour}), want: 20,
			from: 2, to: 99, a: 99, b: -1},
		{name: "scales up from zero", replicas: 0, values: []float64{0}, see: says(Operator{Min: 1, Max: -1, Until: hour}), want: 1,
			from: 0, to: 1, a: 1, b: -1},
	})
	check(t, RulePaused, []row{
		{name: "keeps the current replicas", replicas: 6, values: []float64{90}, see: says(Operator{Paused: true, Min: -1, Max: -1}),
			want: 6, from: 9, to: 6, a: 6},
		{name: "takes precedence over an override", replicas: 6, values: []float64{90}, see: says(Operator{Paused: true, Min: 12, Max: -1,
			Until: hour}), want: 6, from: 12, to: 6, a: 6},
		{name: "above the bounds", replicas: 30, values: []float64{90}, see: says(Operator{Paused: true, Min: -1, Max: -1}), want: 20,
			from: 9, to: 30, a: 30},
		{name: "at zero below minReplicas", replicas: 0, values: []float64{90}, policy: func(p *Policy) { p.MinReplicas = 2 },
			see: says(Operator{Paused: true, Min: -1, Max: -1}), want: 0, from: 9, to: 0},
	})
	allows := func(most int32) func(*Observation) { return func(o *Observation) { o.HPAMaxReplicas = most } }
	check(t, RuleBounds, []row{
		{name: "within", replicas: 6, values: []float64{90}, want: 9, from: 9, to: 9, a: 0, b: 20},
		{name: "above", replicas: 6, values: []float64{900}, want: 20, from: 90, to: 20, a: 0, b: 20},
		{name: "below", replicas: 6, values: []float64{10}, policy: func(p *Policy) { p.MinReplicas = 3 }, want: 3, from: 1, to: 3, a: 3, b: 20},
		{name: "a lower maximum applies at once", replicas: 30, values: []float64{300},
			policy: func(p *Policy) { p.ScaleDown.Select = Disabled }, want: 20, from: 30, to: 20, a: 0, b: 20},
		{name: "the managed HPA's maximum", replicas: 6, values: []float64{90}, see: allows(7), want: 7, from: 9, to: 7, a: 0, b: 7},
		{name: "the managed HPA's maximum at once, with readings missing", replicas: 9, values: []float64{math.NaN()}, see: allows(7),
			want: 7, from: 9, to: 7, a: 0, b: 7},
		{name: "a managed HPA that allows more", replicas: 6, values: []float64{900}, see: allows(40), want: 20, from: 90, to: 20, a: 0, b: 20},
		{name: "the managed HPA's maximum below minReplicas", replicas: 6, values: []float64{90},
			policy: func(p *Policy) { p.MinReplicas = 8 }, see: allows(7), want: 7, from: 9, to: 7, a: 8, b: 7},
		{name: "a managed HPA without a maximum", replicas: 6, values: []float64{90}, see: allows(-1), want: 9, from: 9, to: 9, a: 0, b: 20},
		{name: "min above max", replicas: 6, values: []float64{90}, policy: func(p *Policy) { p.MinReplicas = 30 }, want: 20,
			from: 9, to: 20, a: 30, b: 20},
		{name: "both negative", replicas: 6, values: []float64{90}, policy: func(p *Policy) { p.MinReplicas, p.MaxReplicas = -5, -2 },
			want: 0, from: 9, to: 0, a: -5, b: -2},
	})
	of := func(p *Policy) {
		p.Team = &Team{Name: "chat", Limits: []ResourceLimit{{"amd.com/gpu", 2}, {"nvidia.com/gpu", 16}}}
	}
	leaves := func(most int32) func(*Observation) {
		return func(o *Observation) { o.Limit = TeamLimit{Limited: true, Max: most, Index: 1, Others: 9} }
	}
	check(t, RuleTeamLimit, []row{
		{name: "no limit", replicas: 6, values: []float64{90}, policy: of, want: 9, from: noReason},
		{name: "cut", replicas: 6, values: []float64{90}, policy: of, see: leaves(7), want: 7, from: 9, to: 7, a: 16, b: 9},
		{name: "at once, with scaleDown disabled", replicas: 9, values: []float64{90},
			policy: func(p *Policy) { of(p); p.ScaleDown.Select = Disabled }, see: leaves(2), want: 2, from: 9, to: 2, a: 16, b: 9},
		{name: "with readings missing", replicas: 9, values: []float64{math.NaN()}, policy: of, see: leaves(2), want: 2,
			from: 9, to: 2, a: 16, b: 9},
		{name: "below minReplicas", replicas: 9, values: []float64{90}, policy: func(p *Policy) { of(p); p.MinReplicas = 8 },
			see: leaves(2), want: 2, from: 9, to: 2, a: 16, b: 9},
		{name: "with a pause", replicas: 9, values: []float64{90}, policy: of, want: 2, from: 9, to: 2, a: 16, b: 9, see: func(o *Observation) {
			leaves(2)(o)
			o.Operator.Paused = true
		}},
		{name: "cuts what the rules about nodes add", replicas: 9, values: []float64{90}, policy: of, want: 9,
			from: 11, to: 9, a: 16, b: 9, see: func(o *Observation) {
				leaves(9)(o)
				o.Advice.Surge = 2
			}},
		{name: "a negative share", replicas: 9, values: []float64{90}, policy: of, see: leaves(-3), want: 0, from: 9, to: 0, a: 16, b: 9},
	})
}

// A decision contains the cause of a cap, with the names of NodePools, only while the group caps the target of the workload.
func TestCauseOfTheCapIsOnlyOnACappedTarget(t *testing.T) {
	cause := &capcause.Cause{Group: "shared"}
	for _, c := range []struct {
		story  string
		queue  float64
		target int32
		cause  *capcause.Cause
	}{
		{"a target above the cap", 90, 7, cause}, {"a target equal to the cap", 70, 7, nil}, {"a target below the cap", 30, 3, nil},
	} {
		r := row{replicas: 2, values: []float64{c.queue}, see: func(o *Observation) { o.Advice = Advice{Cap: 7, CapCause: cause} }}
		p, o, s := r.build()
		if d, _ := Decide(p, o, s, nine); d.Replicas != c.target || d.CapCause != c.cause {
			t.Errorf("%s: target %d, cause %v", c.story, d.Replicas, d.CapCause)
		}
	}
}
