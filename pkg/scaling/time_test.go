package scaling

import (
	"math"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/calendar"
	"github.com/gpuscaler/gpuscaler/pkg/scaling/history"
)

func berlin(t *testing.T) *time.Location {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// hours returns a window that is open every day between two hours, for example from 8 to 20.
func hours(name string, zone *time.Location, start, end int) calendar.Window {
	every := func(hour int) calendar.Cron {
		return calendar.Cron{Minute: 1, Hour: 1 << hour, DayOfMonth: 1<<32 - 2, Month: 1<<13 - 2, DayOfWeek: 1<<7 - 1}
	}
	return calendar.Window{Name: name, Location: zone, Start: every(start), End: every(end)}
}

// A chat service in Berlin runs on the day in October that has 25 hours, because daylight saving time ends. One schedule has a minimum of
// two replicas from 8 to 20, and another a maximum of 0 from 23 to 6, in local time.
func TestScheduleAcrossTheEndOfDaylightSavingTime(t *testing.T) {
	zone := berlin(t)
	office := Schedule{Window: hours("office", zone, 8, 20), Min: 2, Max: -1, Lead: 10 * time.Minute}
	night := Schedule{Window: hours("night", zone, 23, 6), Min: -1, Max: 0}
	p := &Policy{Signals: []Signal{queue(10)}, MaxReplicas: 12, CooldownPeriod: 30 * time.Minute, Schedules: []Schedule{office, night},
		ScaleDown: Direction{StabilizationWindow: 5 * time.Minute, Rates: []RatePolicy{{Pods, 1, time.Minute}}}}
	w := newScenario(t, p, 4, 35)
	w.now = time.Date(2026, 10, 24, 22, 59, 0, 0, zone)
	w.s = Seed(p, 4, w.now)
	at := func(day, hour, minute int) {
		t.Helper()
		for until := time.Date(2026, 10, day, hour, minute, 0, 0, zone); w.now.Before(until); {
			w.tick(min(until.Sub(w.now), 5*time.Second))
		}
	}
	at(24, 22, 59)
	w.run(59 * time.Second)
	w.expect(4, RuleCombine)
	at(24, 23, 0)
	w.expect(3, RuleScheduleCeiling) // 35 requests are queued when the night begins, and the rate permits one pod a minute
	at(24, 23, 3)
	w.expect(0, RuleScheduleCeiling)
	if w.last.Active {
		t.Error("active at zero: KEDA would wake it against the ceiling")
	}
	w.run(3 * time.Hour)
	w.expect(0, RuleScheduleCeiling) // the clock shows 02:03 for the first time in this night
	w.load(0)
	at(25, 5, 59) // seven hours and 59 minutes after 23:00, because this night has an additional hour
	w.run(55 * time.Second)
	w.expect(0, RuleCombine)
	w.load(15)
	at(25, 6, 0)
	w.expect(2, RuleCombine) // a request arrived at the end of the night
	w.load(0)
	at(25, 6, 29)
	w.expect(1, RuleIdle)
	at(25, 6, 30)
	w.expect(0, RuleCombine)
	at(25, 7, 49)
	w.run(59 * time.Second)
	w.expect(0, RuleCombine)
	w.tick(time.Second)
	w.expect(2, RuleScheduleFloor) // ten minutes before 8
	if text := w.last.Reasons.All(); Explain.Reason(text[len(text)-2], p) != "at least 2 replicas ahead of schedule office, "+
		"which begins at 08:00 Europe/Berlin" {
		t.Errorf("the text of the reason is %q", Explain.Reason(text[len(text)-2], p))
	}
	at(25, 19, 59)
	w.expect(2, RuleScheduleFloor)
	if want := time.Date(2026, 10, 25, 20, 30, 0, 0, zone); !w.last.Active || w.last.ScaleDownRule != RuleScheduleFloor ||
		w.last.EarliestScaleDown.After(want) {
		t.Errorf("active %v, EarliestScaleDown %v by %v", w.last.Active, w.last.EarliestScaleDown, w.last.ScaleDownRule)
	}
	at(25, 20, 0)
	w.expect(1, RuleIdle) // the schedule floor has ended, and the cooldown starts
	at(25, 20, 29)
	w.run(54 * time.Second)
	w.expect(1, RuleIdle)
	at(25, 20, 30)
	w.expect(0, RuleCombine)
}

// A model server does not respond: its GPUs are idle and its queue grows. The queue alone would lower the target from 8 to 4 replicas, and
// the utilization would lower the target further. RuleGrowingDemand must keep the target at 8.
func TestHungBackendIsNotScaledDown(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10), busy(0.7)}, MinReplicas: 1, MaxReplicas: 20}
	w := newScenario(t, p, 8, 20, 0.7)
	w.run(10 * time.Minute)
	w.expect(8, RuleCombine)
	start := w.now
	w.value = func(w *scenario, i int) float64 {
		if i == 1 {
			return 0.02
		}
		return 20 + w.now.Sub(start).Seconds()/10 // one more waiting request every ten seconds
	}
	w.tick(time.Second)
	w.expect(3, RuleCombine) // after a few seconds there is no trend, so only a scale-down window could prevent the decrease
	p.ScaleDown.StabilizationWindow = time.Minute
	w = newScenario(t, p, 8, 20, 0.7)
	w.run(10 * time.Minute)
	start = w.now
	w.value = func(w *scenario, i int) float64 {
		if i == 1 {
			return 0.02
		}
		return 20 + w.now.Sub(start).Seconds()/10
	}
	for range 5 * 60 {
		if w.tick(time.Second); w.last.Replicas < 8 {
			t.Fatalf("after %v: %d\n%s", w.now.Sub(start), w.last.Replicas, table(p, &w.last))
		}
	}
	w.value = func(_ *scenario, i int) float64 { return []float64{50, 0.02}[i] }
	w.run(10 * time.Minute)
	w.expect(5, RuleCombine) // the queue no longer grows, and 50 waiting requests need 5 replicas
}

