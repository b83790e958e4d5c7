package capacity

import (
	"slices"
	"testing"
	"time"
)

// The tests of this file enumerate every state and every event of each state machine. A state or an event that is added without a row
// fails the length checks.

func TestEveryPhaseAndSpotEvent(t *testing.T) {
	const p, f, b, r = PreferSpot, Fallback, Probing, Returning
	table := [][]Phase{
		//  unchanged, pairLost, fails, over, useless, probeFails, probeSucceeds, onDemand, complete
		p: {p, p, f, p, p, p, p, r, p},
		f: {f, p, f, b, p, f, f, f, f},
		b: {b, p, b, b, p, f, r, b, b},
		r: {r, p, f, r, r, r, r, r, p},
	}
	if len(table) != int(numPhases) {
		t.Fatalf("%d rows for %d phases", len(table), numPhases)
	}
	for phase, row := range table {
		if len(row) != int(numSpotEvents) {
			t.Fatalf("%v: %d columns for %d events", Phase(phase), len(row), numSpotEvents)
		}
		for event, want := range row {
			was := spotState{Phase: Phase(phase), Level: 2, Cause: CauseLost, Since: 100, Until: 900, Limit: 7, Moved: 50, Count: 3, Of: 4}
			s, in := was, spotInput{at: 1000, group: "chat", failure: CauseRefused, probeUnits: 9, evidence: evidence{refused: 5, attempts: 6}}
			changed := s.apply(spotEvent(event), &in)
			if s.Phase != want || changed != (want != was.Phase) {
				t.Errorf("%v, event %d: %v, changed %v, want %v", was.Phase, event, s.Phase, changed, want)
			}
			checkEntry(t, was, s, spotEvent(event))
		}
	}
}

// checkEntry fails the test if a change to another phase did not set the fields of the state correctly.
func checkEntry(t *testing.T, was, s spotState, event spotEvent) {
	t.Helper()
	want := spotState{Phase: s.Phase, Level: was.Level, Since: 1000, Moved: was.Moved}
	switch {
	case s.Phase == was.Phase:
		want = was
	case s.Phase == Fallback:
		want.Level, want.Cause, want.Count, want.Of = 3, CauseRefused, 5, 6
		if event == probeFails {
			want.Cause = CauseProbe
		}
		want.Until = 1000 + jittered(4*firstFallback, "chat", 3).Milliseconds()
	case s.Phase == Probing:
		want.Limit, want.Until = 9, 1000+probeTimeout.Milliseconds()
	case s.Phase == Returning && was.Phase == Probing:
		want.Cause = CauseProbe
	}
	if s != want {
		t.Errorf("%v, event %d: %+v, want %+v", was.Phase, event, s, want)
	}
}

// When a return is complete, the level is reset only if a replica was moved. After lost nodes, the counts of a fallback are those of the
// losses and not of the refused launches.
func TestEntriesOfPhasesThatDependOnTheirPast(t *testing.T) {
	for moved, level := range map[int64]uint8{99: 2, 100: 0, 500: 0} {
		s := spotState{Phase: Returning, Level: 2, Since: 100, Moved: moved}
		if s.apply(returnComplete, &spotInput{at: 1000}); s.Level != level {
			t.Errorf("moved at %d: level %d, want %d", moved, s.Level, level)
		}
	}
	s := spotState{Level: maxLevel - 1}
	if s.apply(spotFails, &spotInput{at: 1000, group: "chat"}); s.Until != 1000+jittered(maxFallback, "chat", maxLevel).Milliseconds() {
		t.Errorf("the longest fallback ends after %d ms", s.Until-1000)
	}
	s = spotState{}
	s.apply(spotFails, &spotInput{failure: CauseLost, evidence: evidence{refused: 1, attempts: 2, lost: 3, nodes: 4}})
	if s.Count != 3 || s.Of != 4 {
		t.Errorf("%+v", s)
	}
}

