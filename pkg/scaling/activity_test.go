package scaling

import (
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
)

// The workload has 2 replicas, no demand and a cooldown of a minute. A schedule or an override with a minimum above 0 keeps replicas, and
// the cooldown starts when the schedule or the override ends.
func TestWorkloadIsKeptFromZero(t *testing.T) {
	schedule := func(floor int32) func(*scenario) {
		return func(w *scenario) { w.p.Schedules = []Schedule{on("window", 0, 10*time.Minute, floor, -1)} }
	}
	override := func(low, high int32, end time.Duration) func(*scenario) {
		return func(w *scenario) { w.o.Operator = Operator{Min: low, Max: high, Until: nine.Add(end)} }
	}
	for _, c := range []struct {
		name   string
		change func(*scenario)
		zeroAt time.Duration // when the target is 0 for the first time, measured from the start
	}{
		{"nothing", func(*scenario) {}, time.Minute},
		{"a schedule floor of 0 keeps nothing", schedule(0), time.Minute},
		{"a schedule floor of 1 keeps one, and the cooldown starts at its end", schedule(1), 11*time.Minute - time.Second},
		{"an override with only a maximum keeps nothing", override(-1, 9, 10*time.Minute), time.Minute},
		{"an override with a minimum of 0 keeps nothing", override(0, 9, 10*time.Minute), time.Minute},
		{"an override with a minimum of 1 keeps one", override(1, 9, 10*time.Minute), 11*time.Minute - time.Second},
		{"an override that has ended keeps nothing", override(1, 9, 0), time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &Policy{Signals: []Signal{queue(10)}, MaxReplicas: 20, CooldownPeriod: time.Minute}
			w := newScenario(t, p, 2, 0)
			c.change(w)
			for w.tick(time.Second); w.last.Replicas > 0 && w.now.Before(nine.Add(time.Hour)); w.tick(time.Second) {
				if held := c.zeroAt > 5*time.Minute && w.now.Before(nine.Add(10*time.Minute)); w.last.Active != held {
					t.Fatalf("%s: active is %v\n%s", w.now.Format("15:04:05"), w.last.Active, table(p, &w.last))
				}
			}
			if got := w.now.Sub(nine); got != c.zeroAt {
				t.Errorf("the target is 0 after %v, want %v\n%s", got, c.zeroAt, table(p, &w.last))
			}
		})
	}
}

// Two signals are below their activation, and one or both of them have no values from some pods. A pod that did not report may be serving
// requests, so it prevents scale to zero. With ActiveByAll, the workload is inactive as soon as one signal with values from all pods is
// below its activation.
func TestSilentPodPreventsScaleToZeroUnlessASignalShowsIdleness(t *testing.T) {
	for _, c := range []struct {
		name       string
		activation Activation
		first      float64 // coverage of the first signal: the share of pods that report a value
		second     float64
		kept       bool
	}{
		{"any signal suffices: both cover all pods", ActiveByAny, 1, 1, false},
		{"any signal suffices: the second misses a pod", ActiveByAny, 1, 0.9, true},
		{"any signal suffices: both miss a pod", ActiveByAny, 0.9, 0.9, true},
		{"all signals are needed: the first covers all pods and is quiet", ActiveByAll, 1, 0.9, false},
		{"all signals are needed: both miss a pod", ActiveByAll, 0.9, 0.9, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &Policy{Signals: []Signal{queue(10), queue(10)}, MaxReplicas: 20, CooldownPeriod: time.Minute, Activation: c.activation}
			w := newScenario(t, p, 1, 0, 0)
			w.value = nil
			for range 10 * 60 {
				for i, coverage := range []float64{c.first, c.second} {
					w.o.Readings[i] = Reading{At: w.now.Add(time.Second), Coverage: coverage, Reported: 9, Known: true}
				}
				w.tick(time.Second)
			}
			if kept := w.last.Replicas > 0; kept != c.kept || w.last.Active != c.kept {
				t.Errorf("%d replicas, active %v after 10 minutes\n%s", w.last.Replicas, w.last.Active, table(p, &w.last))
			}
		})
	}
}

