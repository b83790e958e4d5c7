package scaling

import (
	"math"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
)

// row is one tick of one rule's table: a policy changed, a state after Seed(replicas), an observation, and what must come of it.
type row struct {
	name     string
	replicas int32 // of the seed and the observation
	values   []float64
	policy   func(*Policy)
	see      func(*Observation)
	recall   func(*State)
	want     int32
	from     int32 // of the rule's reason; -1: the rule leaves none
	to       int32
	a, b     float64
}

const silent = -1

// check runs a table against one rule. The basic policy has one queue of 10 per replica, bounds 0..20, and no windows or rates.
func check(t *testing.T, rule Rule, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			p := &Policy{Signals: []Signal{queue(10)}, MaxReplicas: 20}
			if r.policy != nil {
				r.policy(p)
			}
			s := Seed(p, r.replicas, nine.Add(-time.Hour))
			s.down, s.up = window{}, window{}
			s.at = stamp(nine) - 1000
			if r.recall != nil {
				r.recall(&s)
			}
			o := Observation{Replicas: r.replicas, Ready: r.replicas, Advice: NoAdvice, Operator: NoOperator}
			for _, v := range r.values {
				o.Readings = append(o.Readings, Reading{Value: v, At: nine, Coverage: 1, Known: true})
			}
			if r.see != nil {
				r.see(&o)
			}
			d, _ := Decide(p, o, s, nine)
			if d.Replicas != r.want {
				t.Errorf("decided %d, want %d\n%s", d.Replicas, r.want, table(p, &d))
			}
			found := false
			for _, reason := range d.Reasons.All() {
				if reason.Rule != rule {
					continue
				}
				if found {
					t.Errorf("%v left two reasons", rule)
				}
				found = true
				if reason.From != r.from || reason.To != r.to || !near(reason.A, r.a) || !near(reason.B, r.b) {
					t.Errorf("%+v, want %d -> %d with %v and %v", reason, r.from, r.to, r.a, r.b)
				}
			}
			if found != (r.from != silent) {
				t.Errorf("%v spoke: %v\n%s", rule, found, table(p, &d))
			}
		})
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

func unix(d time.Duration) float64 { return float64(nine.Add(d).UnixMilli()) / 1000 }

func twoSignals(p *Policy) {
	p.Signals = []Signal{queue(10), {Name: "kv", Kind: Mean, Class: Utilization, Target: 0.8, MaxAge: time.Minute}}
}

func TestCombine(t *testing.T) {
	check(t, RuleCombine, []row{
		{name: "a total is value over target, rounded up", replicas: 6, values: []float64{87}, want: 9, from: 6, to: 9, a: 8.7, b: 87},
		{name: "a total on the dot", replicas: 6, values: []float64{90}, want: 9, from: 6, to: 9, a: 9, b: 90},
		{name: "the greatest wins", replicas: 6, values: []float64{20, 0.91}, policy: twoSignals, want: 7, from: 6, to: 7, a: 6.825, b: 0.91},
		{name: "no signals at all ask for nothing", replicas: 6, policy: func(p *Policy) { p.Signals = nil; p.MinReplicas = 2 }, want: 2, from: 6, to: 0},
		{name: "a stale signal that raises", replicas: 6, values: []float64{87}, see: func(o *Observation) { o.Readings[0].At = nine.Add(-2 * time.Minute) },
			want: 9, from: 6, to: 9, a: 8.7, b: 87},
		{name: "a stale signal that would lower", replicas: 6, values: []float64{20}, see: func(o *Observation) { o.Readings[0].At = nine.Add(-2 * time.Minute) },
			want: 6, from: silent},
		{name: "rounding of doubles buys nothing", replicas: 3, values: []float64{0.7}, policy: func(p *Policy) { p.Signals = []Signal{busy(0.7)} },
			want: 3, from: 3, to: 3, a: 3, b: 0.7},
		{name: "pods that did not report count as on target in a fall", replicas: 10, values: []float64{0.35}, policy: func(p *Policy) { p.Signals = []Signal{busy(0.7)} },
			see: func(o *Observation) { o.Readings[0].Coverage = 0.9 }, want: 6, from: 10, to: 6, a: 5.5, b: 0.35},
		{name: "and as idle in a rise, which never becomes a fall", replicas: 10, values: []float64{0.707}, policy: func(p *Policy) { p.Signals = []Signal{busy(0.7)} },
			see: func(o *Observation) { o.Readings[0].Coverage = 0.8 }, want: 10, from: 10, to: 10, a: 10, b: 0.707},
		{name: "a formula", replicas: 6, values: []float64{87, 0.5}, policy: func(p *Policy) {
			twoSignals(p)
			p.Formula = func(a []Ask, _, _ int32) (float64, bool) { return a[0].Replicas/2 + a[1].Replicas/2, true }
		}, want: 7, from: 6, to: 7, a: 6.225},
		{name: "a formula that fails", replicas: 6, values: []float64{20}, policy: func(p *Policy) {
			p.Formula = func([]Ask, int32, int32) (float64, bool) { return 1, false }
		}, want: 6, from: silent},
		{name: "a formula that gives NaN", replicas: 6, values: []float64{20}, policy: func(p *Policy) {
			p.Formula = func([]Ask, int32, int32) (float64, bool) { return math.NaN(), true }
		}, want: 6, from: silent},
	})
}