// All combinations of inputs together must cause exactly the events that the table of Phase lists for each phase.
func TestEveryInputOfThePhasesCausesAnEventOfTheDiagram(t *testing.T) {
	want := [numPhases][]spotEvent{
		PreferSpot: {spotUnchanged, pairLost, spotFails, replicasOnDemand},
		Fallback:   {spotUnchanged, pairLost, fallbackOver, probeUseless},
		Probing:    {spotUnchanged, pairLost, probeUseless, probeFails, probeSucceeds},
		Returning:  {spotUnchanged, pairLost, spotFails, returnComplete},
	}
	for phase := range numPhases {
		found := map[spotEvent]bool{}
		for bits := range 1 << 15 {
			is := func(i int) bool { return bits>>i&1 == 1 }
			in := spotInput{at: 1000, paired: is(0), known: is(1), peak: is(2), waitOver: is(3), candidates: is(4), spotFirst: is(5), full: is(6),
				launched: is(7), settled: is(8), returnable: is(9), moving: is(10), replaced: is(13)}
			if is(11) {
				in.failure, in.evidence = CauseRefused, evidence{refused: 1, attempts: 1, open: is(14)}
			}
			s := spotState{Phase: phase, Until: 2000}
			if is(12) {
				s.Until = 1000
			}
			found[s.event(&in)] = true
		}
		for event := range numSpotEvents {
			if found[event] != slices.Contains(want[phase], event) {
				t.Errorf("%v: event %d occurs: %v", phase, event, found[event])
			}
		}
	}
}

func TestEveryStepAndEventOfAMove(t *testing.T) {
	const n, s, a, h = noMove, surging, annotating, shrinking
	table := [][]moveStep{
		//  unchanged, unknown, gone, foreign, ready, refused, annotated, timeout, grew
		n: {n, n, n, n, n, n, n, n, n},
		s: {s, n, n, n, a, n, s, s, s},
		a: {a, n, n, n, a, a, h, n, a},
		h: {h, n, n, n, h, h, h, n, n},
	}
	if len(table) != int(numMoveSteps) {
		t.Fatalf("%d rows for %d steps", len(table), numMoveSteps)
	}
	for step, row := range table {
		if len(row) != int(numMoveEvents) {
			t.Fatalf("step %d: %d columns for %d events", step, len(row), numMoveEvents)
		}
		for event, want := range row {
			if got := moveTransitions[step][event]; got != want {
				t.Errorf("step %d, event %d: step %d, want %d", step, event, got, want)
			}
		}
	}
}

// All combinations of inputs together must cause exactly the events that the table of move lists for each step.
func TestEveryInputOfAMoveCausesAnEventOfItsTable(t *testing.T) {
	want := [numMoveSteps][]moveEvent{
		noMove:     {moveUnchanged},
		surging:    {moveUnchanged, workloadUnknown, victimsGone, foreignAnnotation, successorsReady, successorsRefused},
		annotating: {moveUnchanged, workloadUnknown, victimsGone, foreignAnnotation, victimsAnnotated, moveTimeout},
		shrinking:  {moveUnchanged, workloadUnknown, victimsGone, foreignAnnotation, moveTimeout, demandGrew},
	}
	for step := range numMoveSteps {
		found := map[moveEvent]bool{}
		for bits := range 1 << 11 {
			is := func(i int) int32 { return int32(bits >> i & 1) }
			m := move{Step: step}
			in := moveInput{phase: Probing + Phase(is(0)), known: is(1) == 1, victims: is(2), foreign: is(3) == 1, limit: successorTimeout,
				age: time.Duration(is(4))*time.Hour + time.Duration(is(10))*2*growthDelay, grew: is(5) == 1, annotated: is(6) == 1, readyGone: is(7)}
			in.came = successors{ready: is(7), refused: is(8), loading: is(9), spare: is(5)}
			found[m.event(&in)] = true
		}
		for event := range numMoveEvents {
			if found[event] != slices.Contains(want[step], event) {
				t.Errorf("step %d: event %d occurs: %v", step, event, found[event])
			}
		}
	}
}

