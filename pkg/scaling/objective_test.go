package scaling

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/objective"
)

// evidence returns a signal without a target that measures the given quantity for the objective.
func evidence(m Measure) Signal {
	return Signal{Name: m.String(), Source: uint64(m) + 1, Measures: m, MaxAge: time.Minute}
}

// chat is a policy with an objective and three signals.
func chat() *Policy {
	return &Policy{MinReplicas: 1, MaxReplicas: 20, Objective: &objective.Objective{Limit: 10 * time.Second, Percentile: 99, Capacity: 2},
		Signals: []Signal{evidence(MeasureArrivals), evidence(MeasureQueued), evidence(MeasureServed)}}
}

// day simulates a workload. A replica becomes ready one cold start after the target has requested it.
type day struct {
	t       *testing.T
	p       *Policy
	s       State
	now     time.Time
	ready   int32
	asked   []time.Time // when each replica that is not ready was requested
	cold    time.Duration
	values  []float64
	version uint64
	o       Observation
	last    Decision
}

func (w *day) tick(step time.Duration) {
	w.now = w.now.Add(step)
	for len(w.asked) > 0 && w.now.Sub(w.asked[0]) >= w.cold {
		w.asked, w.ready = w.asked[1:], w.ready+1
	}
	total := w.ready + int32(len(w.asked))
	w.o = Observation{Replicas: total, Ready: w.ready, Loading: int32(len(w.asked)), Advice: NoAdvice, Operator: NoOperator,
		Version: w.version}
	for _, v := range w.values {
		w.o.Readings = append(w.o.Readings, Reading{Value: v, At: w.now, Coverage: 1, Known: v >= 0, Cause: CauseUnreachable})
	}
	w.last = w.s.Decide(w.p, &w.o, w.now)
	for ; total < w.last.Replicas; total++ {
		w.asked = append(w.asked, w.now)
	}
	for ; total > w.last.Replicas && len(w.asked) > 0; total-- {
		w.asked = w.asked[:len(w.asked)-1]
	}
	w.ready = min(w.ready, w.last.Replicas)
}

func (w *day) run(d time.Duration, values ...float64) {
	w.values = values
	for end := w.now.Add(d); w.now.Before(end); {
		w.tick(time.Second)
	}
}

func newDay(t *testing.T, p *Policy, ready int32) *day {
	return &day{t: t, p: p, now: nine, ready: ready, cold: time.Minute, s: Seed(p, ready, nine)}
}

// When the load increases, the objective must add replicas, the decision must name the objective as the binding rule, and the terms of its
// plan must add up to the target. When the metrics are missing after that, no replica may be removed.
func TestAnObjectiveFollowsTheLoadAndKeepsReplicasWithoutEvidence(t *testing.T) {
	w := newDay(t, chat(), 1)
	w.run(20*time.Minute, 1, 0, 1)
	if n := w.last.Replicas; n < 1 || n > 3 {
		t.Errorf("%d replicas for 1 request/s at 2/s per replica\n%s", n, table(w.p, &w.last))
	}
	w.run(20*time.Minute, 10, 0, 10)
	n := w.last.Replicas
	if n < 5 || w.last.Plan == nil || w.last.Requested != n {
		t.Fatalf("%d replicas for 10 requests/s at 2/s per replica\n%s", n, table(w.p, &w.last))
	}
	sum := int32(0)
	for _, added := range w.last.Plan.Added {
		sum += added
	}
	if sum != w.last.Plan.Replicas {
		t.Errorf("the terms %v add up to %d, want %d", w.last.Plan.Added, sum, w.last.Plan.Replicas)
	}
	w.run(time.Hour, -1, -1, -1)
	if w.last.Replicas < n || !w.last.Degraded || w.last.Binding != RuleMissing {
		t.Errorf("%d replicas after an hour without evidence, want at least %d\n%s", w.last.Replicas, n, table(w.p, &w.last))
	}
}

// The model must learn the cold starts of the workload, measured from the decision until the replica is ready.
func TestAgeOfTheLoadIncludesTheWindowOfTheRate(t *testing.T) {
	p := chat()
	w := newDay(t, p, 1)
	w.run(10*time.Minute, 1, 0, 1)
	before := w.s.Learned().Learned().LoadAge
	p.Signals[0].WindowSeconds = 60
	w.run(2*time.Hour, 1, 0, 1)
	if after := w.s.Learned().Learned().LoadAge; before > 2*time.Second || after < 29*time.Second || after > 32*time.Second {
		t.Errorf("age %v for the load of each second and %v for a rate over a minute, want at most 2s and about 30s", before, after)
	}
}

