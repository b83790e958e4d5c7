package statemachine

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
)

// The tests of this file enumerate every state and every event of each state machine. A new state or event without a row fails the length
// checks.

func TestEveryPhaseAndSpotEvent(t *testing.T) {
	const p, f, b, r = PreferSpot, Fallback, Probing, Returning
	table := [][]Phase{
		// one column for each event: SpotUnchanged, PairLost, SpotFails, FallbackOver, ProbeUseless, ProbeFails, ProbeSucceeds,
		// ReplicasOnDemand, ReturnComplete
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
			was := SpotState{Phase: Phase(phase), Level: 2, Cause: explain.CauseLost, Since: 100, Until: 900, Limit: 7, Moved: 50, Count: 3, Of: 4}
			s, in := was, SpotInput{At: 1000, Group: "chat", Failure: explain.CauseRefused, ProbeUnits: 9, Evidence: Evidence{Refused: 5,
				Attempts: 6}}
			changed := s.Apply(SpotEvent(event), &in)
			if s.Phase != want || changed != (want != was.Phase) {
				t.Errorf("%v, event %d: %v, changed %v, want %v", was.Phase, event, s.Phase, changed, want)
			}
			checkEntry(t, was, s, SpotEvent(event))
		}
	}
}

// checkEntry fails the test if the fields of the state are wrong after the phase has changed.
func checkEntry(t *testing.T, was, s SpotState, event SpotEvent) {
	t.Helper()
	want := SpotState{Phase: s.Phase, Level: was.Level, Since: 1000, Moved: was.Moved}
	switch {
	case s.Phase == was.Phase:
		want = was
	case s.Phase == Fallback:
		want.Level, want.Cause, want.Count, want.Of = 3, explain.CauseRefused, 5, 6
		if event == ProbeFails {
			want.Cause = explain.CauseProbe
		}
		want.Until = 1000 + jittered(4*FirstFallback, "chat", 3).Milliseconds()
	case s.Phase == Probing:
		want.Limit, want.Until = 9, 1000+probeTimeout.Milliseconds()
	case s.Phase == Returning && was.Phase == Probing:
		want.Cause = explain.CauseProbe
	}
	if s != want {
		t.Errorf("%v, event %d: %+v, want %+v", was.Phase, event, s, want)
	}
}

// When a return is complete, the level of failures is reset only if a replica was moved. If lost nodes cause a fallback, Count and Of are
// the numbers of the losses and not of the refused launches.
func TestEntriesOfPhasesThatDependOnTheirPast(t *testing.T) {
	for moved, level := range map[int64]uint8{99: 2, 100: 0, 500: 0} {
		s := SpotState{Phase: Returning, Level: 2, Since: 100, Moved: moved}
		if s.Apply(ReturnComplete, &SpotInput{At: 1000}); s.Level != level {
			t.Errorf("moved at %d: level %d, want %d", moved, s.Level, level)
		}
	}
	s := SpotState{Level: MaxLevel - 1}
	if s.Apply(SpotFails, &SpotInput{At: 1000, Group: "chat"}); s.Until != 1000+jittered(maxFallback, "chat", MaxLevel).Milliseconds() {
		t.Errorf("the longest fallback ends after %d ms", s.Until-1000)
	}
	s = SpotState{}
	s.Apply(SpotFails, &SpotInput{Failure: explain.CauseLost, Evidence: Evidence{Refused: 1, Attempts: 2, Lost: 3, Nodes: 4}})
	if s.Count != 3 || s.Of != 4 {
		t.Errorf("%+v", s)
	}
}

// All combinations of inputs together must cause exactly the events that the table of Phase lists for each phase.
func TestEveryInputOfThePhasesCausesAnEventOfTheDiagram(t *testing.T) {
	want := [numPhases][]SpotEvent{
		PreferSpot: {SpotUnchanged, PairLost, SpotFails, ReplicasOnDemand},
		Fallback:   {SpotUnchanged, PairLost, FallbackOver, ProbeUseless},
		Probing:    {SpotUnchanged, PairLost, ProbeUseless, ProbeFails, ProbeSucceeds},
		Returning:  {SpotUnchanged, PairLost, SpotFails, ReturnComplete},
	}
	for phase := range numPhases {
		found := map[SpotEvent]bool{}
		for bits := range 1 << 15 {
			is := func(i int) bool { return bits>>i&1 == 1 }
			in := SpotInput{At: 1000, Paired: is(0), Known: is(1), Peak: is(2), WaitOver: is(3), Candidates: is(4), SpotFirst: is(5), Full: is(6),
				Launched: is(7), Settled: is(8), Returnable: is(9), Moving: is(10), Replaced: is(13)}
			if is(11) {
				in.Failure, in.Evidence = explain.CauseRefused, Evidence{Refused: 1, Attempts: 1, Open: is(14)}
			}
			s := SpotState{Phase: phase, Until: 2000}
			if is(12) {
				s.Until = 1000
			}
			found[s.Event(&in)] = true
		}
		for event := range numSpotEvents {
			if found[event] != slices.Contains(want[phase], event) {
				t.Errorf("%v: event %d occurs: %v", phase, event, found[event])
			}
		}
	}
}