func TestMissing(t *testing.T) {
	gone := func(i int) func(*Observation) {
		return func(o *Observation) { o.Readings[i] = Reading{Cause: CauseUnreachable, Failures: 1} }
	}
	optional := func(p *Policy) { twoSignals(p); p.Signals[0].Optional = true }
	thin := func(p *Policy) { p.Signals = []Signal{busy(0.7)} }
	check(t, RuleMissing, []row{
		{name: "all is known", replicas: 6, values: []float64{20}, want: 2, from: silent},
		{name: "a required one is gone: no fall", replicas: 6, values: []float64{0, 0.2}, policy: twoSignals, see: gone(0),
			want: 6, from: 2, to: 6, a: 1, b: float64(SignalMissing)},
		{name: "a required one is gone: the others raise", replicas: 6, values: []float64{0, 1.6}, policy: twoSignals, see: gone(0),
			want: 12, from: 12, to: 12, a: 1, b: float64(SignalMissing)},
		{name: "an optional one is gone", replicas: 6, values: []float64{0, 0.4}, policy: optional, see: gone(0), want: 3, from: silent},
		{name: "every one is gone, all optional", replicas: 6, values: []float64{0}, policy: func(p *Policy) { p.Signals[0].Optional = true }, see: gone(0),
			want: 6, from: 6, to: 6},
		{name: "fewer readings than signals", replicas: 6, policy: twoSignals, want: 6, from: 6, to: 6, a: 2, b: float64(SignalMissing)},
		{name: "NaN", replicas: 6, values: []float64{math.NaN()}, want: 6, from: 6, to: 6, a: 1, b: float64(SignalMissing)},
		{name: "an infinity", replicas: 6, values: []float64{math.Inf(1)}, want: 6, from: 6, to: 6, a: 1, b: float64(SignalMissing)},
		{name: "negative", replicas: 6, values: []float64{-1}, want: 6, from: 6, to: 6, a: 1, b: float64(SignalMissing)},
		{name: "from next week", replicas: 6, values: []float64{0}, see: func(o *Observation) { o.Readings[0].At = nine.Add(7 * 24 * time.Hour) },
			want: 6, from: 6, to: 6, a: 1, b: float64(SignalMissing)},
		{name: "from two minutes ahead", replicas: 6, values: []float64{0}, see: func(o *Observation) { o.Readings[0].At = nine.Add(2 * time.Minute) },
			want: 6, from: 6, to: 6, a: 1, b: float64(SignalStale)},
		{name: "from half a minute ahead: clocks differ", replicas: 6, values: []float64{20}, see: func(o *Observation) { o.Readings[0].At = nine.Add(30 * time.Second) },
			want: 2, from: silent},
		{name: "too old to raise", replicas: 6, values: []float64{999}, see: func(o *Observation) { o.Readings[0].At = nine.Add(-4*time.Minute - time.Second) },
			want: 6, from: 6, to: 6, a: 1, b: float64(SignalMissing)},
		{name: "half the pods reported: no fall", replicas: 6, values: []float64{0.1}, policy: thin, see: func(o *Observation) { o.Readings[0].Coverage = 0.5 },
			want: 6, from: 6, to: 6, a: 1, b: float64(SignalLowCoverage)},
		{name: "half the pods reported: up by what they carry", replicas: 6, values: []float64{2.1}, policy: thin, see: func(o *Observation) { o.Readings[0].Coverage = 0.5 },
			want: 9, from: 9, to: 9, a: 1, b: float64(SignalLowCoverage)},
		{name: "coverage is NaN", replicas: 6, values: []float64{0.1}, policy: thin, see: func(o *Observation) { o.Readings[0].Coverage = math.NaN() },
			want: 6, from: 6, to: 6, a: 1, b: float64(SignalLowCoverage)},
		{name: "a mean with no ready replica", replicas: 6, values: []float64{0.1}, policy: thin, see: func(o *Observation) { o.Ready = 0 },
			want: 6, from: 6, to: 6, a: 1, b: float64(SignalUnmeasured)},
		{name: "at zero the pods' own metrics are no loss", replicas: 0, values: []float64{0, 0}, policy: twoSignals, see: gone(1), want: 0, from: silent},
		{name: "at zero with nothing left to wake it", replicas: 0, values: []float64{0, 0}, policy: twoSignals,
			see: func(o *Observation) { o.Readings = nil }, want: 0, from: 0, to: 0, a: 2, b: float64(SignalMissing)},
		{name: "the HPA has not followed the last fall", replicas: 6, values: []float64{math.NaN()}, recall: func(s *State) { s.base = 4 },
			want: 6, from: 6, to: 6, a: 1, b: float64(SignalMissing)},
		{name: "the HPA has not followed the last rise", replicas: 6, values: []float64{math.NaN()}, recall: func(s *State) { s.base = 9 },
			want: 9, from: 9, to: 9, a: 1, b: float64(SignalMissing)},
	})
}

