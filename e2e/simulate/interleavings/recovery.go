package main

// recovery is the time without faults after a state: three minutes in steps of 10 s, and then 35 minutes. A group without demand needs 5
// minutes before an override, and 10 minutes after an edit of the owner, so this time is sufficient.
const (
	shortRounds = 18
	longRounds  = 7
	allRounds   = shortRounds + longRounds
)

// recovers checks the invariants for the case that no more faults occur. If there is a late request, it checks two cases: the API server
// executes the request first, or never.
func (m *model) recovers(s *state) error {
	if s.late.exists {
		first := s.clone()
		if err := m.lateArrives(first); err != nil {
			return err
		}
		first.normalize()
		if err := m.recoverFrom(first); err != nil {
			return err
		}
	}
	never := s.clone()
	never.late = lateRequest{}
	return m.recoverFrom(never)
}

// recoverFrom runs the rounds of a recovery. It ends early if an earlier recovery has already run the remaining rounds from the same state,
// without a violation.
func (m *model) recoverFrom(s *state) error {
	var passed []uint64
	for n := range allRounds {
		key, _ := s.key()
		at := hash(append(key, byte(n)))
		if m.recovered.has(at) {
			break
		}
		passed = append(passed, at)
		wrote, err := m.round(s)
		if err == nil {
			err = m.afterRound(s, n, wrote)
		}
		if err != nil {
			return err
		}
		by := shortStep
		if n >= shortRounds {
			by = longStep
		}
		m.pass(s, by, true)
		s.normalize()
	}
	for _, at := range passed {
		m.recovered.add(at)
	}
	return nil
}

// afterRound checks the invariants that must hold after round n of a recovery. wrote is true if this round changed the NodePool.
func (m *model) afterRound(s *state, n int, wrote bool) error {
	if !s.live.exists() {
		return nil
	}
	f, owners := m.facts(s.live), limits[s.owner.limit]
	mayWrite := f.consent&consentLimits != 0
	restores := mayWrite && (!s.policy || f.consent != consentLimits)
	late := n == shortRounds-1 || n == allRounds-1
	switch {
	case late && restores && (!s.owner.has(f.limit) || f.on || f.ours && f.record == ""):
		return violated(restored, "the limit is %s, its owner's limit is %s, and the record is %s", text(f.limit), owners, text(f.record))
	case late && restores && !s.policy && (f.record != "" || f.ours):
		return violated(restored, "the record is %s, and gpuscaler owns a field: %t", text(f.record), f.ours)
	case late && mayWrite && s.demand && !s.owner.has(f.limit):
		return violated(demandServed, "the limit is %s, and its owner's limit is %s", text(f.limit), owners)
	case n == allRounds-1 && mayWrite && !restores && !s.demand && f.limit != overrideLimit && f.counted < 3:
		return violated(overridesAgain, "the limit is %s, and the record is %s", text(f.limit), text(f.record))
	case n == allRounds-1 && wrote:
		return violated(quiet, "the last round changed the NodePool")
	}
	return nil
}

// round runs both replicas without faults. A process that has ended starts again, the caches and files become current, one replica leads,
// and each of its ticks writes at once. round reports whether the NodePool changed.
func (m *model) round(s *state) (wrote bool, err error) {
	before := s.live
	for i := range s.replicas {
		if !s.replicas[i].up {
			s.replicas[i] = replica{up: true, renewed: expiredAge}
		}
	}
	for range 4 { // the end of an override takes several ticks
		for i := range s.replicas {
			r := &s.replicas[i]
			if err = m.completeWrites(s, i); err != nil {
				return false, err
			}
			r.cached, r.seesDemand, r.seesPolicy = s.live, s.demand, s.policy
			if r.leads && (!r.leading() || s.holder != int8(i)) {
				r.leads, r.renewed, r.memory, r.remembers = false, expiredAge, 0, 0
			}
			if !r.leads && (s.holder < 0 || s.holder == int8(i) || s.leaseAge >= expiredAge) {
				s.holder, s.leaseAge, r.leads, r.renewed = int8(i), 0, true, 0
			}
			if r.leads {
				m.decide(s, r)
				if err = m.completeWrites(s, i); err != nil {
					return false, err
				}
			}
		}
	}
	return s.live != before, m.check(s)
}

// completeWrites sends the writes of a replica. Each request succeeds at once.
func (m *model) completeWrites(s *state, who int) error {
	r := &s.replicas[who]
	for len(r.writes) > 0 {
		switch w := &r.writes[0]; w.progress {
		case notSent:
			m.proceed(r)
		case inFlight:
			if err := m.apiServerExecutes(s, int8(who), w); err != nil {
				return err
			}
		default:
			m.receives(r, w.answer)
		}
	}
	return nil
}