func TestColdStartsAreLearned(t *testing.T) {
	w := newDay(t, chat(), 1)
	w.run(10*time.Minute, 1, 0, 1)
	w.run(10*time.Minute, 12, 0, 2)
	if c := w.s.Learned().Learned().ColdStart.P50; !(c >= 59 && c <= 62) {
		t.Errorf("the cold start is %v seconds, want 60", c)
	}
}

// A signal with a target can raise the result of the objective but cannot lower it.
func TestASignalWithATargetOnlyRaisesTheObjective(t *testing.T) {
	p := chat()
	p.Signals = append(p.Signals, queue(10))
	w := newDay(t, p, 1)
	w.run(20*time.Minute, 10, 0, 10, 0)
	n := w.last.Replicas
	if n < 5 || w.last.Binding != RuleObjective {
		t.Fatalf("%d replicas by %v\n%s", n, w.last.Binding, table(p, &w.last))
	}
	w.run(time.Second, 10, 0, 10, 150)
	if w.last.Replicas != 15 || w.last.Binding != RuleCombine || w.last.BindingIndex != 3 {
		t.Errorf("%d replicas by %v, want 15 for the queue of 150\n%s", w.last.Replicas, w.last.Binding, table(p, &w.last))
	}
}

// The policy has minReplicas 0 and does not set a cooldown, so only the objective determines when the last replica is removed. Inactivity
// for one tick must not remove this replica, and demand must start it immediately.
func TestTheObjectiveDecidesAboutTheLastReplica(t *testing.T) {
	p := chat()
	p.MinReplicas = 0
	w := newDay(t, p, 0)
	w.run(5*time.Minute, 0, 0, 0)
	if w.last.Replicas != 0 {
		t.Fatalf("%d replicas before the first request\n%s", w.last.Replicas, table(p, &w.last))
	}
	w.run(time.Second, 1, 0, 0)
	if w.last.Replicas < 1 {
		t.Fatalf("no replica for the first request\n%s", table(p, &w.last))
	}
	w.run(10*time.Minute, 1, 0, 1)
	w.run(time.Second, 0, 0, 0)
	if w.last.Replicas < 1 {
		t.Errorf("one second without demand removed the last replica\n%s", table(p, &w.last))
	}
}

// After an edit of the policy and after a restart, the learned model must be kept. If a later edit measures the arrivals in another unit,
// the model must be deleted.
func TestWhatWasLearnedSurvivesEditsThatMeasureTheSameWork(t *testing.T) {
	w := newDay(t, chat(), 2)
	w.run(20*time.Minute, 3, 0, 3)
	load := func() float64 { return w.s.Learned().Learned().Load }
	edited := chat()
	edited.Objective.Limit, edited.MaxReplicas = 30*time.Second, 40
	edited.Signals = append(edited.Signals, evidence(MeasureBusy))
	before := load()
	if w.s.Adopt(edited); before == 0 || load() != before {
		t.Errorf("load %v after an edit, %v before", load(), before)
	}
	w.s.Restart(edited, 2, w.now)
	w.s.Reseed(edited, 2, w.now)
	if load() != before {
		t.Errorf("load %v after a restart, %v before", load(), before)
	}
	tokens := chat()
	tokens.Signals[0].Source = 99
	if w.s.Adopt(tokens); load() != 0 {
		t.Errorf("a model of requests is used for tokens: load %v", load())
	}
	if w.s.Adopt(&Policy{Signals: []Signal{queue(10)}, MaxReplicas: 3}); w.s.Learned() != nil {
		t.Error("a policy without an objective keeps a model")
	}
}

// Restore must continue with the model that another process has saved.
func TestRestoreContinuesWithWhatWasLearned(t *testing.T) {
	w := newDay(t, chat(), 2)
	w.run(20*time.Minute, 3, 0, 3)
	data, err := w.s.Learned().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	m := objective.New()
	if err := m.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	var s State
	s.Restore(w.p, m, w.now)
	s.Decide(w.p, &w.o, w.now.Add(time.Second))
	if s.Learned() != m {
		t.Error("the first decision replaced the restored model")
	}
	if other := objective.New(); s.planner != nil {
		if s.Restore(w.p, other, w.now); s.Learned() != m {
			t.Error("a model was restored over a newer one")
		}
	}
}