func TestFallback(t *testing.T) {
	with := func(b FallbackBehavior, n int32) func(*Policy) {
		return func(p *Policy) { p.Fallback = Fallback{FailureThreshold: 3, Behavior: b, Replicas: n} }
	}
	failed := func(n int32) func(*Observation) {
		return func(o *Observation) { o.Readings = []Reading{{Cause: CauseUnreachable, Failures: n}} }
	}
	check(t, RuleFallback, []row{
		{name: "none", replicas: 6, policy: with(FallbackNone, 9), see: failed(3), want: 6, from: silent},
		{name: "before the threshold", replicas: 6, policy: with(FallbackStatic, 9), see: failed(2), want: 6, from: silent},
		{name: "static above", replicas: 6, policy: with(FallbackStatic, 9), see: failed(3), want: 9, from: 6, to: 9, a: 3, b: 9},
		{name: "static below is law 3's", replicas: 6, policy: with(FallbackStatic, 2), see: failed(3), want: 6, from: 6, to: 6, a: 3, b: 2},
		{name: "currentReplicas", replicas: 6, policy: with(FallbackCurrentReplicas, 9), see: failed(4), want: 6, from: 6, to: 6, a: 4, b: 9},
		{name: "currentReplicasIfHigher, higher", replicas: 6, policy: with(FallbackCurrentReplicasIfHigher, 4), see: failed(3), want: 6, from: 6, to: 6, a: 3, b: 4},
		{name: "currentReplicasIfHigher, lower", replicas: 6, policy: with(FallbackCurrentReplicasIfHigher, 9), see: failed(3), want: 9, from: 6, to: 9, a: 3, b: 9},
		{name: "currentReplicasIfLower, lower is law 3's", replicas: 6, policy: with(FallbackCurrentReplicasIfLower, 2), see: failed(3), want: 6, from: 6, to: 6, a: 3, b: 2},
		{name: "currentReplicasIfLower, higher", replicas: 6, policy: with(FallbackCurrentReplicasIfLower, 9), see: failed(3), want: 6, from: 6, to: 6, a: 3, b: 9},
		{name: "at zero it wakes, as in KEDA", replicas: 0, policy: with(FallbackStatic, 2), see: failed(3), want: 2, from: 0, to: 2, a: 3, b: 2},
		{name: "a cold start is no failure", replicas: 1, policy: with(FallbackStatic, 9), see: func(o *Observation) {
			o.Ready, o.Loading, o.Readings = 0, 1, []Reading{{Cause: CauseEmpty, Failures: 30}}
		}, want: 1, from: silent},
		{name: "beyond the bounds", replicas: 6, policy: with(FallbackStatic, 99), see: failed(3), want: 20, from: 6, to: 99, a: 3, b: 99},
		{name: "a known signal asks for more", replicas: 6, values: []float64{0, 4}, policy: func(p *Policy) { twoSignals(p); with(FallbackStatic, 9)(p) },
			see: func(o *Observation) { o.Readings[0] = Reading{Failures: 3} }, want: 20, from: 30, to: 30, a: 3, b: 9},
	})
}

func TestVeto(t *testing.T) {
	both := func(p *Policy) { p.Signals = []Signal{queue(10), busy(0.7)} }
	grew := func(s *State) { s.trends[0] = trend{true, 20, 12} }
	check(t, RuleVeto, []row{
		{name: "the queue grows while the GPUs look idle", replicas: 6, values: []float64{20, 0.1}, policy: both, recall: grew, want: 6, from: 2, to: 6, a: 20, b: 12.044199},
		{name: "the queue stands", replicas: 6, values: []float64{20, 0.1}, policy: both, recall: func(s *State) { s.trends[0] = trend{true, 20, 19} }, want: 2, from: silent},
		{name: "the queue grows from nothing to nothing", replicas: 6, values: []float64{0.9, 0.1}, policy: both, recall: func(s *State) { s.trends[0] = trend{true, 0.9, 0.1} }, want: 1, from: silent},
		{name: "never seen before", replicas: 6, values: []float64{20, 0.1}, policy: both, want: 2, from: silent},
		{name: "demand alone decides for itself", replicas: 6, values: []float64{20}, recall: grew, want: 2, from: silent},
		{name: "a rise needs no veto", replicas: 6, values: []float64{80, 0.1}, policy: both, recall: grew, want: 8, from: silent},
		{name: "utilization does not veto itself", replicas: 6, values: []float64{0.2}, policy: func(p *Policy) { p.Signals = []Signal{busy(0.7)} }, recall: grew, want: 2, from: silent},
		{name: "latency counts like demand", replicas: 6, values: []float64{0.2, 0.1}, policy: func(p *Policy) {
			both(p)
			p.Signals[0] = Signal{Kind: Mean, Class: Latency, Target: 1, MaxAge: time.Minute}
		}, recall: func(s *State) { s.trends[0] = trend{true, 0.4, 0.1} }, want: 6, from: 2, to: 6, a: 0.393548, b: 0.100552},
	})
}

