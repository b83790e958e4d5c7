package statemachine

import (
	"slices"
	"testing"
	"time"
)

func TestEveryStepAndEventOfASurge(t *testing.T) {
	const n, a, r, w = NoSurge, SurgeAsked, SurgeReplacing, SurgeResting
	table := [][]SurgeStep{
		// one column for each event: SurgeUnchanged, SurgeNotNeeded, SurgePodGone, SurgeNodeStays, SurgeNoCapacity, SurgeReady,
		// SurgeTimeout
		n: {n, n, n, n, n, n, n},
		a: {a, n, w, w, w, r, w},
		r: {r, n, n, w, r, r, w},
		w: {w, n, w, w, w, w, n},
	}
	if len(table) != int(numSurgeSteps) {
		t.Fatalf("%d rows for %d steps", len(table), numSurgeSteps)
	}
	for step, row := range table {
		if len(row) != int(numSurgeEvents) {
			t.Fatalf("step %d: %d columns for %d events", step, len(row), numSurgeEvents)
		}
		for event, want := range row {
			s := Surge{Step: SurgeStep(step), Workload: "a/b", Until: 900}
			s.Apply(SurgeEvent(event), 1000)
			if s.Step != want || (want == NoSurge && step != 0) != (s == Surge{} && step != 0) {
				t.Errorf("step %d, event %d: %+v, want step %d", step, event, s, want)
			}
			if s.Step != w || step == int(w) {
				continue
			}
			failed := SurgeEvent(event) == SurgeTimeout || SurgeEvent(event) == SurgeNoCapacity
			if s.Expired != (failed && step == int(a)) {
				t.Errorf("step %d, event %d: expired %t", step, event, s.Expired)
			}
			until := int64(900) // the end of the time limit
			if failed {
				until = 1000 + SurgeRest.Milliseconds()
			}
			if s.Until != until {
				t.Errorf("step %d, event %d: rests until %d, want %d", step, event, s.Until, until)
			}
		}
	}
}

// All combinations of inputs together must cause exactly the events that the table of the type Surge lists for each step.
func TestEveryInputOfASurgeCausesAnEventOfItsTable(t *testing.T) {
	want := [numSurgeSteps][]SurgeEvent{
		NoSurge:        {SurgeUnchanged},
		SurgeAsked:     {SurgeUnchanged, SurgeNotNeeded, SurgePodGone, SurgeNodeStays, SurgeNoCapacity, SurgeReady, SurgeTimeout},
		SurgeReplacing: {SurgeUnchanged, SurgeNotNeeded, SurgePodGone, SurgeNodeStays, SurgeTimeout},
		SurgeResting:   {SurgeUnchanged, SurgeTimeout},
	}
	for step := range numSurgeSteps {
		found := map[SurgeEvent]bool{}
		for bits := range 1 << 7 {
			is := func(i int) bool { return bits>>i&1 == 1 }
			in := SurgeInput{At: time.Hour.Milliseconds(), Needed: is(0), Exists: is(1), Threatened: is(2), Marked: is(3), Blocked: is(4)}
			s := Surge{Step: step, Until: in.At + 1}
			if is(5) {
				s.Until = in.At
			}
			if is(6) {
				s.Ready = in.At - SurgeSettle.Milliseconds()
			}
			found[s.Event(&in)] = true
		}
		for event := range numSurgeEvents {
			if found[event] != slices.Contains(want[step], event) {
				t.Errorf("step %d: event %d occurs: %v", step, event, found[event])
			}
		}
	}
}

// A replica that is ready for less than SurgeSettle does not replace the old replica. When it is ready again, SurgeSettle begins again.
func TestSuccessorMustStayReady(t *testing.T) {
	s := Surge{Step: SurgeAsked, Until: time.Hour.Milliseconds()}
	in := SurgeInput{Needed: true, Exists: true, Threatened: true, Marked: true}
	for _, c := range []struct {
		at    time.Duration
		ready bool
		want  SurgeStep
	}{
		{time.Second, true, SurgeAsked}, {20 * time.Second, true, SurgeAsked}, {21 * time.Second, false, SurgeAsked},
		{22 * time.Second, true, SurgeAsked}, {51 * time.Second, true, SurgeAsked}, {52 * time.Second, true, SurgeReplacing},
	} {
		in.At, in.Replaced = c.at.Milliseconds(), c.ready
		if s.Advance(&in); s.Step != c.want {
			t.Errorf("after %v: step %d, want %d", c.at, s.Step, c.want)
		}
	}
}

// A surge adds at most one replica. If demand adds a replica during the surge, this replica can be the successor, so the surge adds none.
func TestSurgeAddsOneReplicaAtMost(t *testing.T) {
	for step := range numSurgeSteps {
		s := Surge{Step: step, Size: 2}
		for needs, want := range []int32{0, 1, 0, 0} {
			if step != SurgeAsked {
				want = 0
			}
			if got := s.Extra(int32(needs)); got != want {
				t.Errorf("step %d, %d needed: %d added, want %d", step, needs, got, want)
			}
		}
	}
}
