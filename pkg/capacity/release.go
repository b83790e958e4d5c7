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

// liftLimits takes back every limit: one that stands while nobody is there to lift it stops pods for good.
func (t *tick) liftLimits() {
	for i := range t.wants {
		for f := FieldLimit; f < numFields; f++ {
			t.wants[i][f] = want{}
		}
	}
}
