package capacity

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/evidence"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// A hard fallback limits spot to its current size. The limit is removed only while pods wait and on-demand cannot launch nodes for these
// pods.
func TestHardFallbackLimitsSpotUnlessOnDemandIsClosed(t *testing.T) {
	for name, c := range map[string]struct {
		waits  time.Duration
		change func(*PoolView)
		closed bool
	}{
		"no pod waits":                        {0, func(*PoolView) {}, true},
		"pods wait for an on-demand node":     {statemachine.ShortageMinimum, func(*PoolView) {}, true},
		"on-demand is not ready, pods wait":   {statemachine.ShortageMinimum, func(v *PoolView) { v.Ready = false }, false},
		"on-demand is not ready for a moment": {statemachine.ShortageMinimum - time.Second, func(v *PoolView) { v.Ready = false }, true},
		"on-demand refused a launch": {statemachine.ShortageMinimum, func(v *PoolView) {
			v.Failures = []evidence.Failure{{UID: "a", At: midnight.Add(-time.Minute), Capacity: true}}
		}, false},
		"on-demand refused one for another reason": {statemachine.ShortageMinimum, func(v *PoolView) {
			v.Failures = []evidence.Failure{{UID: "a", At: midnight.Add(-time.Minute)}}
		}, true},
		"on-demand refused one long ago": {statemachine.ShortageMinimum, func(v *PoolView) {
			v.Failures = []evidence.Failure{{UID: "a", At: midnight.Add(-statemachine.RefusalWindow), Capacity: true}}
		}, true},
		"on-demand is at its owner's limit": {statemachine.ShortageMinimum, func(v *PoolView) {
			v.Limits = []nodepool.LimitView{{Resource: "nvidia.com/gpu", FieldView: nodepool.FieldView{Value: "0"}}}
		}, false},
	} {
		g, o := pairOf(t, func(g *Group) { g.Fallback = Hard })
		c.change(&o.Pools[1])
		s := State{memory: memory{At: statemachine.Stamp(midnight) - 1000, KnownSince: statemachine.Stamp(midnight.Add(-time.Hour))}}
		s.adapt(g)
		s.Spot = statemachine.SpotState{Phase: statemachine.Fallback, Level: 1, Since: s.KnownSince,
			Until: statemachine.Stamp(midnight.Add(time.Hour))}
		if c.waits > 0 {
			o.UnmanagedPods = []Pod{{UID: "waits", GPUs: 1, Pool: -1, Pending: true}}
			s.ShortSince = statemachine.Stamp(midnight.Add(-c.waits))
		}
		_, s = Decide(g, o, s, midnight)
		if n := s.Pools[0].Overrides[nodepool.FieldLimit]; n.On != c.closed || n.On && !n.To.Same("0") {
			t.Errorf("%s: limit on spot %+v", name, n)
		}
	}
}

// An owner withdraws consent, changes the value, and then gives consent again. gpuscaler must override the field at once: the change was
// no edit of an override, which would delay the next override.
func TestFieldIsOverriddenAtOnceWhenConsentReturns(t *testing.T) {
	c, _, _ := zeroLimitCluster(t)
	consent := c.pools[0].consent
	c.pools[0].consent = 0
	c.edit(0, "limits[nvidia.com/gpu]", "7")
	c.run(time.Minute)
	c.pools[0].consent = consent
	c.run(5 * time.Second)
	if c.limit(0) != 0 || c.reason(explain.RuleForeignEdit) != nil {
		t.Errorf("limit %d\n%s", c.limit(0), c.why())
	}
	c.releasing = true
	c.run(time.Minute)
	if c.limit(0) != 7 {
		t.Errorf("restored to %d, want the owner's 7", c.limit(0))
	}
}

// Karpenter started replicas on on-demand nodes although spot did not fail. The replicas must not move to spot for 15 minutes, unless a
// probe of spot succeeds.
func TestReturnWithoutAFailureWaits(t *testing.T) {
	for _, c := range []struct {
		cause explain.Cause
		age   time.Duration
		moves bool
	}{{explain.CauseNone, 0, false}, {explain.CauseNone, statemachine.FirstFallback - time.Second, false}, {explain.CauseNone,
		statemachine.FirstFallback, true}, {explain.CauseProbe, time.Second,
		true}} {
		g, o := pairOf(t, nil)
		o.Pools[1].Nodes = []Node{usable("od", OnDemand)}
		o.Workloads = []Workload{{Key: "team/a", Uncapped: 1, Current: 1, GPUs: 1, Known: true, Pods: []Pod{onNode("od", 1, 0)}}}
		s := State{memory: memory{At: statemachine.Stamp(midnight) - 1, KnownSince: statemachine.Stamp(midnight.Add(-time.Hour))}}
		s.adapt(g)
		s.Spot = statemachine.SpotState{Phase: statemachine.Returning, Cause: c.cause, Since: statemachine.Stamp(midnight.Add(-c.age))}
		d, _ := Decide(g, o, s, midnight)
		r := slices.IndexFunc(d.Reasons, func(r explain.Reason) bool { return r.Rule == explain.RuleReturn })
		moves := d.Advice[0].Surge == 1
		if moves != c.moves || r < 0 || !moves && !d.Reasons[r].Until.Equal(midnight.Add(statemachine.FirstFallback-c.age)) {
			t.Errorf("cause %v, %v after the phase began: surge %d, reasons %+v", c.cause, c.age, d.Advice[0].Surge, d.Reasons)
		}
	}
}