// A schedule without a lead time needs 8 replicas at 10:00 and at 12:00. Before 10:00, no cold start was observed, so the replicas are
// requested at 10:00 and become ready three minutes late. At 12:00 the replicas must be ready, because they are requested earlier by the
// learned lead time. A lead time in the policy has precedence.
func TestScheduleBeginsEarlierByTheLearnedColdStart(t *testing.T) {
	p := chat()
	p.Schedules = []Schedule{on("first", time.Hour, 90*time.Minute, 8, -1), on("second", 3*time.Hour, 4*time.Hour, 8, -1)}
	w := newDay(t, p, 1)
	w.cold = 3 * time.Minute
	w.run(59*time.Minute, 0.5, 0, 0.5)
	if w.ready >= 8 || w.last.Replicas >= 8 {
		t.Fatalf("%d of 8 replicas ready a minute before 10:00, although no cold start was observed\n%s", w.ready, table(w.p, &w.last))
	}
	w.run(26*time.Minute, 0.5, 0, 0.5)
	if lead := w.s.Learned().LeadTime(p.Objective); w.ready != 8 || lead < 175*time.Second || lead > 185*time.Second {
		t.Fatalf("%d of 8 replicas ready, learned a lead time of %v, want about 3m", w.ready, lead)
	}
	w.run(85*time.Minute, 0.5, 0, 0.5)
	if w.last.Replicas >= 8 {
		t.Fatalf("%d replicas ten minutes before 12:00\n%s", w.last.Replicas, table(w.p, &w.last))
	}
	w.run(10*time.Minute, 0.5, 0, 0.5)
	if w.ready != 8 {
		t.Errorf("%d of 8 replicas ready at 12:00\n%s", w.ready, table(w.p, &w.last))
	}
	stated := *p
	stated.Schedules = []Schedule{p.Schedules[0]}
	stated.Schedules[0].Lead = 30 * time.Minute
	s := Seed(&stated, 1, nine)
	s.Restore(&stated, w.s.Learned(), nine)
	o := w.o
	o.Replicas, o.Ready, o.Loading = 1, 1, 0
	if d := s.Decide(&stated, &o, nine.Add(31*time.Minute)); d.Replicas < 8 {
		t.Errorf("%d replicas 29 minutes before 10:00, want 8 by the lead time of the policy", d.Replicas)
	}
}

// A replica takes 90.5 seconds to start, and 8 replicas are needed at 10:00. They must be requested 91 seconds earlier, because 90 seconds
// are too few.
func TestScheduleRoundsTheColdStartUp(t *testing.T) {
	p := chat()
	p.Objective.ColdStart = 90*time.Second + 500*time.Millisecond
	p.Schedules = []Schedule{on("office", time.Hour, 2*time.Hour, 8, -1)}
	w := newDay(t, p, 1)
	w.run(time.Hour-92*time.Second, 0.5, 0, 0.5)
	if w.last.Replicas >= 8 {
		t.Errorf("%d replicas 92 seconds before 10:00", w.last.Replicas)
	}
	if w.run(time.Second, 0.5, 0, 0.5); w.last.Replicas != 8 {
		t.Errorf("%d replicas 91 seconds before 10:00, want 8\n%s", w.last.Replicas, table(w.p, &w.last))
	}
}

// anyObjective returns a random policy with an objective, whose signals measure a quantity for the objective, have a target, or both.
func anyObjective(t *rapid.T, calm bool) *Policy {
	p := anyPolicy(t, calm)
	p.Objective = &objective.Objective{Kind: objective.Kind(rapid.IntRange(0, 3).Draw(t, "kind")),
		Limit:      time.Duration(rapid.IntRange(1, 100).Draw(t, "limit")) * time.Second,
		Percentile: rapid.SampledFrom([]float64{50, 95, 99, 99.99}).Draw(t, "percentile"),
		Capacity:   rapid.SampledFrom([]float64{0, 0, 2}).Draw(t, "capacity")}
	for i := range p.Signals {
		p.Signals[i].Measures = Measure(rapid.IntRange(0, int(MeasureLatency)).Draw(t, "measures"))
		if p.Signals[i].Measures != MeasureNone && rapid.Bool().Draw(t, "evidence") {
			p.Signals[i].Target, p.Signals[i].Forecast = 0, Forecast{}
		}
	}
	return p
}

func driveObjective(t *rapid.T, calm bool, look func(p *Policy, o Observation, s State, now time.Time)) {
	p, now := anyObjective(t, calm), nine
	s := Seed(p, rapid.Int32Range(0, 12).Draw(t, "seed"), now)
	for range rapid.IntRange(1, 25).Draw(t, "ticks") {
		now = now.Add(time.Duration(rapid.SampledFrom([]int{1, 1, 1, 15, 61, 0, -1, -3600, 86400}).Draw(t, "step")) * time.Second)
		o := anyObservation(t, p, now, calm)
		look(p, o, s, now)
		_, s = Decide(p, o, s, now)
	}
}

