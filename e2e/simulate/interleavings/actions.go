package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/e2e/simulate/apiserver"
)

// action is one step of the model. For an action of a replica, the field who is the index of the replica. For an edit by the owner, who is
// the index of the new value in limits or consents. All other actions ignore it.
type action struct {
	kind, who uint8
}

// Values of action.kind. The values before ownerLimit are actions of a replica.
const (
	seePool     uint8 = iota // the watch delivers the NodePool
	seePods                  // the watch delivers the creation or deletion of the pod
	seeFiles                 // the policy files are loaded
	decides                  // a tick that sends the first request of its patch
	decidesOnly              // a tick that does not send its patch yet
	begins                   // the replica sends the next patch
	succeeds                 // the API server executes the request, and the client receives the answer
	arrives                  // the API server executes the request, and the client has not received the answer yet
	answers                  // the client receives the answer to a request that was executed before
	refused                  // the request is lost or refused (429, 500), and the client receives an error
	timesOut                 // the client receives a timeout, and the API server can execute the request later
	answerLost               // the API server has executed the request, but the client receives a timeout
	crashes
	restarts
	acquires  // the process writes the Lease
	stepsDown // the process detects that it no longer leads
	ownerLimit
	ownerConsent
	ownerDelete
	ownerCreate
	karpenterWrite
	demandChanges
	policyChanges
	lateArrives // the API server executes a request whose client no longer waits
	timeRenewed // 10 s pass, and the leader renews the Lease
	timeStalled // 10 s pass, and no process writes the Lease
	timeLong    // 5 min pass, and a leader that runs renews the Lease
)

const (
	shortStep = 10 * time.Second
	longStep  = 5 * time.Minute
	// editWait is how long gpuscaler does not override a field after its owner edited it during an override, in steps of 10 s.
	editWait = 60
	// mostWrites is the maximum number of writes in the queue replica.writes.
	mostWrites = 2
)

// enabled returns the actions that are possible in a state.
func (m *model) enabled(s *state) []action {
	all := make([]action, 0, 32)
	for who := range s.replicas {
		all = m.enabledOf(s, uint8(who), all)
	}
	add := func(possible bool, kind, who uint8) {
		if possible {
			all = append(all, action{kind, who})
		}
	}
	exists := s.live.exists()
	for i := range limits {
		add(exists && m.facts(s.live).limit != limits[i], ownerLimit, uint8(i))
	}
	for i := range consents {
		add(exists && m.consentIndex(s.live) != i, ownerConsent, uint8(i))
	}
	add(exists, ownerDelete, 0)
	add(!exists, ownerCreate, 0)
	add(exists, karpenterWrite, 0)
	add(true, demandChanges, 0)
	add(true, policyChanges, 0)
	add(s.late.exists, lateArrives, 0)
	short := !s.waitsForAnswer(func(w *write) bool { return w.old })
	add(short, timeRenewed, 0)
	add(short, timeStalled, 0)
	add(s.mayWaitLong(), timeLong, 0)
	return all
}

// enabledOf appends the possible actions of a replica to all.
func (m *model) enabledOf(s *state, who uint8, all []action) []action {
	r := &s.replicas[who]
	add := func(possible bool, kind uint8) {
		if possible {
			all = append(all, action{kind, who})
		}
	}
	if !r.up {
		add(true, restarts)
		return all
	}
	add(r.cached != s.live, seePool)
	add(r.seesDemand != s.demand, seePods)
	add(r.seesPolicy != s.policy, seeFiles)
	add(r.leads && len(r.writes) < mostWrites, decides)
	add(r.leads && len(r.writes) < mostWrites && m.writesNow(r), decidesOnly)
	if len(r.writes) > 0 {
		progress := r.writes[0].progress
		add(progress == notSent, begins)
		add(progress == inFlight, succeeds)
		add(progress == inFlight, arrives)
		add(progress == inFlight, refused)
		add(progress == inFlight && !s.late.exists, timesOut)
		add(progress == applied, answers)
		add(progress == applied, answerLost)
	}
	add(true, crashes)
	free := s.holder < 0 || s.holder == int8(who) || s.leaseAge >= expiredAge
	add(!r.leads && free, acquires)
	add(r.leads && (r.renewed > 0 || s.holder != int8(who)), stepsDown)
	return all
}

