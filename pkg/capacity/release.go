package capacity

// letGo wants nothing: write puts every field back, marks clears every mark.
func (t *tick) letGo() {
	s := t.s
	s.move, s.zeroSince, s.capped, s.pace, s.reserve = move{}, 0, cappedState{}, pace{}, reserve{}
	if s.spot != (spotState{}) {
		s.spot = spotState{}
		s.touch()
	}
	for i := range s.pools {
		p := &s.pools[i]
		for f := range p.nudges {
			if n := &p.nudges[f]; !n.on && n.overwrites > 0 {
				*n, p.stale = nudge{}, true
			}
		}
	}
	for i := range t.o.Workloads {
		t.setBuffer(&t.o.Workloads[i], 0)
	}
	t.because(Reason{Rule: RuleRelease, Pool: -1})
}

// repeats reports whether a write at the given time is sent again because no observation shows it.
func (t *tick) repeats(at int64) bool {
	interval := resend
	if t.leaving {
		interval = resendAtShutdown
	}
	return t.at-at >= interval.Milliseconds()
}

// LimitsPending reports whether a limit of a NodePool still has a value of ours, or has its owner's value and no observation shows it yet.
func (s *State) LimitsPending() bool {
	for i := range s.pools {
		for f := FieldLimit; f < numFields; f++ {
			if s.pools[i].nudges[f].on {
				return true
			}
		}
	}
	return false
}

// liftLimits takes back every limit: one that stands while nobody is there to lift it stops pods for good.
func (t *tick) liftLimits() {
	for i := range t.wants {
		for f := FieldLimit; f < numFields; f++ {
			t.wants[i][f] = want{}
		}
	}
}
