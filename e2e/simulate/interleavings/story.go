package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// beginning is an initial state of an exploration, with a name for the output.
type beginning struct {
	name  string
	state *state
}

// numBeginnings is the number of states from which explorations begin: before an override, during the override, and after the decision to
// end the override.
const numBeginnings = 3

// beginning returns the nth state from which an exploration begins. The first replica leads in each of these states.
func (m *model) beginning(n int) beginning {
	first := version{content: m.created, serial: 1, generation: 1, uid: 1}
	s := &state{live: first, holder: 0, policy: true, owner: owner{edit: 1}}
	for i := range s.replicas {
		s.replicas[i] = replica{up: true, renewed: expiredAge, cached: first, seesPolicy: true}
	}
	s.replicas[0].leads, s.replicas[0].renewed = true, 0
	m.decide(s, &s.replicas[0])
	s = m.after(s, action{kind: timeLong})
	if n == 0 {
		return beginning{"before the override", s}
	}
	for s = m.after(s, action{kind: decides}); len(s.replicas[0].writes) > 0; {
		s = m.after(s, action{kind: succeeds})
	}
	s = m.after(s, action{seePool, 0}, action{seePool, 1}, action{kind: decides}, action{kind: timeLong})
	if n == 1 {
		return beginning{"the limit is overridden", s}
	}
	s = m.after(s, action{kind: demandChanges}, action{seePods, 0}, action{seePods, 1}, action{kind: decidesOnly})
	return beginning{"the leader has decided to restore the limit", s}
}

// after returns the state after the given actions, which must violate no invariant.
func (m *model) after(s *state, all ...action) *state {
	for _, a := range all {
		next, err := m.do(s, a)
		if err != nil {
			panic(err)
		}
		s = next
	}
	return s
}

var replicaNames = [2]string{"A", "B"}

// sentences contains the description of each kind of action, as a format string.
var sentences = [...]string{
	seePool: "the watch of %s delivers the NodePool", seePods: "the watch of %s delivers the change of the pod",
	seeFiles: "%s loads the policy files", decides: "%s runs a tick", decidesOnly: "%s runs a tick and stalls before the write",
	begins: "%s begins the next write", succeeds: "the API server executes the request of %s, which receives the answer",
	arrives: "the API server executes the request of %s, and the answer is delayed", answers: "%s receives the answer",
	refused: "the request of %s is lost or refused", timesOut: "%s stops to wait for its request, which is still on its way",
	answerLost: "the answer to %s is lost", crashes: "%s is killed", restarts: "%s starts again",
	acquires: "%s writes the Lease and leads", stepsDown: "%s observes that it no longer leads",
	ownerLimit: "the owner sets the limit to %s", ownerConsent: "the owner sets the consent to %q",
	ownerDelete: "the owner deletes the NodePool", ownerCreate: "the owner creates the NodePool again",
	karpenterWrite: "Karpenter writes the NodePool",
	demandChanges:  "a pod is created or deleted", policyChanges: "the group is removed from the policy files or added",
	lateArrives: "the API server executes a request whose client does not wait any more",
	timeRenewed: "10 s pass, and the leader renews the Lease", timeStalled: "10 s pass, and no process writes the Lease",
	timeLong: "5 min pass",
}

// sentence returns the description of an action. If swapped is true, it exchanges the names of the replicas.
func (a action) sentence(swapped bool) string {
	text := sentences[a.kind]
	switch {
	case a.kind == ownerLimit:
		return fmt.Sprintf(text, limits[a.who])
	case a.kind == ownerConsent:
		return fmt.Sprintf(text, consents[a.who])
	case strings.Contains(text, "%s"):
		who := int(a.who)
		if swapped {
			who = 1 - who
		}
		return fmt.Sprintf(text, replicaNames[who])
	}
	return text
}

// report prints the actions of a finding, each with the change that it caused.
func (m *model) report(out io.Writer, from beginning, f *finding) {
	v := &violation{text: f.violation.Error()}
	errors.As(f.violation, &v)
	_, _ = fmt.Fprintf(out, "violated: %s\n  %s\n  %d actions after the state %q:\n", v.invariant, v.text, len(f.path), from.name)
	s, swapped := from.state, false
	_, _ = fmt.Fprintf(out, "       %s\n", m.describe(s, swapped))
	for i, a := range f.path {
		key, exchanged := s.key()
		s, swapped = decode(key), swapped != exchanged
		next, _ := m.do(s, a)
		line := a.sentence(swapped)
		if a.kind == decides || a.kind == decidesOnly {
			line += m.decision(&s.replicas[a.who])
		}
		_, _ = fmt.Fprintf(out, "  %2d.  %s\n", i+1, line)
		if after := m.describe(next, swapped); after != m.describe(s, swapped) {
			_, _ = fmt.Fprintf(out, "       %s\n", after)
		}
		s = next
	}
	if f.recovery {
		_, _ = fmt.Fprintf(out, "  then no more faults happen\n")
	}
}

// decision returns a description of the patch that a tick of the replica would write.
func (m *model) decision(r *replica) string {
	id := m.tickOf(r).patch
	if id == 0 {
		return ", which writes nothing"
	}
	p := m.patches.at(id)
	return ": " + strings.TrimSpace(strings.ReplaceAll(p.Text(), "\n", "; "))
}

// describe returns the parts of a state that the invariants compare.
func (m *model) describe(s *state, swapped bool) string {
	pool := "deleted"
	if s.live.exists() {
		f := m.facts(s.live)
		pool = fmt.Sprintf("limit %s, consent %q, record %s", text(f.limit), f.consent, text(f.record))
		if f.ours {
			pool += ", gpuscaler owns fields"
		}
	}
	holder := "none"
	if s.holder >= 0 {
		at := int(s.holder)
		if swapped {
			at = 1 - at
		}
		holder = replicaNames[at]
		if s.leaseAge >= expiredAge {
			holder += " (expired)"
		}
	}
	return fmt.Sprintf("[NodePool: %s; owner's limit %s; pod waits: %t; group: %t; Lease: %s]", pool, limits[s.owner.limit], s.demand,
		s.policy, holder)
}