func TestClockStepBackDoesNotStopChanges(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MinReplicas: 1, MaxReplicas: 20,
		ScaleUp:   Direction{Rates: []RatePolicy{{Pods, 1, time.Minute}}},
		ScaleDown: Direction{StabilizationWindow: 10 * time.Minute}}
	w := newScenario(t, p, 6, 60)
	w.run(time.Minute)
	w.load(20)
	w.run(5 * time.Minute)
	w.expect(6, RuleStabilize)
	w.tick(-time.Hour)
	w.expect(6, RuleStabilize)
	w.run(5*time.Minute - 2*time.Second)
	w.expect(6, RuleStabilize) // the window still contains the last recommendation of 6 replicas
	w.run(2 * time.Second)
	w.expect(2, RuleCombine)
	w.tick(-time.Hour)
	w.load(60)
	w.tick(time.Second)
	w.expect(6, RuleCombine) // a minute ago the target was 6, so the rate permits an increase from 2 to 6
	w.load(90)
	w.tick(-24 * time.Hour)
	w.expect(7, RuleRate) // the target was 6 a minute before, and the rate permits one more replica a minute
	w.run(59 * time.Second)
	w.expect(7, RuleRate)
	w.tick(time.Second)
	w.expect(8, RuleRate)
}

func TestDurationsDoNotChangeWhenTheClockStepsBack(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MaxReplicas: 20, CooldownPeriod: 10 * time.Minute}
	w := newScenario(t, p, 1, 0)
	w.run(5 * time.Minute)
	w.tick(-time.Hour)
	w.run(5*time.Minute - time.Second)
	w.expect(1, RuleIdle)
	w.tick(time.Second)
	w.expect(0, RuleCombine)

	p = &Policy{Signals: []Signal{queue(10)}, MinReplicas: 1, MaxReplicas: 20, Panic: Panic{Threshold: 2, Window: time.Minute}}
	w = newScenario(t, p, 4, 80)
	w.tick(time.Second)
	w.load(10)
	w.tick(-time.Hour)
	w.run(59 * time.Second)
	w.expect(8, RulePanic)
	w.tick(time.Second)
	w.expect(1, RuleCombine)

	p = &Policy{Signals: []Signal{queue(10)}, MinReplicas: 1, MaxReplicas: 20, Schedules: []Schedule{on("launch", 0, time.Hour, 5, -1)}}
	w = newScenario(t, p, 1, 10)
	w.tick(time.Second)
	w.expect(5, RuleScheduleFloor)
	w.tick(-time.Minute)
	w.expect(1, RuleCombine)
}