func TestEveryStateAndEventOfTheZeroLimit(t *testing.T) {
	const off, pending, on = zeroLimitOff, zeroLimitPending, zeroLimitOn
	table := [][]zeroLimitState{
		//        demandExists, noDemand, noDemandLong
		off:     {off, pending, on},
		pending: {off, pending, on},
		on:      {off, pending, on},
	}
	if len(table) != int(numZeroLimitStates) {
		t.Fatalf("%d rows for %d states", len(table), numZeroLimitStates)
	}
	for state, row := range table {
		if len(row) != int(numZeroLimitEvents) {
			t.Fatalf("state %d: %d columns for %d events", state, len(row), numZeroLimitEvents)
		}
		for event, want := range row {
			if got := zeroLimitTransitions[state][event]; got != want {
				t.Errorf("state %d, event %d: %d, want %d", state, event, got, want)
			}
		}
	}
	const at = int64(1) << 40
	delay := zeroLimitDelay.Milliseconds()
	for name, c := range map[string]struct {
		since   int64
		lift    LiftReason
		inForce bool
		want    zeroLimitState
		after   int64 // Since afterwards
	}{
		"the first tick without demand":              {0, NotLifted, false, pending, at},
		"one millisecond too early":                  {at - delay + 1, NotLifted, false, pending, at - delay + 1},
		"five minutes without demand":                {at - delay, NotLifted, false, on, at - delay},
		"a limit of the previous leader":             {0, NotLifted, true, on, at},
		"demand after a long time without":           {at - delay, LiftedByPods, true, off, 0},
		"unknown demand counts as demand":            {at - 1, LiftedByUnknownDemand, false, off, 0},
		"a limit in force stays without more demand": {at - 1, NotLifted, true, on, at - 1},
	} {
		z := zeroLimit{Since: c.since}
		if got := z.step(zeroLimitInput{at, c.lift, c.inForce}); got != c.want || z.Since != c.after {
			t.Errorf("%s: state %d since %d, want %d since %d", name, got, z.Since, c.want, c.after)
		}
	}
}

func TestEveryStateAndEventOfTheTargetCap(t *testing.T) {
	const at = int64(1) << 40
	in := targetCapInput{at: at, group: "chat"}
	open, capped := targetCap{Level: 2, Since: 5}, targetCap{On: true, Level: 2, Since: 5, Until: 9}
	again := targetCap{On: true, Level: 3, Since: at, Until: at + jittered(4*firstTargetCap, "chat", 3).Milliseconds()}
	for _, row := range [][]targetCap{
		// state, then the next state for: unchanged, shortage, nodesArrive, demandMet, retryDue
		{open, open, again, open, {Since: at}, open},
		{capped, capped, capped, {Level: 2, Since: at}, {Since: at}, {Level: 2, Since: at, Until: 9}},
	} {
		if len(row) != int(numTargetCapEvents)+1 {
			t.Fatalf("%d columns for %d events", len(row), numTargetCapEvents)
		}
		for event, want := range row[1:] {
			c := row[0]
			if c.apply(targetCapEvent(event), in); c != want {
				t.Errorf("%+v, event %d: %+v, want %+v", row[0], event, c, want)
			}
		}
	}
	longest := targetCap{Level: maxLevel - 1}
	if longest.apply(shortage, in); longest.Until != at+jittered(maxTargetCap, "chat", maxLevel).Milliseconds() {
		t.Errorf("the longest cap ends after %d ms", longest.Until-at)
	}
	long := maxTargetCap.Milliseconds()
	waits := func(short time.Duration) targetCapInput {
		return targetCapInput{at: at, waiting: true, closed: true, short: short}
	}
	for name, c := range map[string]struct {
		state targetCap
		in    targetCapInput
		want  targetCapEvent
	}{
		"no pod waits":                         {targetCap{}, targetCapInput{at: at}, targetCapUnchanged},
		"no pod waits below a cap":             {capped, targetCapInput{at: at}, demandMet},
		"the level is remembered for a time":   {targetCap{Level: 1, Since: at - long}, targetCapInput{at: at}, targetCapUnchanged},
		"and forgotten then":                   {targetCap{Level: 1, Since: at - long - 1}, targetCapInput{at: at}, demandMet},
		"a NodePool is open":                   {open, targetCapInput{at: at, waiting: true, short: time.Hour}, targetCapUnchanged},
		"a NodePool opens":                     {capped, targetCapInput{at: at, waiting: true}, nodesArrive},
		"pods wait for less than a minute":     {open, waits(shortageMinimum - 1), targetCapUnchanged},
		"pods wait for a minute":               {open, waits(shortageMinimum), shortage},
		"one millisecond before the retry":     {targetCap{On: true, Until: at + 1}, waits(0), targetCapUnchanged},
		"the retry":                            {targetCap{On: true, Until: at}, waits(0), retryDue},
		"pods wait long below a cap: no retry": {targetCap{On: true, Until: at + 1}, waits(time.Hour), targetCapUnchanged},
	} {
		if got := c.state.event(c.in); got != c.want {
			t.Errorf("%s: event %d, want %d", name, got, c.want)
		}
	}
}

