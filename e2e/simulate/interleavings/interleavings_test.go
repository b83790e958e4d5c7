package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// testDepth is the number of actions that `go test` explores from each initial state. This takes about a second of CPU time.
const testDepth = 3

func TestEveryOrderOfActions(t *testing.T) {
	m := newModel()
	for i := range numBeginnings {
		from := m.beginning(i)
		e := start(m, from.state)
		for e.depth < testDepth && e.found.Load() == nil {
			e.deepen()
		}
		if f := e.found.Load(); f != nil {
			var text strings.Builder
			m.report(&text, from, f)
			t.Fatal(text.String())
		}
		// with fewer states, the exploration would not have run all actions
		if e.states < 500 || e.transitions.Load() < 2*e.states {
			t.Errorf("%s: %d states and %d transitions within %d actions", from.name, e.states, e.transitions.Load(), testDepth)
		}
	}
	if m.writes.len() < 50 || m.ticks.len() < 1000 {
		t.Errorf("%d executed requests and %d decisions", m.writes.len(), m.ticks.len())
	}
}

// pastViolations contains sequences of actions that once violated an invariant.
var pastViolations = map[string]struct {
	from    int // index of the initial state of the actions (the argument of model.beginning)
	actions []action
}{
	"the owner sets the override's limit while a restore of an override begins that was not written": {0, []action{
		{decides, 0}, {ownerConsent, 2}, {seePool, 0}, {decides, 0}, {ownerLimit, 2}}},
	"the owner replaces the NodePool by one with the override's limit between two ticks": {1, []action{
		{ownerDelete, 0}, {ownerCreate, 0}, {ownerLimit, 2}, {ownerConsent, 2}}},
	"the owner sets another limit and then the override's limit between two ticks": {1, []action{
		{ownerLimit, 1}, {ownerLimit, 2}, {demandChanges, 0}}},
	"the same while the consent is withdrawn": {1, []action{
		{ownerConsent, 1}, {ownerLimit, 1}, {ownerLimit, 2}, {seePool, 0}, {decides, 0}, {ownerConsent, 0}, {demandChanges, 0}}},
	"the owner sets the override's limit, and withdraws the consent before the write": {0, []action{
		{ownerLimit, 2}, {ownerConsent, 1}, {decidesOnly, 0}, {seePool, 0}, {decides, 0}, {ownerConsent, 2}}},
	"the owner withdraws the consent after a restore was sent": {1, []action{
		{policyChanges, 0}, {seeFiles, 0}, {decides, 0}, {ownerConsent, 1}, {seePool, 0}}},
}

func TestPastViolations(t *testing.T) {
	for name, v := range pastViolations {
		m := newModel()
		from := m.beginning(v.from)
		f := finding{path: v.actions, recovery: true}
		if f.violation = m.recovers(m.after(from.state, v.actions...)); f.violation != nil {
			var text strings.Builder
			m.report(&text, from, &f)
			t.Errorf("%s: %s", name, &text)
		}
	}
}

// TestViolationsAreFound shows that a violation is detected. It removes the resourceVersion from a request that was sent, edits the limit
// as the owner, and executes the request.
func TestViolationsAreFound(t *testing.T) {
	m := newModel()
	s := m.after(m.beginning(0).state, action{kind: decides}, action{ownerLimit, 1})
	w := &s.replicas[0].writes[0]
	m.requestOf(w).Apply.SetResourceVersion("")
	err := m.apiServerExecutes(s, 0, w)
	var v *violation
	if !errors.As(err, &v) || v.invariant != newestWritten {
		t.Errorf("got %v, want a violation of %q", err, newestWritten)
	}
	s = m.after(m.beginning(0).state, action{kind: decides})
	s.holder = 1
	if err := m.apiServerExecutes(s, 0, &s.replicas[0].writes[0]); !errors.As(err, &v) || v.invariant != leaderWrites {
		t.Errorf("got %v, want a violation of %q", err, leaderWrites)
	}
}

// TestTimeIsRelative moves the stored times into the past instead of advancing the clock. It checks that the decisions are the same as with
// a later clock. For example, an override that is written five minutes later has the same effect, and a record contains the time of the
// write.
func TestTimeIsRelative(t *testing.T) {
	m := newModel()
	s := m.after(m.beginning(1).state, action{kind: timeLong}, action{kind: timeRenewed})
	before, after := m.facts(m.beginning(1).state.live), m.facts(s.live)
	if got := earlier(before.record, longStep+shortStep); got != after.record || got == before.record {
		t.Errorf("record %s became %s", before.record, after.record)
	}
	if earlier("1800000000000 at 17", time.Second) != "1799999999000 at 17" {
		t.Error("a time in a text was not moved")
	}
	o := m.override(&s.replicas[0])
	if want := present.Add(-2*longStep - shortStep).UnixMilli(); o.Since != want || !o.Seen {
		t.Errorf("the override is %+v, want one since %d", o, want)
	}
}

func TestExchangedReplicasAreOneState(t *testing.T) {
	m := newModel()
	s := m.after(m.beginning(1).state, action{kind: demandChanges}, action{seePods, 0}, action{kind: decides})
	key, _ := s.key()
	exchanged, swapped := s.swapped().key()
	other, _ := decode(exchanged).key()
	if string(key) != string(exchanged) || string(other) != string(key) {
		t.Errorf("keys %x and %x, exchanged: %t", key, exchanged, swapped)
	}
}