func TestLoading(t *testing.T) {
	mean := func(p *Policy) { p.Signals = []Signal{busy(0.5)} }
	load := func(ready, loading int32) func(*Observation) {
		return func(o *Observation) { o.Ready, o.Loading = ready, loading }
	}
	check(t, RuleLoading, []row{
		{name: "a mean over 2 of 6 takes none of the others back", replicas: 6, values: []float64{0.5}, policy: mean, see: load(2, 4), want: 6, from: 2, to: 6, a: 4, b: 2},
		{name: "pending ones may go", replicas: 6, values: []float64{0.5}, policy: mean, see: load(2, 1), want: 3, from: 2, to: 3, a: 1, b: 2},
		{name: "it never raises", replicas: 3, values: []float64{0.1}, policy: mean, see: load(2, 4), want: 3, from: 1, to: 3, a: 4, b: 2},
		{name: "a total may take them back", replicas: 6, values: []float64{20}, see: load(2, 4), want: 2, from: silent},
		{name: "none is bought twice", replicas: 6, values: []float64{1}, policy: mean, see: load(3, 3), want: 6, from: 6, to: 6, a: 3, b: 3},
		{name: "all that are ready are busy, the others crash", replicas: 6, values: []float64{0.7}, policy: mean, see: load(2, 0), want: 6, from: 3, to: 6, a: 0, b: 2},
		{name: "on target the ready ones do", replicas: 6, values: []float64{0.5}, policy: mean, see: load(2, 0), want: 2, from: silent},
		{name: "nothing loads", replicas: 6, values: []float64{0.25}, policy: mean, want: 3, from: silent},
	})
}

func TestTolerance(t *testing.T) {
	tenth := func(p *Policy) { p.ScaleUp.Tolerance, p.ScaleDown.Tolerance, p.MaxReplicas = 0.1, 0.1, 100 }
	check(t, RuleTolerance, []row{
		{name: "4% more", replicas: 10, values: []float64{104}, policy: tenth, want: 10, from: 11, to: 10, a: 1.04, b: 0.1},
		{name: "just above 10% more", replicas: 10, values: []float64{110.5}, policy: tenth, want: 12, from: silent},
		{name: "exactly 10% less", replicas: 20, values: []float64{180}, policy: tenth, want: 20, from: 18, to: 20, a: 0.9, b: 0.1},
		{name: "just below", replicas: 20, values: []float64{179}, policy: tenth, want: 18, from: silent},
		{name: "none asked for", replicas: 10, values: []float64{104}, want: 11, from: silent},
		{name: "zero is left whatever it is", replicas: 0, values: []float64{1}, policy: tenth, want: 1, from: silent},
		{name: "a held number is not within tolerance, it is equal", replicas: 10, values: []float64{math.NaN()}, policy: tenth, want: 10, from: silent},
	})
}

func TestPanic(t *testing.T) {
	p := func(p *Policy) { p.Panic = Panic{Threshold: 2, Window: time.Minute} }
	slow := func(q *Policy) { p(q); q.ScaleUp.Rates = []RatePolicy{{Pods, 1, time.Minute}} }
	check(t, RulePanic, []row{
		{name: "twice the ready ones", replicas: 5, values: []float64{100}, policy: slow, want: 10, from: 10, to: 10, a: 2, b: unix(time.Minute)},
		{name: "less than twice", replicas: 5, values: []float64{90}, policy: slow, want: 6, from: silent},
		{name: "a window still open keeps what stands", replicas: 5, values: []float64{10}, policy: p, recall: func(s *State) { s.panicUntil = stamp(nine) + 1000 },
			want: 5, from: 1, to: 5, a: 0.2, b: unix(time.Second)},
		{name: "a window just over", replicas: 5, values: []float64{10}, policy: p, recall: func(s *State) { s.panicUntil = stamp(nine) }, want: 1, from: silent},
		{name: "none ready counts as one", replicas: 1, values: []float64{20}, policy: slow, see: func(o *Observation) { o.Ready = 0 },
			want: 2, from: 2, to: 2, a: 2, b: unix(time.Minute)},
		{name: "off", replicas: 5, values: []float64{150}, want: 15, from: silent},
	})
}

func TestStabilize(t *testing.T) {
	p := func(p *Policy) {
		p.ScaleUp.StabilizationWindow, p.ScaleDown.StabilizationWindow, p.MinReplicas = time.Minute, 10*time.Minute, 1
	}
	past := func(ago time.Duration, n int32) func(*State) {
		return func(s *State) { s.down.push(stamp(nine.Add(-ago)), n); s.up.push(stamp(nine.Add(-ago)), -n) }
	}
	check(t, RuleStabilize, []row{
		{name: "down to the greatest of the window", replicas: 9, values: []float64{20}, policy: p, recall: past(time.Minute, 5), want: 5, from: 2, to: 5, a: 600, b: unix(9 * time.Minute)},
		{name: "never above what stands", replicas: 4, values: []float64{20}, policy: p, recall: past(time.Minute, 5), want: 4, from: 2, to: 4, a: 600, b: unix(9 * time.Minute)},
		{name: "the instant at which it leaves", replicas: 9, values: []float64{20}, policy: p, recall: past(10*time.Minute, 9), want: 2, from: silent},
		{name: "one millisecond before", replicas: 9, values: []float64{20}, policy: p, recall: past(10*time.Minute-time.Millisecond, 9), want: 9, from: 2, to: 9, a: 600, b: unix(time.Millisecond)},
		{name: "up to the least of the window", replicas: 2, values: []float64{90}, policy: p, recall: past(30*time.Second, 5), want: 5, from: 9, to: 5, a: 60, b: unix(30 * time.Second)},
		{name: "never below what stands", replicas: 6, values: []float64{90}, policy: p, recall: past(30*time.Second, 5), want: 6, from: 9, to: 6, a: 60, b: unix(30 * time.Second)},
		{name: "no windows", replicas: 6, values: []float64{20}, recall: past(time.Second, 6), want: 2, from: silent},
	})
}