func TestEveryStateAndEventOfTheConsolidationFreeze(t *testing.T) {
	const at = int64(1_795_392_000_000) + 20_000 // 20 s after a full minute
	minute := time.Minute.Milliseconds()
	existing := freeze{Start: at - 20_000 - 10*minute, Empty: at - 20_000 + 30*minute, InUse: at - 20_000 + 60*minute}
	inputs := map[freezeState]map[freezeEvent]freezeInput{
		thawed: {
			freezeOver:    {at, 0, 0},
			freezeNeeded:  {at, -1, -1}, // only a clock before 1970 causes it
			freezeExtends: {at, at + 5*minute, at + 10*minute},
		},
		frozen: {
			freezeUnused:  {at, 0, 0},
			freezeOver:    {existing.InUse, 0, 0},
			freezeNeeded:  {at, at + 90*minute, at + 90*minute}, // neither entry ends within freezeRenewal
			freezeExtends: {at + 26*minute, at + 40*minute, at + 40*minute},
		},
		ending: {
			freezeUnused:  {at, 0, 0},
			freezeOver:    {at - 1 + minute, 0, 0},
			freezeNeeded:  {at, at + minute, at + minute},
			freezeExtends: {at + 26*minute, at + 40*minute, at + 40*minute},
		},
	}
	unused, still := existing, existing
	unused.Unused, still.Unused = at, at-1
	extended := freeze{Start: at - 20_000 + 26*minute, Empty: at - 20_000 + 41*minute, InUse: existing.InUse}
	want := map[freezeState]map[freezeEvent]freeze{
		thawed: {freezeExtends: {Start: at - 20_000, Empty: at - 20_000 + 6*minute, InUse: at - 20_000 + 11*minute}},
		frozen: {freezeUnused: unused, freezeNeeded: existing, freezeExtends: extended},
		ending: {freezeUnused: still, freezeNeeded: existing, freezeExtends: extended},
	}
	next := map[freezeEvent]freezeState{freezeUnused: ending, freezeOver: thawed, freezeNeeded: frozen, freezeExtends: frozen}
	for state := range numFreezeStates {
		for event := range numFreezeEvents {
			if state == thawed && event == freezeUnused {
				continue // a freeze without entries is over
			}
			in, listed := inputs[state][event]
			if !listed {
				t.Fatalf("no row for state %d, event %d", state, event)
			}
			h := map[freezeState]freeze{frozen: existing, ending: still}[state]
			if got := h.event(in); got != event {
				t.Errorf("state %d: event %d, want %d", state, got, event)
			}
			if got := h.step(in); got != next[event] || h != want[state][event] {
				t.Errorf("state %d, event %d: state %d, %+v, want %d, %+v", state, event, got, h, next[event], want[state][event])
			}
		}
	}
	h := freeze{}
	if h.step(freezeInput{at, 0, at + 10*time.Hour.Milliseconds()}); h.InUse != upToMinute(at+maxFreeze.Milliseconds()) {
		t.Errorf("an entry of %v", time.Duration(h.InUse-h.Start)*time.Millisecond)
	}
}