// A model server does not respond: its queue grows while its GPUs are idle. If the policy is edited at that time, a signal that still
// measures the same quantity must keep its trend, so that RuleGrowingDemand still prevents a decrease.
func TestEditOfThePolicyKeepsTrends(t *testing.T) {
	waiting := queue(10)
	waiting.Source = 7
	for _, c := range []struct {
		name string
		edit func(p *Policy)
		want int32
		rule Rule
	}{
		{"another bound", func(p *Policy) { p.MaxReplicas = 21 }, 8, RuleGrowingDemand},
		{"another order", func(p *Policy) { p.Signals = []Signal{busy(0.7), waiting} }, 8, RuleGrowingDemand},
		{"another name", func(p *Policy) { s := waiting; s.Name = "renamed"; p.Signals = []Signal{s, busy(0.7)} }, 8, RuleGrowingDemand},
		{"another query under the same name", func(p *Policy) { s := waiting; s.Source = 8; p.Signals = []Signal{s, busy(0.7)} }, 7, RuleCombine},
		{"another kind of number", func(p *Policy) { s := waiting; s.Class = Latency; p.Signals = []Signal{s, busy(0.7)} }, 7, RuleCombine},
	} {
		first := &Policy{Signals: []Signal{waiting, busy(0.7)}, MinReplicas: 1, MaxReplicas: 20,
			Schedules: []Schedule{on("launch", 0, 4*time.Minute, 8, -1)}}
		w := newScenario(t, first, 8)
		w.value = func(w *scenario, i int) float64 {
			if w.p.Signals[i].Class == Utilization {
				return 0.1
			}
			return w.now.Sub(nine).Seconds() / 4
		}
		w.run(4 * time.Minute)
		w.expect(8, RuleGrowingDemand)
		second := *first
		c.edit(&second)
		w.p = &second
		w.tick(time.Second)
		if w.last.Replicas != c.want || w.last.Binding != c.rule {
			t.Errorf("%s: %d by rule %d, want %d by %d", c.name, w.last.Replicas, w.last.Binding, c.want, c.rule)
		}
	}
}

func TestRestartKeepsOnlyTrends(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10), busy(0.7)}, MinReplicas: 1, MaxReplicas: 20}
	s := Seed(p, 8, nine)
	s.trends[0] = history.Trend{Known: true, Fast: 60, Slow: 30}
	s.activeAt, s.extra = 0, 3
	again := *p
	s.Restart(&again, 12, nine.Add(time.Minute))
	want := Seed(&again, 12, nine.Add(time.Minute))
	want.trends[0] = history.Trend{Known: true, Fast: 60, Slow: 30}
	if s != want {
		t.Errorf("%+v\nwant %+v", s, want)
	}
}