func TestIdle(t *testing.T) {
	p := func(p *Policy) { p.CooldownPeriod = 15 * time.Minute; p.Signals[0].Activation = 5 }
	quiet := func(d time.Duration) func(*State) { return func(s *State) { s.activeAt = stamp(nine.Add(-d)) } }
	check(t, RuleIdle, []row{
		{name: "within the cooldown one stays", replicas: 1, values: []float64{0}, policy: p, recall: quiet(14 * time.Minute), want: 1, from: 0, to: 1, a: 840, b: unix(time.Minute)},
		{name: "the cooldown is over", replicas: 1, values: []float64{0}, policy: p, recall: quiet(15 * time.Minute), want: 0, from: 0, to: 0, a: 900, b: unix(0)},
		{name: "under the activation although one is asked for", replicas: 1, values: []float64{5}, policy: p, recall: quiet(time.Hour), want: 0, from: 1, to: 0, a: 3600, b: unix(-45 * time.Minute)},
		{name: "above the activation", replicas: 1, values: []float64{5.1}, policy: p, recall: quiet(time.Hour), want: 1, from: silent},
		{name: "at zero under the activation", replicas: 0, values: []float64{5}, policy: p, want: 0, from: 1, to: 0, a: 3600, b: unix(-45 * time.Minute)},
		{name: "at zero, first demand: what is asked", replicas: 0, values: []float64{45}, policy: p, want: 5, from: silent},
		{name: "from zero at least one", replicas: 0, values: []float64{0.1}, policy: func(p *Policy) {
			p.Formula = func([]Ask, int32, int32) (float64, bool) { return 0, true }
		}, want: 1, from: 0, to: 1, a: 0, b: unix(-time.Hour)},
		{name: "missing forbids it", replicas: 1, values: []float64{math.NaN()}, policy: p, recall: quiet(time.Hour), want: 1, from: silent},
		{name: "a minimum of one", replicas: 1, values: []float64{0}, policy: func(q *Policy) { p(q); q.MinReplicas = 1 }, recall: quiet(time.Hour), want: 1, from: silent},
		{name: "all must be active: one is", replicas: 1, values: []float64{50, 0}, policy: func(q *Policy) { twoSignals(q); q.Activation = ActiveByAll }, recall: quiet(time.Hour),
			want: 0, from: 5, to: 0, a: 3600, b: unix(-time.Hour)},
		{name: "all must be active: both are", replicas: 1, values: []float64{50, 0.1}, policy: func(q *Policy) { twoSignals(q); q.Activation = ActiveByAll }, recall: quiet(time.Hour),
			want: 5, from: silent},
	})
}

