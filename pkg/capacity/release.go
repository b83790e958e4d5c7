package capacity

// release resets the state of the rules and requests no override. As a result, write restores every field, and annotatePods clears every
// annotation.
func (t *tick) release() {
	s := t.s
	s.Move, s.ZeroLimit, s.TargetCap, s.Pace, s.Reserve = move{}, zeroLimit{}, targetCap{}, pace{}, reserve{}
	if s.Spot != (spotState{}) {
		s.Spot = spotState{}
		s.encodeRecords()
	}
	for i := range s.Pools {
		p := &s.Pools[i]
		for f := range p.Overrides {
			if o := &p.Overrides[f]; !o.On && o.Overwrites > 0 {
				*o, p.Stale = override{}, true
			}
		}
	}
	for i := range t.o.Workloads {
		t.setBuffer(&t.o.Workloads[i], 0)
	}
	t.because(Reason{Rule: RuleRelease, Pool: -1})
}