// A signal of a policy is replaced with a signal of a different name. Both have no Source. The new signal must not use the trend of the old
// signal.
func TestAnotherPolicyDoesNotKeepTrends(t *testing.T) {
	first := &Policy{Signals: []Signal{queue(10), busy(0.7)}, MinReplicas: 1, MaxReplicas: 20,
		Schedules: []Schedule{on("launch", 0, 4*time.Minute, 8, -1)}}
	w := newScenario(t, first, 8)
	w.value = func(w *scenario, i int) float64 { return []float64{w.now.Sub(nine).Seconds() / 4, 0.1}[i] }
	w.run(4 * time.Minute)
	w.expect(8, RuleGrowingDemand)
	second := *first
	second.Signals = []Signal{queue(10), busy(0.7)}
	second.Signals[0].Name = "another"
	w.p = &second
	w.tick(time.Second)
	w.expect(7, RuleCombine)
}

func TestAbsurdTimesGiveADecision(t *testing.T) {
	p := benchPolicy()
	p.Schedules = []Schedule{on("once", 0, time.Hour, 4, 9)}
	times := []time.Time{{}, time.Unix(1<<62, 0), time.Unix(-1<<62, 0), nine, time.Unix(math.MaxInt64,
		999_999_999), time.Unix(math.MinInt64, 0), nine}
	for _, first := range times {
		s := Seed(p, 6, first)
		for _, now := range times {
			var d Decision
			o := Observation{Replicas: 6, Ready: 6, Advice: NoAdvice, Operator: Operator{Min: 2, Max: 30, Until: first}}
			d, s = Decide(p, o, s, now)
			sound(t, p, o, &d)
			if d.Replicas < 6 {
				t.Errorf("%v after %v: the target decreased to %d without a reading\n%s", now, first, d.Replicas, table(p, &d))
			}
		}
	}
}

// Seven replicas are needed, but the capacity cap is 5. When the cap ends, the target must be 7 in the next tick, because the scale-up
// rates must not limit this increase.
func TestEndOfACapRaisesAtOnce(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MinReplicas: 1, MaxReplicas: 20,
		ScaleUp: Direction{Rates: []RatePolicy{{Pods, 2, time.Minute}}}}
	w := newScenario(t, p, 3, 70)
	w.o.Advice.Cap = 5
	w.run(5 * time.Minute)
	w.expect(5, RuleCapacity)
	if w.last.Uncapped != 7 {
		t.Errorf("uncapped %d, want 7", w.last.Uncapped)
	}
	w.o.Advice.Cap = -1
	w.tick(time.Second)
	w.expect(7, RuleCombine)
}

// While readings are missing, the replicas for nodes at risk and for a surge must be added to the target only once, and not again in each
// tick.
func TestSurgeDoesNotGrowWhileReadingsAreMissing(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MinReplicas: 1, MaxReplicas: 40}
	w := newScenario(t, p, 6, 60)
	w.run(time.Minute)
	w.value = nil
	w.o.Readings[0] = Reading{Cause: CauseUnreachable}
	w.o.Advice.AtRisk, w.o.Advice.Surge = 2, 1
	for range 600 {
		if w.tick(time.Second); w.last.Replicas != 9 {
			t.Fatalf("%d from 6 with 2 at risk and a surge of 1\n%s", w.last.Replicas, table(p, &w.last))
		}
	}
	w.o.Advice.AtRisk, w.o.Advice.Surge = 0, 0
	w.tick(time.Second)
	w.expect(9, RuleSurge) // readings are missing, so it is not known whether fewer replicas are sufficient
	w.load(60)
	w.tick(time.Second)
	w.expect(6, RuleCombine)
}

func TestTargetAfterAnOverrideFollowsTheRates(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MinReplicas: 1, MaxReplicas: 40,
		ScaleDown: Direction{Rates: []RatePolicy{{Pods, 1, time.Minute}}}}
	w := newScenario(t, p, 4, 40)
	w.o.Operator = Operator{Min: 12, Max: -1, Until: nine.Add(time.Hour)}
	w.run(time.Hour - time.Second)
	w.expect(12, RuleOverride)
	if !w.last.EarliestScaleDown.Equal(nine.Add(time.Hour)) || w.last.ScaleDownRule != RuleOverride {
		t.Errorf("EarliestScaleDown is %v by %v", w.last.EarliestScaleDown, w.last.ScaleDownRule)
	}
	w.tick(time.Second)
	w.expect(11, RuleRate)
	w.run(time.Minute)
	w.expect(10, RuleRate)
}