func TestRate(t *testing.T) {
	up := func(s SelectPolicy, r ...RatePolicy) func(*Policy) {
		return func(p *Policy) { p.ScaleUp = Direction{Select: s, Rates: r} }
	}
	down := func(s SelectPolicy, r ...RatePolicy) func(*Policy) {
		return func(p *Policy) { p.ScaleDown = Direction{Select: s, Rates: r} }
	}
	steps := func(v ...int32) func(*State) { // ten seconds apart, the last one ten seconds ago
		return func(s *State) {
			for i, n := range v {
				s.steps.push(stamp(nine.Add(time.Duration(i-len(v))*10*time.Second)), n, 3_600_000)
				s.base = n
			}
		}
	}
	check(t, RuleRate, []row{
		{name: "4 pods", replicas: 2, values: []float64{200}, policy: up(SelectMax, RatePolicy{Pods, 4, 15 * time.Second}), want: 6, from: 20, to: 6, a: 0, b: 2},
		{name: "100 percent", replicas: 6, values: []float64{200}, policy: up(SelectMax, RatePolicy{Pods, 4, 15 * time.Second}, RatePolicy{PercentRate, 100, 15 * time.Second}),
			want: 12, from: 20, to: 12, a: 1, b: 6},
		{name: "the least of both", replicas: 6, values: []float64{200}, policy: up(SelectMin, RatePolicy{Pods, 4, 15 * time.Second}, RatePolicy{PercentRate, 100, 15 * time.Second}),
			want: 10, from: 20, to: 10, a: 0, b: 6},
		{name: "10 percent of 5 is rounded up", replicas: 5, values: []float64{200}, policy: up(SelectMax, RatePolicy{PercentRate, 10, 15 * time.Second}), want: 6, from: 20, to: 6, a: 0, b: 5},
		{name: "counted from the period's start", replicas: 6, values: []float64{200}, recall: steps(2, 6), policy: up(SelectMax, RatePolicy{Pods, 4, 15 * time.Second}),
			want: 6, from: 20, to: 6, a: 0, b: 2},
		{name: "a fall within the period gives room", replicas: 4, values: []float64{200}, recall: steps(8, 4), policy: up(SelectMax, RatePolicy{Pods, 1, 15 * time.Second}),
			want: 9, from: 20, to: 9, a: 0, b: 8},
		{name: "up is disabled", replicas: 6, values: []float64{200}, policy: up(Disabled), want: 6, from: 20, to: 6, a: -1, b: 6},
		{name: "one at a time down", replicas: 6, values: []float64{10}, policy: down(SelectMax, RatePolicy{Pods, 1, time.Minute}), want: 5, from: 1, to: 5, a: 0, b: 6},
		{name: "10 percent of 5 takes one", replicas: 5, values: []float64{10}, policy: down(SelectMax, RatePolicy{PercentRate, 10, time.Minute}), want: 4, from: 1, to: 4, a: 0, b: 5},
		{name: "max of both takes more", replicas: 16, values: []float64{10}, policy: down(SelectMax, RatePolicy{Pods, 1, time.Minute}, RatePolicy{PercentRate, 50, time.Minute}),
			want: 8, from: 1, to: 8, a: 1, b: 16},
		{name: "min of both takes less", replicas: 16, values: []float64{10}, policy: down(SelectMin, RatePolicy{Pods, 1, time.Minute}, RatePolicy{PercentRate, 50, time.Minute}),
			want: 15, from: 1, to: 15, a: 0, b: 16},
		{name: "spent within the period", replicas: 5, values: []float64{10}, recall: steps(6, 5), policy: down(SelectMax, RatePolicy{Pods, 1, 15 * time.Second}), want: 5, from: 1, to: 5, a: 0, b: 6},
		{name: "a rise within the period goes back at once", replicas: 9, values: []float64{10}, recall: steps(5, 9), policy: down(SelectMax, RatePolicy{Pods, 1, 15 * time.Second}),
			want: 4, from: 1, to: 4, a: 0, b: 5},
		{name: "down is disabled", replicas: 6, values: []float64{10}, policy: down(Disabled), want: 6, from: 1, to: 6, a: -1, b: 6},
		{name: "a percentage leaves zero", replicas: 0, values: []float64{200}, policy: up(SelectMax, RatePolicy{PercentRate, 100, 15 * time.Second}), want: 1, from: 20, to: 1, a: 0, b: 0},
		{name: "no rates", replicas: 1, values: []float64{200}, want: 20, from: silent},
	})
}

func TestForecast(t *testing.T) {
	check(t, RuleForecast, []row{
		{name: "raises at once", replicas: 2, values: []float64{20}, policy: func(p *Policy) { p.ScaleUp.Select = Disabled }, see: func(o *Observation) { o.Forecast = 7 }, want: 7, from: 2, to: 7, a: 7},
		{name: "never lowers", replicas: 2, values: []float64{90}, see: func(o *Observation) { o.Forecast = 7 }, want: 9, from: 9, to: 9, a: 7},
		{name: "none", replicas: 2, values: []float64{90}, see: func(o *Observation) { o.Forecast = -3 }, want: 9, from: silent},
	})
}

// on is a schedule that is open from one instant to another.
func on(name string, from, to time.Duration, low, high int32) Schedule {
	return Schedule{Window: calendar.Window{Name: name, From: nine.Add(from), To: nine.Add(to)}, Min: low, Max: high}
}

func TestScheduleFloor(t *testing.T) {
	with := func(s ...Schedule) func(*Policy) { return func(p *Policy) { p.Schedules = s } }
	ahead := on("office", 5*time.Minute, time.Hour, 6, -1)
	ahead.Lead = 10 * time.Minute
	check(t, RuleScheduleFloor, []row{
		{name: "open", replicas: 2, values: []float64{20}, policy: with(on("office", 0, time.Hour, 6, -1)), want: 6, from: 2, to: 6, a: 6, b: unix(time.Hour)},
		{name: "the greatest of two", replicas: 2, values: []float64{20}, policy: with(on("a", 0, time.Hour, 4, -1), on("b", -time.Hour, time.Minute, 5, -1)),
			want: 5, from: 2, to: 5, a: 5, b: unix(time.Minute)},
		{name: "over", replicas: 2, values: []float64{20}, policy: with(on("office", -time.Hour, 0, 6, -1)), want: 2, from: silent},
		{name: "not yet", replicas: 2, values: []float64{20}, policy: with(on("office", time.Second, time.Hour, 6, -1)), want: 2, from: silent},
		{name: "ahead by its lead", replicas: 2, values: []float64{20}, policy: with(ahead), want: 6, from: 2, to: 6, a: 6, b: -unix(5 * time.Minute)},
		{name: "confirms what is more", replicas: 2, values: []float64{90}, policy: with(on("office", 0, time.Hour, 6, -1)), want: 9, from: 9, to: 9, a: 6, b: unix(time.Hour)},
		{name: "is exempt from rates", replicas: 1, values: []float64{10}, policy: func(p *Policy) {
			with(on("office", 0, time.Hour, 6, -1))(p)
			p.ScaleUp.Rates = []RatePolicy{{Pods, 1, time.Minute}}
		}, want: 6, from: 1, to: 6, a: 6, b: unix(time.Hour)},
		{name: "wakes from zero", replicas: 0, values: []float64{0}, policy: with(on("office", 0, time.Hour, 2, -1)), want: 2, from: 0, to: 2, a: 2, b: unix(time.Hour)},
		{name: "with readings missing", replicas: 2, values: []float64{math.NaN()}, policy: with(on("office", 0, time.Hour, 6, -1)), want: 6, from: 2, to: 6, a: 6, b: unix(time.Hour)},
		{name: "above the bounds", replicas: 2, values: []float64{20}, policy: with(on("office", 0, time.Hour, 60, -1)), want: 20, from: 2, to: 60, a: 60, b: unix(time.Hour)},
	})
}

