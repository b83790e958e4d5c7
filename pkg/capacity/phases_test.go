package capacity

import (
	"slices"
	"testing"
	"time"
)

// A hard fallback closes spot while on-demand takes the pods. It opens spot only if on-demand takes none either.
func TestAHardFallbackOpensSpotOnlyIfOnDemandTakesNone(t *testing.T) {
	for name, c := range map[string]struct {
		waits  time.Duration
		change func(*PoolView)
		closed bool
	}{
		"no pod waits":                        {0, func(*PoolView) {}, true},
		"pods wait for an on-demand node":     {shortEnough, func(*PoolView) {}, true},
		"on-demand is not ready, pods wait":   {shortEnough, func(v *PoolView) { v.Ready = false }, false},
		"on-demand is not ready for a moment": {shortEnough - time.Second, func(v *PoolView) { v.Ready = false }, true},
		"on-demand refused a launch": {shortEnough, func(v *PoolView) {
			v.Failures = []Failure{{UID: "a", At: midnight.Add(-time.Minute), Capacity: true}}
		}, false},
		"on-demand refused one for another reason": {shortEnough, func(v *PoolView) {
			v.Failures = []Failure{{UID: "a", At: midnight.Add(-time.Minute)}}
		}, true},
		"on-demand refused one long ago": {shortEnough, func(v *PoolView) {
			v.Failures = []Failure{{UID: "a", At: midnight.Add(-refusedWithin), Capacity: true}}
		}, true},
		"on-demand is at its owner's limit": {shortEnough, func(v *PoolView) {
			v.Limits = []LimitView{{Resource: "nvidia.com/gpu", FieldView: FieldView{Value: "0"}}}
		}, false},
	} {
		g, o := pairOf(t, func(g *Group) { g.Fallback = Hard })
		c.change(&o.Pools[1])
		s := State{at: stamp(midnight) - 1000, knownSince: stamp(midnight.Add(-time.Hour))}
		s.fit(g)
		s.spot = spotState{phase: Fallback, level: 1, since: s.knownSince, until: stamp(midnight.Add(time.Hour))}
		if c.waits > 0 {
			o.UnmanagedPods = []Pod{{UID: "waits", GPUs: 1, Pool: -1, Pending: true}}
			s.shortSince = stamp(midnight.Add(-c.waits))
		}
		_, s = Decide(g, o, s, midnight)
		if n := s.pools[0].nudges[FieldLimit]; n.on != c.closed || n.on && !n.to.same("0") {
			t.Errorf("%s: limit on spot %+v", name, n)
		}
	}
}

// An owner takes consent back, sets a value, and hands the field over again: that is no edit against us, so nothing is left alone.
func TestAFieldThatIsHandedOverAgainIsOverriddenAtOnce(t *testing.T) {
	c, _, _ := fencedCluster(t)
	consent := c.pools[0].consent
	c.pools[0].consent = 0
	c.edit(0, "limits[nvidia.com/gpu]", "7")
	c.run(time.Minute)
	c.pools[0].consent = consent
	c.run(5 * time.Second)
	if c.limit(0) != 0 || c.reason(RuleForeignEdit) != nil {
		t.Errorf("limit %d\n%s", c.limit(0), c.why())
	}
	c.releasing = true
	c.run(time.Minute)
	if c.limit(0) != 7 {
		t.Errorf("restored to %d, want the owner's 7", c.limit(0))
	}
}