// writesNow reports whether a tick of the replica would have a patch that the replica sends at once.
func (m *model) writesNow(r *replica) bool {
	return r.leading() && r.cached.exists() && len(r.writes) == 0 && m.tickOf(r).patch != 0
}

func (m *model) tickOf(r *replica) ticked {
	same := r.remembers == r.cached.uid
	return m.tick(observed{r.memory, r.cached.content, r.seesDemand, r.seesPolicy, same || r.memory == 0})
}

// waitsForAnswer reports whether a process waits for the answer to a request that meets the condition.
func (s *state) waitsForAnswer(condition func(w *write) bool) bool {
	for i := range s.replicas {
		w := s.replicas[i].writes
		if len(w) > 0 && w[0].progress != notSent && condition(&w[0]) {
			return true
		}
	}
	return false
}

// mayWaitLong reports whether 5 minutes can pass: each request must have timed out, and each running process must have sent its writes.
func (s *state) mayWaitLong() bool {
	return !s.waitsForAnswer(func(*write) bool { return true }) &&
		!slices.ContainsFunc(s.replicas[:], func(r replica) bool { return r.leading() && len(r.writes) > 0 })
}

// do returns the state after an action. It returns an error if the action violates an invariant.
func (m *model) do(before *state, a action) (s *state, err error) {
	s = before.clone()
	switch {
	case a.kind < ownerLimit:
		err = m.replicaActs(s, a)
	case a.kind == lateArrives:
		err = m.lateArrives(s)
	default:
		m.othersAct(s, a)
	}
	if err == nil {
		err = m.check(s)
	}
	s.normalize()
	return s, err
}

// replicaActs performs an action of a replica.
func (m *model) replicaActs(s *state, a action) (err error) {
	r := &s.replicas[a.who]
	switch a.kind {
	case seePool:
		r.cached = s.live
	case seePods:
		r.seesDemand = s.demand
	case seeFiles:
		r.seesPolicy = s.policy
	case decides, decidesOnly:
		m.decide(s, r)
		if a.kind == decides && len(r.writes) == 1 && r.writes[0].progress == notSent {
			m.proceed(r)
		}
	case begins:
		m.proceed(r)
	case succeeds, arrives:
		err = m.apiServerExecutes(s, int8(a.who), &r.writes[0])
		if a.kind == succeeds {
			m.receives(r, r.writes[0].answer)
		}
	case answers:
		m.receives(r, r.writes[0].answer)
	case refused, answerLost:
		m.receives(r, input{kind: answerTimeout})
	case timesOut:
		s.keepRequest(int8(a.who), r.writes[0])
		m.receives(r, input{kind: answerTimeout})
	case crashes:
		if len(r.writes) > 0 && r.writes[0].progress == inFlight && !s.late.exists {
			s.keepRequest(int8(a.who), r.writes[0])
		}
		*r = replica{renewed: expiredAge}
	case restarts:
		*r = replica{up: true, renewed: expiredAge, cached: s.live, seesDemand: s.demand, seesPolicy: s.policy}
	case acquires:
		s.holder, s.leaseAge, r.leads, r.renewed = int8(a.who), 0, true, 0
	case stepsDown:
		r.leads, r.renewed, r.memory, r.remembers = false, expiredAge, 0, 0
	}
	return err
}

// keepRequest stores a request that is in transit although its client no longer waits for the answer.
func (s *state) keepRequest(sender int8, w write) {
	w.inputs = slices.Clone(w.inputs)
	s.late = lateRequest{exists: true, sender: sender, write: w}
}