func TestScheduleCeiling(t *testing.T) {
	with := func(s ...Schedule) func(*Policy) { return func(p *Policy) { p.Schedules = s } }
	night := on("night", 0, time.Hour, -1, 0)
	stepwise := func(s ...Schedule) func(*Policy) {
		return func(p *Policy) { p.Schedules = s; p.ScaleDown.Rates = []RatePolicy{{Pods, 1, time.Minute}} }
	}
	check(t, RuleScheduleCeiling, []row{
		{name: "over a backlog", replicas: 9, values: []float64{90}, policy: with(night), want: 0, from: 9, to: 0, a: 0, b: unix(time.Hour)},
		{name: "through the rates", replicas: 9, values: []float64{90}, policy: stepwise(night), want: 8, from: 9, to: 8, a: 0, b: unix(time.Hour)},
		{name: "a rise is stopped at once", replicas: 9, values: []float64{150}, policy: stepwise(night), want: 8, from: 15, to: 8, a: 0, b: unix(time.Hour)},
		{name: "with readings missing", replicas: 9, values: []float64{math.NaN()}, policy: stepwise(night), want: 8, from: 9, to: 8, a: 0, b: unix(time.Hour)},
		{name: "over another floor", replicas: 9, values: []float64{90}, policy: with(night, on("office", 0, time.Hour, 4, -1)), want: 0, from: 9, to: 0, a: 0, b: unix(time.Hour)},
		{name: "the least of two", replicas: 9, values: []float64{90}, policy: with(on("a", 0, time.Hour, -1, 5), on("b", 0, time.Minute, -1, 3)), want: 3, from: 9, to: 3, a: 3, b: unix(time.Minute)},
		{name: "confirms what is less", replicas: 2, values: []float64{20}, policy: with(on("a", 0, time.Hour, -1, 5)), want: 2, from: 2, to: 2, a: 5, b: unix(time.Hour)},
		{name: "with scaleDown disabled it takes nothing", replicas: 9, values: []float64{150}, policy: func(p *Policy) { with(night)(p); p.ScaleDown.Select = Disabled },
			want: 9, from: 15, to: 9, a: 0, b: unix(time.Hour)},
		{name: "without an end", replicas: 9, values: []float64{90}, policy: func(p *Policy) { with(night)(p); p.Schedules[0].Window.To = time.Time{} }, want: 0, from: 9, to: 0},
		{name: "below MinReplicas", replicas: 9, values: []float64{90}, policy: func(p *Policy) { with(night)(p); p.MinReplicas = 1 }, want: 1, from: 9, to: 0, a: 0, b: unix(time.Hour)},
	})
}

func TestAdvice(t *testing.T) {
	risk := func(ready, n int32) func(*Observation) {
		return func(o *Observation) { o.Ready, o.Advice.AtRisk = ready, n }
	}
	check(t, RuleAtRisk, []row{
		{name: "successors ahead of the loss", replicas: 9, values: []float64{90}, see: risk(9, 2), want: 11, from: 9, to: 11, a: 2},
		{name: "a falling workload has spares", replicas: 9, values: []float64{70}, see: risk(9, 3), want: 8, from: 7, to: 8, a: 3},
		{name: "no more than are ready", replicas: 9, values: []float64{90}, see: risk(1, 5), want: 10, from: 9, to: 10, a: 1},
		{name: "none at zero", replicas: 0, values: []float64{0}, see: risk(2, 2), want: 0, from: silent},
		{name: "above a ceiling, for the overlap", replicas: 4, values: []float64{90}, policy: func(p *Policy) { p.Schedules = []Schedule{on("a", 0, time.Hour, -1, 4)} },
			see: risk(4, 1), want: 5, from: 4, to: 5, a: 1},
		{name: "negative is none", replicas: 4, values: []float64{40}, see: risk(4, -1), want: 4, from: silent},
	})
	surge := func(n int32) func(*Observation) { return func(o *Observation) { o.Advice.Surge = n } }
	check(t, RuleSurge, []row{
		{name: "one mover", replicas: 9, values: []float64{90}, see: surge(1), want: 10, from: 9, to: 10, a: 1},
		{name: "none at zero", replicas: 0, values: []float64{0}, see: surge(1), want: 0, from: silent},
		{name: "within the bounds", replicas: 20, values: []float64{200}, see: surge(3), want: 20, from: 20, to: 23, a: 3},
	})
	cap := func(n int32) func(*Observation) { return func(o *Observation) { o.Advice.Cap = n } }
	check(t, RuleCapacity, []row{
		{name: "stops a rise", replicas: 6, values: []float64{90}, see: cap(7), want: 7, from: 9, to: 7, a: 7, b: 9},
		{name: "takes nothing back", replicas: 6, values: []float64{90}, see: cap(4), want: 6, from: 9, to: 6, a: 4, b: 9},
		{name: "confirms what is less", replicas: 6, values: []float64{30}, see: cap(7), want: 3, from: 3, to: 3, a: 7, b: 3},
		{name: "none", replicas: 6, values: []float64{90}, see: cap(-1), want: 9, from: silent},
	})
}

