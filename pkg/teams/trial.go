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
// Neither includes the replica of a trial, so that no running replica of another member is removed for it.
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

// isLate reports whether chargeLate subtracts the amount of the member, after the replicas that exist or are granted have been subtracted.
// This is true for a trial. It is also true for a member with an unknown amount that keeps no replica, because its pods are being removed.
func (p *part) isLate() bool { return p.Trial || p.unknown && p.kept() == 0 }

// chargeLate keeps the replica of each trial that fits into what is available after startRaises, in the order of the keys, and removes the
// replicas of the other trials. The pods of a removed replica still use its amount, so chargeLate then subtracts it, as startRaises does
// for other replicas that are being removed.
func (d *division) chargeLate() {
	for i := range d.parts {
		p := &d.parts[i]
		if !p.Trial || p.got > 0 && !p.unknown { // a trial whose amount is now known and that received a replica for its minimum
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

// giveFirst gives a first replica to each member that can receive one (see first), if the estimate of charge fits.
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