// Replicas that Karpenter put on demand by itself, without a failure of spot, are not moved before a quarter of an hour.
func TestReplicasOnDemandWithoutAFailureWaitBeforeTheyMove(t *testing.T) {
	for _, c := range []struct {
		cause Cause
		age   time.Duration
		moves bool
	}{{CauseNone, 0, false}, {CauseNone, firstHold - time.Second, false}, {CauseNone, firstHold, true}, {CauseProbe, time.Second, true}} {
		g, o := pairOf(t, nil)
		o.Pools[1].Nodes = []Node{usable("od", OnDemand)}
		o.Workloads = []Workload{{Key: "team/a", Uncapped: 1, Current: 1, GPUs: 1, Known: true, Pods: []Pod{onNode("od", 1, 0)}}}
		s := State{at: stamp(midnight) - 1, knownSince: stamp(midnight.Add(-time.Hour))}
		s.fit(g)
		s.spot = spotState{phase: Returning, cause: c.cause, since: stamp(midnight.Add(-c.age))}
		d, _ := Decide(g, o, s, midnight)
		r := slices.IndexFunc(d.Reasons, func(r Reason) bool { return r.Rule == RuleReturn })
		moves := d.Advice[0].Surge == 1
		if moves != c.moves || r < 0 || !moves && !d.Reasons[r].Until.Equal(midnight.Add(firstHold-c.age)) {
			t.Errorf("cause %v, %v after the phase began: surge %d, reasons %+v", c.cause, c.age, d.Advice[0].Surge, d.Reasons)
		}
	}
}

// While replicas return, the entry in the list of budgets lasts an hour and is renewed five minutes before its end, not in every tick.
func TestAHoldIsRenewedShortlyBeforeItsEnd(t *testing.T) {
	g, o := pairOf(t, nil)
	var s State
	var d Decision
	var changes []time.Duration
	for at := time.Duration(0); at <= 3*time.Hour; at += 10 * time.Second {
		var tick tick
		tick.begin(g, &o, &s, midnight.Add(at), &d)
		before := s.pools[1].hold
		tick.holdPool(1, 0, tick.at+holdUnder.Milliseconds())
		h := s.pools[1].hold
		if h != before {
			changes = append(changes, at)
		}
		left := time.Duration(h.under-tick.at) * time.Millisecond
		if left < renewed || left > holdUnder+time.Minute || h.empty != 0 || h.start > tick.at {
			t.Fatalf("after %v: %+v", at, h)
		}
	}
	if len(changes) != 4 || changes[1] < 55*time.Minute || changes[1] > 56*time.Minute {
		t.Errorf("written at %v, want every 55 minutes", changes)
	}
	// Demand that is known ahead ends by itself: its entries are written once, and once more when another span lasts longer.
	var tick tick
	tick.begin(g, &o, &s, midnight.Add(4*time.Hour), &d)
	s.pools[0].hold = hold{}
	end := tick.at + 10*time.Minute.Milliseconds()
	tick.holdPool(0, end, end)
	first := s.pools[0].hold
	tick.holdPool(0, end-1, end-1)
	if h := s.pools[0].hold; h != first || h.empty != upToMinute(end) || h.under != upToMinute(end) {
		t.Errorf("%+v after a shorter span, %+v before", h, first)
	}
	tick.holdPool(0, end+time.Hour.Milliseconds(), end)
	if h := s.pools[0].hold; h != first {
		t.Errorf("%+v: ten minutes before its end an entry is left alone", h)
	}
	tick.begin(g, &o, &s, midnight.Add(4*time.Hour+6*time.Minute), &d)
	tick.holdPool(0, end+time.Hour.Milliseconds(), end)
	if h := s.pools[0].hold; h.empty != upToMinute(end+time.Hour.Milliseconds()) || h.under != first.under {
		t.Errorf("%+v: four minutes before its end an entry is renewed", h)
	}
	tick.holdPool(0, 0, 0)
	if h := s.pools[0].hold; h != (hold{}) {
		t.Errorf("%+v with nothing to hold", h)
	}
}

// Another rule wants the value that is in force: the override is shown and recorded with that rule.
func TestAnOverrideNamesTheRuleThatWantsItNow(t *testing.T) {
	w := newWriter(t)
	w.want(0, FieldLimit, 4)
	var d Decision
	var tick tick
	tick.begin(w.g, &w.o, &w.s, midnight.Add(time.Second), &d)
	tick.settle()
	tick.wishNumber(1, FieldLimit, 4, RuleBase)
	tick.write()
	held := w.s.Overrides(nil)
	if len(held) != 1 || held[0].Rule != RuleBase {
		t.Errorf("shown %+v", held)
	}
	if len(d.Actions) != 1 {
		t.Fatalf("actions %v", d.Actions)
	}
	patch := d.Actions[0].(NodePoolPatch)
	r, ok := parse(patch.Record)
	if !ok || len(r.Fields) != 1 || r.Fields[0].Rule != RuleBase || len(patch.Changes) != 0 {
		t.Errorf("record %s, changes %+v", patch.Record, patch.Changes)
	}
}