func TestOperator(t *testing.T) {
	says := func(op Operator) func(*Observation) { return func(o *Observation) { o.Operator = op } }
	hour := nine.Add(time.Hour)
	night := func(p *Policy) { p.Schedules = []Schedule{on("night", 0, time.Hour, -1, 0)} }
	check(t, RuleOverride, []row{
		{name: "min", replicas: 6, values: []float64{20}, see: says(Operator{Min: 12, Max: -1, Until: hour}), want: 12, from: 2, to: 12, a: 12, b: -1},
		{name: "max, at once", replicas: 6, values: []float64{90}, see: says(Operator{Min: -1, Max: 3, Until: hour}), policy: func(p *Policy) { p.ScaleDown.Select = Disabled },
			want: 3, from: 9, to: 3, a: -1, b: 3},
		{name: "max with readings missing", replicas: 6, values: []float64{math.NaN()}, see: says(Operator{Min: -1, Max: 3, Until: hour}), want: 3, from: 6, to: 3, a: -1, b: 3},
		{name: "min over its own max", replicas: 6, values: []float64{90}, see: says(Operator{Min: 5, Max: 3, Until: hour}), want: 5, from: 9, to: 5, a: 5, b: 3},
		{name: "min over a ceiling", replicas: 6, values: []float64{90}, policy: night, see: says(Operator{Min: 5, Max: -1, Until: hour}), want: 5, from: 0, to: 5, a: 5, b: -1},
		{name: "over at its end", replicas: 6, values: []float64{20}, see: says(Operator{Min: 12, Max: -1, Until: nine}), want: 2, from: silent},
		{name: "without an end it does not count", replicas: 6, values: []float64{20}, see: says(Operator{}), want: 2, from: silent},
		{name: "never over the bounds", replicas: 6, values: []float64{20}, see: says(Operator{Min: 99, Max: -1, Until: hour}), want: 20, from: 2, to: 99, a: 99, b: -1},
		{name: "wakes from zero", replicas: 0, values: []float64{0}, see: says(Operator{Min: 1, Max: -1, Until: hour}), want: 1, from: 0, to: 1, a: 1, b: -1},
	})
	check(t, RulePaused, []row{
		{name: "stays", replicas: 6, values: []float64{90}, see: says(Operator{Paused: true, Min: -1, Max: -1}), want: 6, from: 9, to: 6, a: 6},
		{name: "wins over an override", replicas: 6, values: []float64{90}, see: says(Operator{Paused: true, Min: 12, Max: -1, Until: hour}), want: 6, from: 12, to: 6, a: 6},
		{name: "above the bounds", replicas: 30, values: []float64{90}, see: says(Operator{Paused: true, Min: -1, Max: -1}), want: 20, from: 9, to: 30, a: 30},
		{name: "at zero under MinReplicas", replicas: 0, values: []float64{90}, policy: func(p *Policy) { p.MinReplicas = 2 }, see: says(Operator{Paused: true, Min: -1, Max: -1}), want: 0, from: 9, to: 0},
	})
	check(t, RuleBounds, []row{
		{name: "within", replicas: 6, values: []float64{90}, want: 9, from: 9, to: 9, a: 0, b: 20},
		{name: "above", replicas: 6, values: []float64{900}, want: 20, from: 90, to: 20, a: 0, b: 20},
		{name: "below", replicas: 6, values: []float64{10}, policy: func(p *Policy) { p.MinReplicas = 3 }, want: 3, from: 1, to: 3, a: 3, b: 20},
		{name: "a lower maximum acts at once", replicas: 30, values: []float64{300}, policy: func(p *Policy) { p.ScaleDown.Select = Disabled }, want: 20, from: 30, to: 20, a: 0, b: 20},
		{name: "min above max", replicas: 6, values: []float64{90}, policy: func(p *Policy) { p.MinReplicas = 30 }, want: 20, from: 9, to: 20, a: 30, b: 20},
		{name: "both negative", replicas: 6, values: []float64{90}, policy: func(p *Policy) { p.MinReplicas, p.MaxReplicas = -5, -2 }, want: 0, from: 9, to: 0, a: -5, b: -2},
	})
}