// While replicas return to spot, the freeze entry lasts an hour. The entry must be extended five minutes before its end, and not in every
// tick.
func TestFreezeIsRenewedShortlyBeforeItsEnd(t *testing.T) {
	g, o := pairOf(t, nil)
	var s State
	var d Decision
	var changes []time.Duration
	for at := time.Duration(0); at <= 3*time.Hour; at += 10 * time.Second {
		var tick tick
		tick.begin(g, &o, &s, midnight.Add(at), &d)
		before := s.Pools[1].Freeze
		tick.freezePool(1, statemachine.FreezeInput{At: tick.at, Empty: 0, InUse: tick.at + inUseFreezeDuration.Milliseconds()}, true)
		h := s.Pools[1].Freeze
		if h != before {
			changes = append(changes, at)
		}
		left := time.Duration(h.InUse-tick.at) * time.Millisecond
		if left < statemachine.FreezeRenewal || left > inUseFreezeDuration+time.Minute || h.Empty != 0 || h.Start > tick.at {
			t.Fatalf("after %v: %+v", at, h)
		}
	}
	if len(changes) != 4 || changes[1] < 55*time.Minute || changes[1] > 56*time.Minute {
		t.Errorf("written at %v, want every 55 minutes", changes)
	}
	// Known demand has a fixed end, so the freeze entries for it are written once. They must be written again only if other known demand
	// ends later.
	var tick tick
	tick.begin(g, &o, &s, midnight.Add(4*time.Hour), &d)
	s.Pools[0].Freeze = statemachine.Freeze{}
	end := tick.at + 10*time.Minute.Milliseconds()
	tick.freezePool(0, statemachine.FreezeInput{At: tick.at, Empty: end, InUse: end}, true)
	first := s.Pools[0].Freeze
	tick.freezePool(0, statemachine.FreezeInput{At: tick.at, Empty: end - 1, InUse: end - 1}, true)
	if h := s.Pools[0].Freeze; h != first || h.Empty != statemachine.UpToMinute(end) || h.InUse != statemachine.UpToMinute(end) {
		t.Errorf("%+v after a shorter span of known demand, %+v before", h, first)
	}
	tick.freezePool(0, statemachine.FreezeInput{At: tick.at, Empty: end + time.Hour.Milliseconds(), InUse: end}, true)
	if h := s.Pools[0].Freeze; h != first {
		t.Errorf("%+v: ten minutes before its end, an entry must not change", h)
	}
	tick.begin(g, &o, &s, midnight.Add(4*time.Hour+6*time.Minute), &d)
	tick.freezePool(0, statemachine.FreezeInput{At: tick.at, Empty: end + time.Hour.Milliseconds(), InUse: end}, true)
	if h := s.Pools[0].Freeze; h.Empty != statemachine.UpToMinute(end+time.Hour.Milliseconds()) || h.InUse != first.InUse {
		t.Errorf("%+v: four minutes before its end, an entry must get a later end", h)
	}
	for after, want := range []bool{true, false} { // minutes after a rule last needed the freeze
		tick.begin(g, &o, &s, midnight.Add(4*time.Hour+6*time.Minute+time.Duration(after)*statemachine.FreezeHandover), &d)
		tick.freezePool(0, statemachine.FreezeInput{At: tick.at, Empty: 0, InUse: 0}, true)
		if h := s.Pools[0].Freeze; h != (statemachine.Freeze{}) != want {
			t.Errorf("%+v %d minutes after it was needed", h, after)
		}
	}
}