func TestGrowingDemandNamesTheFirstFreshSignal(t *testing.T) {
	grew := history.Trend{Known: true, Fast: 20, Slow: 12}
	decide := func(readings ...Reading) Decision {
		slow := queue(10)
		slow.Optional = true
		p := &Policy{Signals: []Signal{slow, slow, busy(0.7)}, MinReplicas: 1, MaxReplicas: 20}
		s := Seed(p, 6, nine.Add(-time.Hour))
		s.at, s.down, s.up = history.Stamp(nine)-1000, history.Window{}, history.Window{}
		s.trends[0], s.trends[1] = grew, grew
		o := Observation{Replicas: 6, Ready: 6, Advice: NoAdvice, Operator: NoOperator,
			Readings: append(readings, Reading{Value: 0.1, At: nine, Coverage: 1, Known: true})}
		d, _ := Decide(p, o, s, nine)
		return d
	}
	fresh := Reading{Value: 20, At: nine, Coverage: 1, Known: true}
	stale := fresh
	stale.At = nine.Add(-2 * time.Minute)
	for _, c := range []struct {
		name          string
		first, second Reading
		want          int32
		index         int8
	}{
		{"both grow", fresh, fresh, 6, 0},
		{"the first is stale", stale, fresh, 6, 1},
		{"both are stale", stale, stale, 1, -1},
		{"neither is known", Reading{}, Reading{}, 1, -1},
	} {
		d := decide(c.first, c.second)
		index := int8(-1)
		for _, r := range d.Reasons.All() {
			if r.Rule == RuleGrowingDemand {
				index = r.Index
			}
		}
		if d.Replicas != c.want || index != c.index {
			t.Errorf("%s: %d replicas, veto by signal %d; want %d by %d", c.name, d.Replicas, index, c.want, c.index)
		}
	}
}

// When a policy is edited, a signal must keep its trend only if it still measures the same quantity: the same source, kind, class and unit.
func TestEditedPolicyKeepsTrendsOfTheSameMeasurements(t *testing.T) {
	named := Signal{Name: "queue", Type: "prometheus", Kind: Total, Class: Demand, Unit: Count, Target: 10, MaxAge: time.Minute}
	known := named
	known.Source = 7
	for _, c := range []struct {
		name string
		old  Signal
		edit func(*Signal)
		kept bool
	}{
		{"another target", named, func(s *Signal) { s.Target = 20 }, true},
		{"another name", named, func(s *Signal) { s.Name = "other" }, false},
		{"another type", named, func(s *Signal) { s.Type = "redis" }, false},
		{"another kind", named, func(s *Signal) { s.Kind = Mean }, false},
		{"another class", named, func(s *Signal) { s.Class = Latency }, false},
		{"another unit", named, func(s *Signal) { s.Unit = Seconds }, false},
		{"a source that is now known", named, func(s *Signal) { s.Source = 7 }, false},
		{"the same source under another name", known, func(s *Signal) { s.Name, s.Type = "other", "redis" }, true},
		{"another source", known, func(s *Signal) { s.Source = 8 }, false},
		{"the same source, another kind", known, func(s *Signal) { s.Kind = Mean }, false},
		{"the same source, another unit", known, func(s *Signal) { s.Unit = Percent }, false},
	} {
		p := &Policy{Signals: []Signal{c.old}, MaxReplicas: 20}
		s := Seed(p, 6, nine)
		s.trends[0] = history.Trend{Known: true, Fast: 20, Slow: 12}
		edited := Policy{Signals: []Signal{c.old}, MaxReplicas: 20}
		c.edit(&edited.Signals[0])
		s.Adopt(&edited)
		if kept := s.trends[0].Known; kept != c.kept {
			t.Errorf("%s: trend kept is %v", c.name, kept)
		}
	}
}

// Decision.Proposals contains the number of replicas that each usable signal needs. An element is -1 if the signal cannot be used or does
// not exist.
func TestProposalsOfSignalsThatCannotBeUsed(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10), queue(10), queue(10)}, MinReplicas: 1, MaxReplicas: 20}
	fresh := func(v float64) Reading { return Reading{Value: v, At: nine, Coverage: 1, Known: true} }
	old := fresh(90)
	old.At = nine.Add(-2 * time.Minute)
	o := Observation{Replicas: 12, Ready: 12, Advice: NoAdvice, Operator: NoOperator, Readings: []Reading{fresh(45), {Cause: CauseEmpty}, old}}
	d, _ := Decide(p, o, Seed(p, 12, nine), nine)
	if want := [MaxSignals]int32{5, -1, -1, -1, -1, -1, -1, -1}; d.Proposals != want {
		t.Errorf("proposals %v, want %v", d.Proposals, want)
	}
}
