package teams

// first returns 1 if a member whose amount per replica is unknown can receive a first replica: it keeps no replica, none of its pods
// exists, and its target is above 0. Otherwise it returns 0. Without a first replica, the amount of some kinds of workloads would never
// become known.
func (p *part) first() int32 {
	if !p.unknown || p.kept() > 0 {
		return 0
	}
	for r := range p.Amounts {
		if p.Amounts[r].Pods > 0 {
			return 0
		}
	}
	return min(max(p.Want, 0), 1)
}

// running returns the replicas that the member receives in step 2 (running), and granted the replicas that it receives in step 3 (granted).
// Neither includes the replica of a trial (the first replica of a member whose amount per replica was unknown), so that no running replica
// of another member is removed for it.
func (p *part) running() int32 {
	if p.Trial {
		return 0
	}
	return p.Running
}

func (p *part) granted() int32 {
	if p.Trial {
		return 0
	}
	return p.Granted
}

// isLate reports whether chargeLate subtracts the amounts of the member. chargeLate runs after steps 2 (running) and 3 (granted). isLate is
// true for a trial. It is also true for a member with an unknown amount that keeps no replica, because its pods are being removed.
func (p *part) isLate() bool { return p.Trial || p.unknown && p.kept() == 0 }

// chargeLate keeps the replica of a trial if its amount is available after startRaises. It checks the trials in the order of their keys and
// removes the replicas of all other trials. The pods of a removed replica still use its amount, so chargeLate also subtracts this amount
// from the available amount.
func (d *division) chargeLate() {
	for i := range d.parts {
		p := &d.parts[i]
		// A trial is not checked if its amount is now known and the member has received a replica for its minimum.
		if !p.Trial || p.got > 0 && !p.unknown {
			continue
		}
		if p.got = 0; p.kept() > 0 && d.takes(i, p.kept()) {
			p.got = p.kept()
			for r := range d.room {
				d.room[r] -= p.charge(r, p.got)
			}
		}
	}
	for i := range d.parts {
		p := &d.parts[i]
		if !p.isLate() {
			continue
		}
		for r := range d.room {
			removed := p.charge(r, max(p.got, p.Running)) - p.charge(r, p.got)
			d.soft[r] = plus(d.soft[r], removed)
			if d.room[r] -= removed; p.got == 0 {
				d.room[r] -= p.charge(r, 0)
			}
		}
	}
}

// giveFirst gives a first replica to each member that can receive one (see first), if the amount that charge estimates is available.
func (d *division) giveFirst() {
	for i := range d.parts {
		p := &d.parts[i]
		if p.first() == 0 || !d.takes(i, 1) {
			continue
		}
		p.got = 1
		for r := range d.room {
			d.room[r] -= p.charge(r, 1)
		}
	}
}

// takes reports whether the amounts of n replicas of a member that has none are available, and records the first limit that is too low.
func (d *division) takes(i int, n int32) bool {
	for r := range d.room {
		if c := d.parts[i].charge(r, n); c > 0 && c > d.room[r] {
			d.stop[i] = int8(r)
			return false
		}
	}
	return true
}