// Another rule requests the value that the field already has. The override and its record annotation must then contain the new rule.
func TestOverrideNamesItsCurrentRule(t *testing.T) {
	w := newWriter(t)
	w.want(0, nodepool.FieldLimit, 4)
	var d Decision
	var tick tick
	tick.begin(w.g, &w.o, &w.s, midnight.Add(time.Second), &d)
	tick.settleOverrides()
	tick.fields.RequestNumber(1, nodepool.FieldLimit, 4, explain.RuleBase)
	tick.write()
	overrides := w.s.Overrides(nil)
	if len(overrides) != 1 || overrides[0].Rule != explain.RuleBase {
		t.Errorf("current overrides %+v", overrides)
	}
	if len(d.Actions) != 1 {
		t.Fatalf("actions %v", d.Actions)
	}
	patch := d.Actions[0].(NodePoolPatch)
	r, ok := recordOf(patch.Record)
	if !ok || len(r.Fields) != 1 || r.Fields[0].Rule != explain.RuleBase || len(patch.Changes) != 0 {
		t.Errorf("record %s, changes %+v", patch.Record, patch.Changes)
	}
}

func TestLimitsArePendingUntilTheOwnersValueIsObserved(t *testing.T) {
	w := newWriter(t)
	if w.s.LimitsPending() {
		t.Error("a limit is pending before any override")
	}
	w.want(0, nodepool.FieldWeight, 90)
	if w.s.LimitsPending() {
		t.Error("an overridden weight counts as a pending limit")
	}
	w.want(time.Second, nodepool.FieldLimit, 4)
	if !w.s.LimitsPending() {
		t.Error("an overridden limit does not count as pending")
	}
	w.want(2*time.Second, nodepool.FieldLimit, -1)
	if !w.s.LimitsPending() {
		t.Error("a restored limit does not count as pending before it is observed")
	}
	w.want(3*time.Second, nodepool.FieldLimit, -1)
	if w.s.LimitsPending() {
		t.Error("a limit is pending after its restore was observed")
	}
}

// With a lead time of six hours, a freeze lasts longer than two hours, so its entries must be extended. No single entry may last longer
// than two hours, because the controller could crash.
func TestFreezeEntryEndsWithinTwoHours(t *testing.T) {
	g, o := pairOf(t, func(g *Group) { g.ConsolidationFreeze, g.LeadTime = true, 6*time.Hour })
	from := midnight.Add(6 * time.Hour)
	o.Ahead = []Span{{From: from, Until: from.Add(8 * time.Hour), GPUs: 4}}
	var s State
	wasFrozen := false
	for at := time.Duration(0); at < 7*time.Hour+30*time.Minute; at += time.Minute {
		_, s = Decide(g, o, s, midnight.Add(at))
		h := s.Pools[0].Freeze
		if most := s.At + 2*time.Hour.Milliseconds(); h.Empty > statemachine.UpToMinute(most) || h.InUse > statemachine.UpToMinute(most) {
			t.Fatalf("after %v: %+v", at, h)
		}
		if h.Empty > s.At != (at < 6*time.Hour+emptyFreezeDuration) || h.InUse > s.At != (at < 6*time.Hour+inUseFreezeDuration) {
			t.Fatalf("after %v: %+v at %d", at, h, s.At)
		}
		wasFrozen = wasFrozen || h != (statemachine.Freeze{})
	}
	if !wasFrozen {
		t.Error("no freeze was written")
	}
}

// A new leader adopts the freeze entries of the previous leader. It neither writes them again nor changes their ends.
func TestNewLeaderContinuesAFreeze(t *testing.T) {
	c := newCluster(t, nil)
	before := c.specs()
	chat := c.add("team-chat/llama", 1)
	eight := office(c, chat)
	c.now = eight.Add(-90 * time.Second)
	c.run(10 * time.Second)
	writes, entries := c.writes, c.s.Pools[0].Freeze
	for range 3 {
		c.s = State{}
		c.run(time.Minute)
	}
	if c.writes != writes || c.s.Pools[0].Freeze != entries || entries.InUse == 0 {
		t.Errorf("%d writes, %+v; before %+v", c.writes-writes, c.s.Pools[0].Freeze, entries)
	}
	c.now = eight.Add(inUseFreezeDuration)
	c.run(2 * time.Second)
	c.untouched(before)
}

// The level, which counts consecutive failures of spot, is reset when spot has been used for more than two hours.
func TestSpotLevelIsResetAfterTwoHours(t *testing.T) {
	for age, level := range map[time.Duration]uint8{statemachine.LevelReset: 3, statemachine.LevelReset + time.Millisecond: 0} {
		g, o := pairOf(t, nil)
		s := State{memory: memory{At: statemachine.Stamp(midnight) - 1, KnownSince: statemachine.Stamp(midnight.Add(-time.Hour))}}
		s.adapt(g)
		s.Spot = statemachine.SpotState{Level: 3, Since: statemachine.Stamp(midnight.Add(-age))}
		if _, s = Decide(g, o, s, midnight); s.Spot.Level != level {
			t.Errorf("after %v: level %d, want %d", age, s.Spot.Level, level)
		}
	}
}