func TestEveryStateOfAPodAnnotation(t *testing.T) {
	for name, c := range map[string]struct {
		current Annotation
		needed  string
		state   annotationState
		writes  bool
	}{
		"absent, none needed":             {Annotation{}, "", annotationAbsent, false},
		"absent, a value needed":          {Annotation{}, "5", annotationAbsent, true},
		"empty and ours, a value needed":  {Annotation{Ours: true}, "5", annotationAbsent, true},
		"empty and ours, none needed":     {Annotation{Ours: true}, "", annotationAbsent, false},
		"of another manager, none needed": {Annotation{Value: "5"}, "", annotationForeign, false},
		"of another manager, equal":       {Annotation{Value: "5"}, "5", annotationForeign, false},
		"of another manager, different":   {Annotation{Value: "5"}, "6", annotationForeign, false},
		"ours, equal":                     {Annotation{"5", true}, "5", annotationEqual, false},
		"ours, different":                 {Annotation{"5", true}, "6", annotationDifferent, true},
		"ours, none needed":               {Annotation{"5", true}, "", annotationDifferent, true},
	} {
		state := c.current.compare(c.needed)
		if state != c.state || state.needsWrite(c.needed) != c.writes {
			t.Errorf("%s: state %d, writes %v", name, state, state.needsWrite(c.needed))
		}
	}
	writes := [][2]bool{ // for each state: none needed, a value needed
		annotationAbsent: {false, true}, annotationForeign: {}, annotationEqual: {}, annotationDifferent: {true, true},
	}
	if len(writes) != int(numAnnotationStates) {
		t.Fatalf("%d rows for %d states", len(writes), numAnnotationStates)
	}
	for state, want := range writes {
		if s := annotationState(state); s.needsWrite("") != want[0] || s.needsWrite("5") != want[1] {
			t.Errorf("state %d: %v and %v, want %v", s, s.needsWrite(""), s.needsWrite("5"), want)
		}
	}
}

func TestEveryStateOfABuffer(t *testing.T) {
	for _, c := range []struct {
		in   bufferInput
		want bufferAction
	}{
		{bufferInput{0, 0, false}, keepBuffer}, {bufferInput{0, 0, true}, keepBuffer},
		{bufferInput{2, 2, false}, keepBuffer}, {bufferInput{2, 2, true}, keepBuffer},
		{bufferInput{0, 2, false}, writeBuffer}, {bufferInput{0, 2, true}, keepBuffer},
		{bufferInput{3, 2, false}, writeBuffer}, {bufferInput{3, 2, true}, keepBuffer},
		{bufferInput{2, 0, false}, removeBuffer}, {bufferInput{2, 0, true}, keepBuffer},
	} {
		if got := c.in.action(); got != c.want {
			t.Errorf("%+v: action %d, want %d", c.in, got, c.want)
		}
	}
}

// settled is the expected effect of an observation on an override.
type settled uint8

const (
	stays     settled = iota // nothing changes
	confirmed                // the value was observed
	kept                     // gpuscaler may not write the field: the value stays, and a restore that has begun ends
	freed                    // the override ends, and the number of earlier edits is kept
	yields                   // the edit of another manager stays, and is counted
	forgotten                // the override ends; the record is read again
)