// decide runs a tick of a replica. If the Lease of the replica has expired, the replica writes nothing. In the product, package cluster
// ensures this.
func (m *model) decide(s *state, r *replica) {
	if s.owner.unseen && r.cached.exists() && r.cached.serial >= s.owner.edit {
		if s.owner.unseen = false; r.memory == 0 || m.override(r).InForce() {
			s.owner.waits = editWait
		}
	}
	out := m.tickOf(r)
	if r.memory, r.remembers = out.memory, 0; r.memory != 0 {
		r.remembers = r.cached.uid
	}
	if out.patch != 0 && r.leading() && r.cached.exists() {
		r.writes = append(r.writes, write{patch: out.patch, base: r.cached})
	}
}

// receives passes an answer to the first write of a replica, and continues this write.
func (m *model) receives(r *replica, answer input) {
	w := &r.writes[0]
	w.inputs = append(w.inputs, answer)
	m.proceed(r)
}

// proceed runs the first write of a replica until the write sends a request or ends.
func (m *model) proceed(r *replica) {
	w := &r.writes[0]
	next := m.next(w, r.leading(), r.cached)
	if next.request == nil {
		r.writes = slices.Delete(r.writes, 0, 1)
		return
	}
	w.inputs = append(w.inputs, next.added...)
	w.progress, w.answer, w.old = inFlight, input{}, false
}

// requestOf returns the next request of a write: the first one that the API server has not executed.
func (m *model) requestOf(w *write) *apiserver.Request { return m.next(w, true, version{}).request }

// apiServerExecutes executes the next request of a write.
func (m *model) apiServerExecutes(s *state, sender int8, w *write) error {
	before := s.live
	w.answer = m.execute(m.requestOf(w), before)
	w.progress = applied
	if w.answer.kind != answerObject {
		return nil
	}
	s.live = w.answer.version
	return m.checkWrite(s, sender, w, before)
}

// lateArrives executes a request whose client no longer waits for the answer.
func (m *model) lateArrives(s *state) error {
	late := s.late
	s.late = lateRequest{}
	late.write.old = true
	return m.apiServerExecutes(s, late.sender, &late.write)
}

// othersAct performs an action of the owner or of Karpenter, or advances time.
func (m *model) othersAct(s *state, a action) {
	switch a.kind {
	case ownerLimit:
		m.ownerSets(s, a.who)
	case ownerConsent:
		m.ownerConsents(s, consents[a.who])
	case ownerDelete:
		s.ownerDeletes()
	case ownerCreate:
		m.ownerCreates(s)
	case karpenterWrite:
		m.karpenterWrites(s)
	case demandChanges:
		s.demand = !s.demand
	case policyChanges:
		s.policy, s.owner.waits, s.owner.unseen = !s.policy, 0, false
	case timeRenewed:
		m.pass(s, shortStep, true)
	case timeStalled:
		m.pass(s, shortStep, false)
	case timeLong:
		m.pass(s, longStep, true)
		s.late = lateRequest{}
	default:
		panic(fmt.Sprintf("action %d", a.kind))
	}
}

// pass advances time. If renews is true, the leader renews its Lease, unless the Lease has expired.
func (m *model) pass(s *state, by time.Duration, renews bool) {
	steps := int8(min(by/shortStep, expiredAge))
	s.leaseAge = min(s.leaseAge+steps, expiredAge)
	for i := range s.replicas {
		r := &s.replicas[i]
		if renews && r.leading() && s.holder == int8(i) {
			s.leaseAge, r.renewed = 0, 0
		} else {
			r.renewed = min(r.renewed+steps, expiredAge)
		}
		r.memory = m.agedMemory(r.memory, by)
		for j := range r.writes {
			m.ageWrite(&r.writes[j], by)
		}
	}
	if s.late.exists {
		m.ageWrite(&s.late.write, by)
	}
	s.versions(func(v *version) { v.content = m.agedContent(v.content, by) })
	s.owner.waits = int8(max(int(s.owner.waits)-int(by/shortStep), 0))
}

func (m *model) ageWrite(w *write, by time.Duration) {
	w.patch = m.agedPatch(w.patch, by)
	w.old = w.old || w.progress != notSent
}