func TestTargetAfterAPauseStartsFromTheCurrentReplicas(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MinReplicas: 1, MaxReplicas: 40,
		ScaleUp: Direction{Rates: []RatePolicy{{Pods, 1, time.Minute}}}}
	w := newScenario(t, p, 4, 40)
	w.run(time.Minute)
	w.o.Operator.Paused = true
	w.load(90)
	w.run(time.Hour)
	w.expect(4, RulePaused)
	w.o.Operator.Paused = false
	w.tick(time.Second)
	w.expect(5, RuleRate)
}

func TestReasonsWithoutAChangeAreDroppedFirst(t *testing.T) {
	var r Reasons
	for i := range int32(MaxReasons + 3) {
		to := i
		if i%8 == 5 {
			to++
		}
		r.add(Reason{Rule: Rule(i), From: i, To: to})
	}
	all := r.All()
	if len(all) != MaxReasons || all[0].Rule != 3 || all[MaxReasons-1].Rule != MaxReasons+2 {
		t.Fatalf("%d reasons, %d to %d", len(all), all[0].Rule, all[len(all)-1].Rule)
	}
	for range 5 {
		r.add(Reason{})
	}
	if all = r.All(); all[0].Rule != 5 || all[1].Rule != 9 {
		t.Errorf("the reason that changed the target was removed: %v", all[:2])
	}
}

// Demand increases, and later decreases, by one replica each second. The target must follow after exactly the length of the window, even
// after many more changes than a window has entries.
func TestWindowsDelayARampByTheirLength(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(1)}, MinReplicas: 1, MaxReplicas: 200,
		ScaleUp: Direction{StabilizationWindow: 5 * time.Second}, ScaleDown: Direction{StabilizationWindow: 8 * time.Second}}
	w := newScenario(t, p, 1, 1)
	for second := 1; second <= 240; second++ {
		demand := func(at int) int32 { return int32(max(min(at, 240-at), 1)) }
		w.load(float64(demand(second)))
		w.tick(time.Second)
		if want := demand(second - 7); second > 130 && w.last.Replicas != want {
			t.Fatalf("second %d of the decrease: %d replicas, want %d", second, w.last.Replicas, want)
		} else if want := demand(second - 4); second < 120 && w.last.Replicas != want {
			t.Fatalf("second %d of the increase: %d replicas, want %d", second, w.last.Replicas, want)
		}
	}
}

// A workload is scaled from zero to five replicas. The scale-down rate permits targets down to one replica less than the target a minute
// ago, which was 0, so it prevents no decrease. EarliestScaleDown must be zero, because the target can decrease in the next tick.
func TestEarliestScaleDownAfterARiseFromZero(t *testing.T) {
	p := &Policy{Signals: []Signal{queue(10)}, MaxReplicas: 20, CooldownPeriod: 5 * time.Minute,
		ScaleDown: Direction{Rates: []RatePolicy{{Pods, 1, time.Minute}}}}
	w := newScenario(t, p, 0, 0)
	w.run(10 * time.Minute)
	w.load(50)
	w.tick(time.Second)
	w.expect(5, RuleCombine)
	if !w.last.EarliestScaleDown.IsZero() || w.last.ScaleDownRule != RuleNone {
		t.Errorf("EarliestScaleDown is %s by %v, want the next tick", w.last.EarliestScaleDown.Format("15:04:05"), w.last.ScaleDownRule)
	}
	w.load(0)
	w.tick(time.Second)
	w.expect(1, RuleIdle)
}