func TestLimitsArePendingUntilTheirOwnersValueIsSeen(t *testing.T) {
	w := newWriter(t)
	if w.s.LimitsPending() {
		t.Error("pending before any override")
	}
	w.want(0, FieldWeight, 90)
	if w.s.LimitsPending() {
		t.Error("a weight is taken for a limit")
	}
	w.want(time.Second, FieldLimit, 4)
	if !w.s.LimitsPending() {
		t.Error("a limit in force is not pending")
	}
	w.want(2*time.Second, FieldLimit, -1)
	if !w.s.LimitsPending() {
		t.Error("a restore that is not seen yet is not pending")
	}
	w.want(3*time.Second, FieldLimit, -1)
	if w.s.LimitsPending() {
		t.Error("pending after the restore was seen")
	}
}

// A group that starts its nodes hours ahead renews its entries: if the controller dies, none lasts for more than two hours.
func TestAnEntryEndsWithinTwoHours(t *testing.T) {
	g, o := pairOf(t, func(g *Group) { g.ConsolidationFreeze, g.LeadTime = true, 6*time.Hour })
	from := midnight.Add(6 * time.Hour)
	o.Ahead = []Span{{From: from, Until: from.Add(8 * time.Hour), GPUs: 4}}
	var s State
	held := false
	for at := time.Duration(0); at < 7*time.Hour+30*time.Minute; at += time.Minute {
		_, s = Decide(g, o, s, midnight.Add(at))
		h := s.pools[0].hold
		if most := s.at + 2*time.Hour.Milliseconds(); h.empty > upToMinute(most) || h.under > upToMinute(most) {
			t.Fatalf("after %v: %+v", at, h)
		}
		if h.empty > s.at != (at < 6*time.Hour+holdEmpty) || h.under > s.at != (at < 6*time.Hour+holdUnder) {
			t.Fatalf("after %v: %+v at %d", at, h, s.at)
		}
		held = held || h != (hold{})
	}
	if !held {
		t.Error("nothing was held")
	}
}

// A new leader goes on with the entries of the one before: it writes nothing, and they end when they would have.
func TestANewLeaderGoesOnWithAHold(t *testing.T) {
	c := newCluster(t, nil)
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	eight := office(c, chat)
	c.now = eight.Add(-90 * time.Second)
	c.run(10 * time.Second)
	writes, hold := c.writes, c.s.pools[0].hold
	for range 3 {
		c.s = State{}
		c.run(time.Minute)
	}
	if c.writes != writes || c.s.pools[0].hold != hold || hold.under == 0 {
		t.Errorf("%d writes, %+v; before %+v", c.writes-writes, c.s.pools[0].hold, hold)
	}
	c.now = eight.Add(holdUnder)
	c.run(2 * time.Second)
	c.untouched(before)
}

// The failures of spot are forgotten once it has held for two hours.
func TestSpotsFailuresAreForgottenAfterTwoHours(t *testing.T) {
	for age, level := range map[time.Duration]uint8{forgives: 3, forgives + time.Millisecond: 0} {
		g, o := pairOf(t, nil)
		s := State{at: stamp(midnight) - 1, knownSince: stamp(midnight.Add(-time.Hour))}
		s.fit(g)
		s.spot = spotState{level: 3, since: stamp(midnight.Add(-age))}
		if _, s = Decide(g, o, s, midnight); s.spot.level != level {
			t.Errorf("after %v: level %d, want %d", age, s.spot.level, level)
		}
	}
}