func TestEveryStepAndEventOfAMove(t *testing.T) {
	const n, s, a, h = NoMove, Surging, Annotating, Shrinking
	table := [][]MoveStep{
		// one column for each event: MoveUnchanged, WorkloadUnknown, VictimsGone, ForeignAnnotation, SuccessorsReady, SuccessorsRefused,
		// VictimsAnnotated, MoveTimeout, DemandGrew
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

// All combinations of inputs together must cause exactly the events that the table of the type Move lists for each step.
func TestEveryInputOfAMoveCausesAnEventOfItsTable(t *testing.T) {
	want := [numMoveSteps][]MoveEvent{
		NoMove:     {MoveUnchanged},
		Surging:    {MoveUnchanged, WorkloadUnknown, VictimsGone, ForeignAnnotation, SuccessorsReady, SuccessorsRefused},
		Annotating: {MoveUnchanged, WorkloadUnknown, VictimsGone, ForeignAnnotation, VictimsAnnotated, MoveTimeout},
		Shrinking:  {MoveUnchanged, WorkloadUnknown, VictimsGone, ForeignAnnotation, MoveTimeout, DemandGrew},
	}
	for step := range numMoveSteps {
		found := map[MoveEvent]bool{}
		for bits := range 1 << 11 {
			is := func(i int) int32 { return int32(bits >> i & 1) }
			m := Move{Step: step}
			in := MoveInput{Phase: Probing + Phase(is(0)), Known: is(1) == 1, Victims: is(2), Foreign: is(3) == 1, Limit: SettleTime,
				Age: time.Duration(is(4))*time.Hour + time.Duration(is(10))*2*GrowthDelay, Grew: is(5) == 1, Annotated: is(6) == 1, ReadyGone: is(7)}
			in.Came = Successors{Ready: is(7), Refused: is(8), Loading: is(9), Spare: is(5)}
			found[m.Event(&in)] = true
		}
		for event := range numMoveEvents {
			if found[event] != slices.Contains(want[step], event) {
				t.Errorf("step %d: event %d occurs: %v", step, event, found[event])
			}
		}
	}
}

func TestEveryStateAndEventOfTheZeroLimit(t *testing.T) {
	const off, pending, on = ZeroLimitOff, ZeroLimitPending, ZeroLimitOn
	table := [][]ZeroLimitState{
		// one column for each event: demandExists, noDemand, noDemandLong
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
	delay := ZeroLimitDelay.Milliseconds()
	for name, c := range map[string]struct {
		since   int64
		lift    explain.LiftReason
		inForce bool
		want    ZeroLimitState
		after   int64 // the field Since after the event
	}{
		"the first tick without demand":              {0, explain.NotLifted, false, pending, at},
		"one millisecond too early":                  {at - delay + 1, explain.NotLifted, false, pending, at - delay + 1},
		"five minutes without demand":                {at - delay, explain.NotLifted, false, on, at - delay},
		"a limit of the previous leader":             {0, explain.NotLifted, true, on, at},
		"demand after a long time without":           {at - delay, explain.LiftedByPods, true, off, 0},
		"unknown demand counts as demand":            {at - 1, explain.LiftedByUnknownDemand, false, off, 0},
		"a limit in force stays without more demand": {at - 1, explain.NotLifted, true, on, at - 1},
	} {
		z := ZeroLimit{Since: c.since}
		if got := z.Step(ZeroLimitInput{at, c.lift, c.inForce}); got != c.want || z.Since != c.after {
			t.Errorf("%s: state %d since %d, want %d since %d", name, got, z.Since, c.want, c.after)
		}
	}
}

func TestEveryStateAndEventOfTheTargetCap(t *testing.T) {
	const at = int64(1) << 40
	in := TargetCapInput{At: at, Group: "chat"}
	open, capped := TargetCap{Level: 2, Since: 5}, TargetCap{On: true, Level: 2, Since: 5, Until: 9}
	again := TargetCap{On: true, Level: 3, Since: at, Until: at + jittered(4*firstTargetCap, "chat", 3).Milliseconds()}
	for _, row := range [][]TargetCap{
		// each row contains a state, and the next state for each event: targetCapUnchanged, shortage, nodesArrive, demandMet, retryDue
		{open, open, again, open, {Since: at}, open},
		{capped, capped, capped, {Level: 2, Since: at}, {Since: at}, {Level: 2, Since: at, Until: 9}},
	} {
		if len(row) != int(numTargetCapEvents)+1 {
			t.Fatalf("%d columns for %d events", len(row), numTargetCapEvents)
		}
		for event, want := range row[1:] {
			c := row[0]
			if c.Apply(targetCapEvent(event), in); c != want {
				t.Errorf("%+v, event %d: %+v, want %+v", row[0], event, c, want)
			}
		}
	}
	longest := TargetCap{Level: MaxLevel - 1}
	if longest.Apply(shortage, in); longest.Until != at+jittered(MaxTargetCap, "chat", MaxLevel).Milliseconds() {
		t.Errorf("the longest cap ends after %d ms", longest.Until-at)
	}
	long := MaxTargetCap.Milliseconds()
	waits := func(short time.Duration) TargetCapInput {
		return TargetCapInput{At: at, Waiting: true, Closed: true, Short: short}
	}
	for name, c := range map[string]struct {
		state TargetCap
		in    TargetCapInput
		want  targetCapEvent
	}{
		"no pod waits":                         {TargetCap{}, TargetCapInput{At: at}, targetCapUnchanged},
		"no pod waits below a cap":             {capped, TargetCapInput{At: at}, demandMet},
		"the level is remembered for a time":   {TargetCap{Level: 1, Since: at - long}, TargetCapInput{At: at}, targetCapUnchanged},
		"and forgotten then":                   {TargetCap{Level: 1, Since: at - long - 1}, TargetCapInput{At: at}, demandMet},
		"a NodePool is open":                   {open, TargetCapInput{At: at, Waiting: true, Short: time.Hour}, targetCapUnchanged},
		"a NodePool opens":                     {capped, TargetCapInput{At: at, Waiting: true}, nodesArrive},
		"pods wait for less than a minute":     {open, waits(ShortageMinimum - 1), targetCapUnchanged},
		"pods wait for a minute":               {open, waits(ShortageMinimum), shortage},
		"one millisecond before the retry":     {TargetCap{On: true, Until: at + 1}, waits(0), targetCapUnchanged},
		"the retry":                            {TargetCap{On: true, Until: at}, waits(0), retryDue},
		"pods wait long below a cap: no retry": {TargetCap{On: true, Until: at + 1}, waits(time.Hour), targetCapUnchanged},
	} {
		if got := c.state.Event(c.in); got != c.want {
			t.Errorf("%s: event %d, want %d", name, got, c.want)
		}
	}
}

func TestEveryStateAndEventOfTheConsolidationFreeze(t *testing.T) {
	const at = int64(1_795_392_000_000) + 20_000 // 20 s after a full minute
	minute := time.Minute.Milliseconds()
	existing := Freeze{Start: at - 20_000 - 10*minute, Empty: at - 20_000 + 30*minute, InUse: at - 20_000 + 60*minute}
	inputs := map[FreezeState]map[freezeEvent]FreezeInput{
		Thawed: {
			freezeOver:    {at, 0, 0},
			freezeNeeded:  {at, -1, -1}, // this event is possible only if the clock is before 1970
			freezeExtends: {at, at + 5*minute, at + 10*minute},
		},
		Frozen: {
			freezeUnused:  {at, 0, 0},
			freezeOver:    {existing.InUse, 0, 0},
			freezeNeeded:  {at, at + 90*minute, at + 90*minute}, // neither entry ends within FreezeRenewal
			freezeExtends: {at + 26*minute, at + 40*minute, at + 40*minute},
		},
		Ending: {
			freezeUnused:  {at, 0, 0},
			freezeOver:    {at - 1 + minute, 0, 0},
			freezeNeeded:  {at, at + minute, at + minute},
			freezeExtends: {at + 26*minute, at + 40*minute, at + 40*minute},
		},
	}
	unused, still := existing, existing
	unused.Unused, still.Unused = at, at-1
	extended := Freeze{Start: at - 20_000 + 26*minute, Empty: at - 20_000 + 41*minute, InUse: existing.InUse}
	want := map[FreezeState]map[freezeEvent]Freeze{
		Thawed: {freezeExtends: {Start: at - 20_000, Empty: at - 20_000 + 6*minute, InUse: at - 20_000 + 11*minute}},
		Frozen: {freezeUnused: unused, freezeNeeded: existing, freezeExtends: extended},
		Ending: {freezeUnused: still, freezeNeeded: existing, freezeExtends: extended},
	}
	next := map[freezeEvent]FreezeState{freezeUnused: Ending, freezeOver: Thawed, freezeNeeded: Frozen, freezeExtends: Frozen}
	for state := range numFreezeStates {
		for event := range numFreezeEvents {
			if state == Thawed && event == freezeUnused {
				continue // impossible: without freeze entries, the event is freezeOver
			}
			in, listed := inputs[state][event]
			if !listed {
				t.Fatalf("no row for state %d, event %d", state, event)
			}
			h := map[FreezeState]Freeze{Frozen: existing, Ending: still}[state]
			if got := h.event(in); got != event {
				t.Errorf("state %d: event %d, want %d", state, got, event)
			}
			if got := h.Step(in); got != next[event] || h != want[state][event] {
				t.Errorf("state %d, event %d: state %d, %+v, want %d, %+v", state, event, got, h, next[event], want[state][event])
			}
		}
	}
	h := Freeze{}
	if h.Step(FreezeInput{at, 0, at + 10*time.Hour.Milliseconds()}); h.InUse != UpToMinute(at+maxFreeze.Milliseconds()) {
		t.Errorf("an entry of %v", time.Duration(h.InUse-h.Start)*time.Millisecond)
	}
}

func TestEveryStateOfAPodAnnotation(t *testing.T) {
	type annotation struct {
		value string
		ours  bool
	}
	for name, c := range map[string]struct {
		current annotation
		needed  string
		state   AnnotationState
		writes  bool
	}{
		"absent, none needed":             {annotation{}, "", AnnotationAbsent, false},
		"absent, a value needed":          {annotation{}, "5", AnnotationAbsent, true},
		"empty and ours, a value needed":  {annotation{ours: true}, "5", AnnotationAbsent, true},
		"empty and ours, none needed":     {annotation{ours: true}, "", AnnotationAbsent, false},
		"of another manager, none needed": {annotation{value: "5"}, "", AnnotationForeign, false},
		"of another manager, equal":       {annotation{value: "5"}, "5", AnnotationForeign, false},
		"of another manager, different":   {annotation{value: "5"}, "6", AnnotationForeign, false},
		"ours, equal":                     {annotation{"5", true}, "5", AnnotationEqual, false},
		"ours, different":                 {annotation{"5", true}, "6", AnnotationDifferent, true},
		"ours, none needed":               {annotation{"5", true}, "", AnnotationDifferent, true},
	} {
		state := CompareAnnotation(c.current.value, c.current.ours, c.needed)
		if state != c.state || state.NeedsWrite(c.needed) != c.writes {
			t.Errorf("%s: state %d, writes %v", name, state, state.NeedsWrite(c.needed))
		}
	}
	writes := [][2]bool{ // for each state, whether to write: if no value is needed, and if a value is needed
		AnnotationAbsent: {false, true}, AnnotationForeign: {}, AnnotationEqual: {}, AnnotationDifferent: {true, true},
	}
	if len(writes) != int(numAnnotationStates) {
		t.Fatalf("%d rows for %d states", len(writes), numAnnotationStates)
	}
	for state, want := range writes {
		if s := AnnotationState(state); s.NeedsWrite("") != want[0] || s.NeedsWrite("5") != want[1] {
			t.Errorf("state %d: %v and %v, want %v", s, s.NeedsWrite(""), s.NeedsWrite("5"), want)
		}
	}
}

func TestEveryStateOfABuffer(t *testing.T) {
	for _, c := range []struct {
		in   BufferInput
		want BufferAction
	}{
		{BufferInput{0, 0, false}, KeepBuffer}, {BufferInput{0, 0, true}, KeepBuffer},
		{BufferInput{2, 2, false}, KeepBuffer}, {BufferInput{2, 2, true}, KeepBuffer},
		{BufferInput{0, 2, false}, WriteBuffer}, {BufferInput{0, 2, true}, KeepBuffer},
		{BufferInput{3, 2, false}, WriteBuffer}, {BufferInput{3, 2, true}, KeepBuffer},
		{BufferInput{2, 0, false}, RemoveBuffer}, {BufferInput{2, 0, true}, KeepBuffer},
	} {
		if got := c.in.Action(); got != c.want {
			t.Errorf("%+v: action %d, want %d", c.in, got, c.want)
		}
	}
}

// While the owner's limit allows no spot node, a probe that has launched no node must end at once. A probe that has launched a node must
// continue until this node fails or proves that spot is available.
func TestOwnersLimitEndsAProbeWithoutANode(t *testing.T) {
	for launched, want := range map[bool]SpotEvent{false: ProbeUseless, true: SpotUnchanged} {
		s := SpotState{Phase: Probing, Until: 2000}
		in := SpotInput{At: 1000, Paired: true, Candidates: true, Full: true, Launched: launched, Evidence: Evidence{Attempts: 1}}
		if got := s.Event(&in); got != want {
			t.Errorf("launched %v: event %d, want %d", launched, got, want)
		}
	}
}