// TestEveryStateOfAnOverrideAndEveryObservation has one row for each state of an override. A row contains the expected effect of each
// observed value in three cases: gpuscaler owns the field, another manager owns it, or consent is withdrawn.
func TestEveryStateOfAnOverrideAndEveryObservation(t *testing.T) {
	values := []Value{"81", "30", "20", "44"} // To, Before, Original, another
	written := override{On: true, To: "81", Before: "30", Original: "20", Owner: "kubectl", Rule: RuleFallback, At: 5, Since: 5,
		Overwrites: 1, Yielded: 3}
	seen, releasing := written, written
	seen.Seen, releasing.Releasing = true, true
	for name, c := range map[string]struct {
		state          override
		ours, theirs   [4]settled // by value
		withoutConsent [4]settled
	}{
		"written": {written, [4]settled{confirmed, stays, forgotten, forgotten}, [4]settled{confirmed, stays, yields, yields},
			[4]settled{kept, forgotten, forgotten, forgotten}},
		"confirmed": {seen, [4]settled{confirmed, forgotten, forgotten, forgotten}, [4]settled{confirmed, yields, yields, yields},
			[4]settled{kept, forgotten, forgotten, forgotten}},
		"releasing": {releasing, [4]settled{confirmed, stays, stays, forgotten}, [4]settled{confirmed, stays, freed, freed},
			[4]settled{kept, forgotten, forgotten, forgotten}},
	} {
		for i, value := range values {
			checkSettled(t, name, c.state, weightView(FieldView{Value: value, Ours: true}, ConsentWeight), c.ours[i])
			checkSettled(t, name, c.state, weightView(FieldView{Value: value, Owner: "kubectl"}, ConsentWeight), c.theirs[i])
			checkSettled(t, name, c.state, weightView(FieldView{Value: value, Ours: true}, ConsentLimits), c.withoutConsent[i])
			checkSettled(t, name, c.state, weightView(FieldView{Value: value, Owner: "kubectl"}, 0), c.withoutConsent[i])
		}
	}
}

// weightView returns a NodePool with a value of weight and the fields that gpuscaler may change.
func weightView(weight FieldView, consent Fields) PoolView {
	return PoolView{Exists: true, Consent: consent, Weight: weight}
}

func checkSettled(t *testing.T, name string, was override, pool PoolView, want settled) {
	t.Helper()
	c := newCluster(t, nil)
	o, d := Observation{Pools: []PoolView{pool, {Exists: true}}}, Decision{}
	var tick tick
	tick.begin(c.g, &o, &c.s, midnight, &d)
	got := &c.s.Pools[0].Overrides[FieldWeight]
	*got = was
	tick.settle(0, FieldWeight)
	after := map[settled]override{stays: was, confirmed: was, kept: was, freed: {Overwrites: 1, Yielded: 3},
		yields: {Overwrites: 2, Yielded: tick.at, Retry: tick.at + shortYield.Milliseconds()}}[want]
	if want == confirmed || want == kept {
		after.Seen, after.Releasing = true, was.Releasing && want == confirmed
	}
	if *got != after {
		t.Errorf("%s shows %s, ours %v, consent %q: %+v, want %+v", name, pool.Weight.Value, pool.Weight.Ours, pool.Consent, *got, after)
	}
}

// While an owner's limit allows no spot node, a probe ends at once if it has launched no node. If it has launched a node, it continues
// until the node fails or proves that spot is available.
func TestOwnersLimitEndsAProbeWithoutANode(t *testing.T) {
	for launched, want := range map[bool]spotEvent{false: probeUseless, true: spotUnchanged} {
		s := spotState{Phase: Probing, Until: 2000}
		in := spotInput{at: 1000, paired: true, candidates: true, full: true, launched: launched, evidence: evidence{attempts: 1}}
		if got := s.event(&in); got != want {
			t.Errorf("launched %v: event %d, want %d", launched, got, want)
		}
	}
}

func TestLossesCountWithinTheirWindow(t *testing.T) {
	for age, want := range map[time.Duration]int{0: 1, lossWindow - time.Millisecond: 1, lossWindow: 0} {
		c := newCluster(t, nil)
		o := c.observe()
		o.Pools[0].Losses = []Loss{{"a", midnight.Add(-age)}}
		var tick tick
		tick.begin(c.g, &o, &c.s, midnight, &c.d)
		tick.countNodes()
		if e := tick.evidence(0, 0); e.lost != want {
			t.Errorf("%v ago: %d losses, want %d", age, e.lost, want)
		}
	}
}
