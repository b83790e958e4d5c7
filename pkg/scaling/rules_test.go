package scaling

import (
	"math"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
)

// row is a test case for one rule. It contains the changes to a default policy, state and observation, and the expected decision.
type row struct {
	name     string
	replicas int32 // number of replicas before the decision, in the state and in the observation
	values   []float64
	policy   func(*Policy)
	see      func(*Observation)
	recall   func(*State)
	want     int32
	from     int32 // field From of the rule's reason; noReason means that the rule has no reason
	to       int32 // field To of the rule's reason
	a, b     float64
}

const noReason = -1

// check runs the test cases of one rule. The default policy has one signal, a queue with a target of 10 per replica. It has the bounds 0
// and 20, no windows and no rates.
func check(t *testing.T, rule Rule, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			p, o, s := r.build()
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
			if found != (r.from != noReason) {
				t.Errorf("%v spoke: %v\n%s", rule, found, table(p, &d))
			}
		})
	}
}

// build returns the policy, observation and state of the test case.
func (r *row) build() (*Policy, Observation, State) {
	p := &Policy{Signals: []Signal{queue(10)}, MaxReplicas: 20}
	if r.policy != nil {
		r.policy(p)
	}
	s := Seed(p, r.replicas, nine.Add(-time.Hour))
	s.down, s.up = history.Window{}, history.Window{}
	s.at = history.Stamp(nine) - 1000
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
	return p, o, s
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

func unix(d time.Duration) float64 { return float64(nine.Add(d).UnixMilli()) / 1000 }

func twoSignals(p *Policy) {
	p.Signals = []Signal{queue(10), {Name: "kv", Kind: Mean, Class: Utilization, Target: 0.8, MaxAge: time.Minute}}
}

func TestCombine(t *testing.T) {
	check(t, RuleCombine, []row{
		{name: "a total is value over target, rounded up", replicas: 6, values: []float64{87}, want: 9, from: 6, to: 9, a: 8.7, b: 87},
		{name: "a total that is a whole number", replicas: 6, values: []float64{90}, want: 9, from: 6, to: 9, a: 9, b: 90},
		{name: "the greatest proposal", replicas: 6, values: []float64{20, 0.91}, policy: twoSignals, want: 7, from: 6, to: 7, a: 6.825, b: 0.91},
		{name: "a policy without signals", replicas: 6, policy: func(p *Policy) { p.Signals = nil; p.MinReplicas = 2 }, want: 2, from: 6, to: 0},
		{name: "a stale signal that raises", replicas: 6, values: []float64{87},
			see:  func(o *Observation) { o.Readings[0].At = nine.Add(-2 * time.Minute) },
			want: 9, from: 6, to: 9, a: 8.7, b: 87},
		{name: "a stale signal that would lower", replicas: 6, values: []float64{20},
			see:  func(o *Observation) { o.Readings[0].At = nine.Add(-2 * time.Minute) },
			want: 6, from: noReason},
		{name: "a rounding error adds no replica", replicas: 3, values: []float64{0.7},
			policy: func(p *Policy) { p.Signals = []Signal{busy(0.7)} },
			want:   3, from: 3, to: 3, a: 3, b: 0.7},
		{name: "pods that did not report count as at the target in a decrease", replicas: 10, values: []float64{0.35},
			policy: func(p *Policy) { p.Signals = []Signal{busy(0.7)} },
			see:    func(o *Observation) { o.Readings[0].Coverage = 0.9 }, want: 6, from: 10, to: 6, a: 5.5, b: 0.35},
		{name: "pods that did not report count as idle in an increase", replicas: 10, values: []float64{0.707},
			policy: func(p *Policy) { p.Signals = []Signal{busy(0.7)} },
			see:    func(o *Observation) { o.Readings[0].Coverage = 0.8 }, want: 10, from: 10, to: 10, a: 10, b: 0.707},
		{name: "the queue of a pod that did not report counts as at the target in a decrease", replicas: 6, values: []float64{47.5},
			see: func(o *Observation) { o.Readings[0].Coverage = 5.0 / 6 }, want: 6, from: 6, to: 6, a: 5.75, b: 47.5},
		{name: "a decrease with a pod that did not report", replicas: 10, values: []float64{30},
			see: func(o *Observation) { o.Readings[0].Coverage = 0.9 }, want: 4, from: 10, to: 4, a: 4, b: 30},
		{name: "the queue of a pod that did not report counts as empty in an increase", replicas: 6, values: []float64{87},
			see: func(o *Observation) { o.Readings[0].Coverage = 5.0 / 6 }, want: 9, from: 6, to: 9, a: 8.7, b: 87},
		{name: "a pod that did not report neither raises nor lowers alone", replicas: 6, values: []float64{57},
			see: func(o *Observation) { o.Readings[0].Coverage = 5.0 / 6 }, want: 6, from: 6, to: 6, a: 6, b: 57},
		{name: "a formula", replicas: 6, values: []float64{87, 0.5}, policy: func(p *Policy) {
			twoSignals(p)
			p.Formula = func(a []Proposal, _, _ int32) (float64, bool) { return a[0].Replicas/2 + a[1].Replicas/2, true }
		}, want: 7, from: 6, to: 7, a: 6.225},
		{name: "a formula that fails", replicas: 6, values: []float64{20}, policy: func(p *Policy) {
			p.Formula = func([]Proposal, int32, int32) (float64, bool) { return 1, false }
		}, want: 6, from: noReason},
		{name: "a formula that gives NaN", replicas: 6, values: []float64{20}, policy: func(p *Policy) {
			p.Formula = func([]Proposal, int32, int32) (float64, bool) { return math.NaN(), true }
		}, want: 6, from: noReason},
	})
}

func TestMissing(t *testing.T) {
	gone := func(i int) func(*Observation) {
		return func(o *Observation) { o.Readings[i] = Reading{Cause: CauseUnreachable, Failures: 1} }
	}
	optional := func(p *Policy) { twoSignals(p); p.Signals[0].Optional = true }
	thin := func(p *Policy) { p.Signals = []Signal{busy(0.7)} }
	check(t, RuleMissing, []row{
		{name: "all signals are known", replicas: 6, values: []float64{20}, want: 2, from: noReason},
		{name: "a required signal is missing: no decrease", replicas: 6, values: []float64{0, 0.2}, policy: twoSignals, see: gone(0),
			want: 6, from: 2, to: 6, a: 1, b: float64(SignalMissing)},
		{name: "a required signal is missing: the others raise", replicas: 6, values: []float64{0, 1.6}, policy: twoSignals, see: gone(0),
			want: 12, from: 12, to: 12, a: 1, b: float64(SignalMissing)},
		{name: "an optional signal is missing", replicas: 6, values: []float64{0, 0.4}, policy: optional, see: gone(0), want: 3, from: noReason},
		{name: "all signals are missing, all optional", replicas: 6, values: []float64{0},
			policy: func(p *Policy) { p.Signals[0].Optional = true }, see: gone(0),
			want: 6, from: 6, to: 6},
		{name: "fewer readings than signals", replicas: 6, policy: twoSignals, want: 6, from: 6, to: 6, a: 2, b: float64(SignalMissing)},
		{name: "NaN", replicas: 6, values: []float64{math.NaN()}, want: 6, from: 6, to: 6, a: 1, b: float64(SignalMissing)},
		{name: "an infinity", replicas: 6, values: []float64{math.Inf(1)}, want: 6, from: 6, to: 6, a: 1, b: float64(SignalMissing)},
		{name: "negative", replicas: 6, values: []float64{-1}, want: 6, from: 6, to: 6, a: 1, b: float64(SignalMissing)},
		{name: "from next week", replicas: 6, values: []float64{0}, see: func(o *Observation) { o.Readings[0].At = nine.Add(7 * 24 * time.Hour) },
			want: 6, from: 6, to: 6, a: 1, b: float64(SignalMissing)},
		{name: "from two minutes ahead", replicas: 6, values: []float64{0},
			see:  func(o *Observation) { o.Readings[0].At = nine.Add(2 * time.Minute) },
			want: 6, from: 6, to: 6, a: 1, b: float64(SignalStale)},
		{name: "from half a minute ahead", replicas: 6, values: []float64{20},
			see:  func(o *Observation) { o.Readings[0].At = nine.Add(30 * time.Second) },
			want: 6, from: 6, to: 6, a: 1, b: float64(SignalStale)},
		{name: "from two seconds ahead: clocks differ", replicas: 6, values: []float64{20},
			see:  func(o *Observation) { o.Readings[0].At = nine.Add(2 * time.Second) },
			want: 2, from: noReason},
		{name: "too old to raise", replicas: 6, values: []float64{999},
			see:  func(o *Observation) { o.Readings[0].At = nine.Add(-4*time.Minute - time.Second) },
			want: 6, from: 6, to: 6, a: 1, b: float64(SignalMissing)},
		{name: "half of the pods reported: no decrease", replicas: 6, values: []float64{0.1}, policy: thin,
			see:  func(o *Observation) { o.Readings[0].Coverage = 0.5 },
			want: 6, from: 6, to: 6, a: 1, b: float64(SignalLowCoverage)},
		{name: "half of the pods reported: an increase by their load", replicas: 6, values: []float64{2.1}, policy: thin,
			see:  func(o *Observation) { o.Readings[0].Coverage = 0.5 },
			want: 9, from: 9, to: 9, a: 1, b: float64(SignalLowCoverage)},
		{name: "coverage is NaN", replicas: 6, values: []float64{0.1}, policy: thin,
			see:  func(o *Observation) { o.Readings[0].Coverage = math.NaN() },
			want: 6, from: 6, to: 6, a: 1, b: float64(SignalLowCoverage)},
		{name: "a mean with no ready replica", replicas: 6, values: []float64{0.1}, policy: thin, see: func(o *Observation) { o.Ready = 0 },
			want: 6, from: 6, to: 6, a: 1, b: float64(SignalUnmeasured)},
		{name: "at zero the metrics of pods are not missing", replicas: 0, values: []float64{0, 0}, policy: twoSignals, see: gone(1),
			want: 0, from: noReason},
		{name: "at zero without any usable signal", replicas: 0, values: []float64{0, 0}, policy: twoSignals,
			see: func(o *Observation) { o.Readings = nil }, want: 0, from: 0, to: 0, a: 2, b: float64(SignalMissing)},
		{name: "the HPA has not followed the last decrease", replicas: 6, values: []float64{math.NaN()},
			recall: func(s *State) { s.lastTarget = 4 },
			want:   6, from: 6, to: 6, a: 1, b: float64(SignalMissing)},
		{name: "the HPA has not followed the last increase", replicas: 6, values: []float64{math.NaN()},
			recall: func(s *State) { s.lastTarget = 9 },
			want:   9, from: 9, to: 9, a: 1, b: float64(SignalMissing)},
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
		{name: "none", replicas: 6, policy: with(FallbackNone, 9), see: failed(3), want: 6, from: noReason},
		{name: "a threshold of 0 is 1", replicas: 6, policy: func(p *Policy) { p.Fallback.Behavior, p.Fallback.Replicas = FallbackStatic, 9 },
			see: failed(0), want: 6, from: noReason},
		{name: "at zero while another signal can wake the workload", replicas: 0, values: []float64{0, 0},
			policy: func(p *Policy) { twoSignals(p); with(FallbackStatic, 2)(p) },
			see:    func(o *Observation) { o.Readings[1] = Reading{Failures: 3} }, want: 0, from: noReason},
		{name: "before the threshold", replicas: 6, policy: with(FallbackStatic, 9), see: failed(2), want: 6, from: noReason},
		{name: "static above", replicas: 6, policy: with(FallbackStatic, 9), see: failed(3), want: 9, from: 6, to: 9, a: 3, b: 9},
		{name: "static below the current replicas", replicas: 6, policy: with(FallbackStatic, 2), see: failed(3), want: 6,
			from: 6, to: 6, a: 3, b: 2},
		{name: "currentReplicas", replicas: 6, policy: with(FallbackCurrentReplicas, 9), see: failed(4), want: 6, from: 6, to: 6, a: 4, b: 9},
		{name: "currentReplicasIfHigher, higher", replicas: 6, policy: with(FallbackCurrentReplicasIfHigher, 4), see: failed(3), want: 6,
			from: 6, to: 6, a: 3, b: 4},
		{name: "currentReplicasIfHigher, lower", replicas: 6, policy: with(FallbackCurrentReplicasIfHigher, 9), see: failed(3), want: 9,
			from: 6, to: 9, a: 3, b: 9},
		{name: "currentReplicasIfLower, lower", replicas: 6, policy: with(FallbackCurrentReplicasIfLower, 2), see: failed(3), want: 6,
			from: 6, to: 6, a: 3, b: 2},
		{name: "currentReplicasIfLower, higher", replicas: 6, policy: with(FallbackCurrentReplicasIfLower, 9), see: failed(3), want: 6,
			from: 6, to: 6, a: 3, b: 9},
		{name: "at zero it scales up, as in KEDA", replicas: 0, policy: with(FallbackStatic, 2), see: failed(3), want: 2,
			from: 0, to: 2, a: 3, b: 2},
		{name: "a cold start is not a failure", replicas: 1, policy: with(FallbackStatic, 9), see: func(o *Observation) {
			o.Ready, o.Loading, o.Readings = 0, 1, []Reading{{Cause: CauseEmpty, Failures: 30}}
		}, want: 1, from: noReason},
		{name: "beyond the bounds", replicas: 6, policy: with(FallbackStatic, 99), see: failed(3), want: 20, from: 6, to: 99, a: 3, b: 99},
		{name: "a known signal needs more", replicas: 6, values: []float64{0, 4},
			policy: func(p *Policy) { twoSignals(p); with(FallbackStatic, 9)(p) },
			see:    func(o *Observation) { o.Readings[0] = Reading{Failures: 3} }, want: 20, from: 30, to: 30, a: 3, b: 9},
	})
}

// A latency of twenty times its target must propose a limited step and not twenty times the replicas.
func TestLatencyProposesAStep(t *testing.T) {
	ttft := func(p *Policy) {
		p.MaxReplicas = 200
		p.Signals = []Signal{{Name: "ttft", Kind: Mean, Class: Latency, Unit: Seconds, Target: 0.5, MaxAge: time.Minute}}
	}
	for _, c := range []struct {
		replicas, ready int32
		value           float64
		want            int32
	}{
		{1, 1, 10, 2}, {2, 2, 10, 3}, {4, 4, 10, 6}, {10, 10, 10, 15},
		{4, 4, 0.6, 5},   // 4 * 0.6 s / 0.5 s = 4.8, which is within the limit of 2 to 6 replicas
		{6, 4, 10, 6},    // two replicas are still loading, so the limit is computed from the 4 ready replicas
		{10, 10, 0, 5},   // a decrease is limited to half of the ready replicas too
		{2, 2, 0.01, 1},  // the limit permits a change of at least 1, because otherwise two replicas would never decrease to one
		{10, 10, 0.4, 8}, // 10 * 0.4 s / 0.5 s = 8, which is within the limit of 5 to 15 replicas
	} {
		p := &Policy{}
		ttft(p)
		s := Seed(p, c.replicas, nine.Add(-time.Hour))
		o := Observation{Replicas: c.replicas, Ready: c.ready, Advice: NoAdvice, Operator: NoOperator,
			Readings: []Reading{{Value: c.value, At: nine, Coverage: 1, Known: true}}}
		if d, _ := Decide(p, o, s, nine); d.Proposals[0] != c.want {
			t.Errorf("%d of %d ready at %g s: asks for %d, want %d", c.ready, c.replicas, c.value, d.Proposals[0], c.want)
		}
	}
}

func TestGrowingDemand(t *testing.T) {
	both := func(p *Policy) { p.Signals = []Signal{queue(10), busy(0.7)} }
	grew := func(s *State) { s.trends[0] = history.Trend{Known: true, Fast: 20, Slow: 12} }
	check(t, RuleGrowingDemand, []row{
		{name: "the queue grows while the GPUs look idle", replicas: 6, values: []float64{20, 0.1}, policy: both, recall: grew, want: 6,
			from: 2, to: 6, a: 20, b: 12.044199},
		{name: "the queue is constant", replicas: 6, values: []float64{20, 0.1}, policy: both,
			recall: func(s *State) { s.trends[0] = history.Trend{Known: true, Fast: 20, Slow: 19} }, want: 2, from: noReason},
		{name: "an almost empty queue grows", replicas: 6, values: []float64{0.9, 0.1}, policy: both,
			recall: func(s *State) { s.trends[0] = history.Trend{Known: true, Fast: 0.9, Slow: 0.1} }, want: 1, from: noReason},
		{name: "no trend yet", replicas: 6, values: []float64{20, 0.1}, policy: both, want: 2, from: noReason},
		{name: "a policy of demand alone", replicas: 6, values: []float64{20}, recall: grew, want: 2, from: noReason},
		{name: "an increase", replicas: 6, values: []float64{80, 0.1}, policy: both, recall: grew, want: 8, from: noReason},
		{name: "a policy of utilization alone", replicas: 6, values: []float64{0.2},
			policy: func(p *Policy) { p.Signals = []Signal{busy(0.7)} }, recall: grew, want: 2, from: noReason},
		{name: "latency counts like demand", replicas: 6, values: []float64{0.2, 0.1}, policy: func(p *Policy) {
			both(p)
			p.Signals[0] = Signal{Kind: Mean, Class: Latency, Target: 1, MaxAge: time.Minute}
		}, recall: func(s *State) { s.trends[0] = history.Trend{Known: true, Fast: 0.4, Slow: 0.1} },
			want: 6, from: 3, to: 6, a: 0.393548, b: 0.100552},
	})
}

func TestLoading(t *testing.T) {
	mean := func(p *Policy) { p.Signals = []Signal{busy(0.5)} }
	load := func(ready, loading int32) func(*Observation) {
		return func(o *Observation) { o.Ready, o.Loading = ready, loading }
	}
	check(t, RuleLoading, []row{
		{name: "a mean of 2 of 6 replicas does not remove loading ones", replicas: 6, values: []float64{0.5}, policy: mean,
			see: load(2, 4), want: 6, from: 2, to: 6, a: 4, b: 2},
		{name: "pending replicas can be removed", replicas: 6, values: []float64{0.5}, policy: mean, see: load(2, 1), want: 3,
			from: 2, to: 3, a: 1, b: 2},
		{name: "does not raise", replicas: 3, values: []float64{0.1}, policy: mean, see: load(2, 4), want: 3, from: 1, to: 3, a: 4, b: 2},
		{name: "a total can remove them", replicas: 6, values: []float64{20}, see: load(2, 4), want: 2, from: noReason},
		{name: "loading replicas are not requested twice", replicas: 6, values: []float64{1}, policy: mean, see: load(3, 3), want: 6,
			from: 6, to: 6, a: 3, b: 3},
		{name: "all that are ready are busy, the others crash", replicas: 6, values: []float64{0.7}, policy: mean, see: load(2, 0),
			want: 6, from: 3, to: 6, a: 0, b: 2},
		{name: "ready replicas at the target", replicas: 6, values: []float64{0.5}, policy: mean, see: load(2, 0), want: 2, from: noReason},
		{name: "no replica is loading", replicas: 6, values: []float64{0.25}, policy: mean, want: 3, from: noReason},
	})
}