// sameDecision reports whether two decisions are equal. It also compares the contents of their plans.
func sameDecision(a, b Decision) bool {
	same := (a.Plan == nil) == (b.Plan == nil) && (a.Plan == nil || *a.Plan == *b.Plan)
	a.Plan, b.Plan = nil, nil
	return same && a == b
}

func TestDecisionsWithAnObjectiveAreSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		driveObjective(t, false, func(p *Policy, o Observation, s State, now time.Time) {
			d, _ := Decide(p, o, s, now)
			sound(t, p, o, &d)
			if n := Without(p, o, s, now, RuleNone, -1); n != d.Replicas {
				t.Fatalf("without nothing %d, decided %d", n, d.Replicas)
			}
			if n := Without(p, o, s, now, d.Binding, d.BindingIndex); (n == d.Replicas) != (d.Tied != RuleNone) {
				t.Fatalf("%d by %v, %d without it, tied %v\n%s", d.Replicas, d.Binding, n, d.Tied, table(p, &d))
			}
		})
	})
}

func TestMissingEvidenceNeverLowers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		driveObjective(t, true, func(p *Policy, o Observation, s State, now time.Time) {
			d, _ := Decide(p, o, s, now)
			for i, sig := range p.Signals {
				if d.Status[i] == SignalOK || sig.Optional {
					continue
				}
				if d.Replicas < min(o.Replicas, highest(p, o)) {
					t.Fatalf("the target decreased from %d to %d without %s\n%s", o.Replicas, d.Replicas, sig.Name, table(p, &d))
				}
				if o.Replicas > 0 && !d.Degraded {
					t.Fatalf("the decision is not degraded although %s is missing", sig.Name)
				}
			}
		})
	})
}

// The same inputs must give the same decision if Decide receives a copy of the state, if it updates the state in place, and if the state
// was encoded and decoded before.
func TestDecisionsWithAnObjectiveAreDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		driveObjective(t, false, func(p *Policy, o Observation, s State, now time.Time) {
			numbers := s.Numbers()
			d1, s1 := Decide(p, o, s, now)
			d2, s2 := Decide(p, o, s, now)
			if !sameDecision(d1, d2) || !slices.Equal(s1.Numbers(), s2.Numbers()) {
				t.Fatalf("two answers to one question:\n%+v\n%+v", d1, d2)
			}
			if !slices.Equal(numbers, s.Numbers()) {
				t.Fatal("Decide changed the state that it was passed")
			}
			decoded, err := StateOf(p, numbers)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(decoded.Numbers(), numbers) {
				t.Fatal("encoding the decoded state gives other numbers")
			}
		})
	})
}

// A policy without an objective must not allocate a model.
func TestAPolicyWithoutAnObjectiveHasNoModel(t *testing.T) {
	p, o, s := (&row{replicas: 6, values: []float64{87}}).build()
	d := s.Decide(p, &o, nine)
	if s.Learned() != nil || d.Plan != nil {
		t.Errorf("model %v, plan %v", s.Learned(), d.Plan)
	}
}

// Two policies measure the same work if their sources are the same, in any order. Sources differ if any byte of their numbers differs, or
// the unit of their rate.
func TestWorkIdentifiesTheSources(t *testing.T) {
	with := func(sources ...uint64) *Policy {
		p := &Policy{}
		for _, s := range sources {
			p.Signals = append(p.Signals, Signal{Name: "s", Source: s, Measures: MeasureQueued})
		}
		return p
	}
	if !with(1, 2).Work().Same(with(2, 1).Work()) {
		t.Error("the order of the signals matters")
	}
	if with(1, 2).Work().Same(with(1).Work()) || with(1, 1).Work().Same(with(1).Work()) {
		t.Error("a second source does not matter")
	}
	for i := range 64 {
		if with(1<<i|1<<63).Work().Same(with(1<<63).Work()) && i < 63 {
			t.Errorf("bit %d of a source does not matter", i)
		}
	}
	if other := with(7); !with(7).Work().Same(other.Work()) {
		t.Error("equal policies differ")
	} else if other.Signals[0].PerSecond = 60; with(7).Work().Same(other.Work()) {
		t.Error("the unit of a rate does not matter")
	} else if other.Signals[0].Measures = MeasureInFlight; !with(7).Work().Same(other.Work()) {
		t.Error("a measure that only one policy has matters")
	}
	named := func(name, kind string) Work {
		return (&Policy{Signals: []Signal{{Name: name, Type: kind, Measures: MeasureArrivals}}}).Work()
	}
	if named("ab", "c").Same(named("a", "bc")) || named("a", "b").Same(named("b", "a")) || !named("a", "b").Same(named("a", "b")) {
		t.Error("without a number, the name and the type identify a source")
	}
}
