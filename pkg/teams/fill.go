package teams

import "math"

// fill gives replicas to the members. The next replica is always for the member with the smallest dominant share. A member receives no more
// replicas if it has as many as upTo returns for it, or if its next replica does not fit. A replica that does not fit now does not fit
// later, because the available amounts only decrease.
//
// fill computes how many replicas can be given before a member reaches a limit, and gives all of them at once. The run time therefore
// depends on the number of members and not on the number of replicas.
func (d *division) fill(upTo func(*part) int32) {
	open := make([]*part, 0, len(d.parts))
	for {
		open = open[:0]
		for i := range d.parts {
			if p := &d.parts[i]; !p.unknown && d.stop[i] < 0 && p.got < upTo(p) && d.nextFits(i) {
				open = append(open, p)
			}
		}
		if len(open) == 0 {
			return
		}
		d.raiseTogether(open, upTo)
		d.raiseSmallest(open, upTo)
	}
}

// nextFits reports whether one more replica of a member fits, and records the limit if it does not.
func (d *division) nextFits(i int) bool {
	for r := range d.room {
		if g := d.parts[i].Amounts[r].PerReplica; g > 0 && g > d.room[r] {
			d.stop[i] = int8(r)
			return false
		}
	}
	return true
}

// raiseSmallest gives one replica to each member that has the smallest share, in the order of their keys, as far as they fit.
func (d *division) raiseSmallest(open []*part, upTo func(*part) int32) {
	least := math.Inf(1)
	for _, p := range open {
		if p.got < upTo(p) {
			least = min(least, p.share())
		}
	}
	for _, p := range open {
		fits := true
		for r := range d.room {
			g := p.Amounts[r].PerReplica
			fits = fits && (g <= 0 || g <= d.room[r])
		}
		if p.got < upTo(p) && p.share() == least && fits {
			d.give(p, p.got+1)
		}
	}
}

func (d *division) give(p *part, n int32) {
	for r := range d.room {
		d.room[r] -= times(n-p.got, p.Amounts[r].PerReplica)
	}
	p.got = n
}

func (p *part) share() float64 { return p.shareOf(p.got) }

func (p *part) shareOf(n int32) float64 { return float64(n) * p.dominant }

// raiseTogether gives replicas to the members in open until their dominant shares reach a common level. The level is the greatest level at
// which all these replicas fit.
func (d *division) raiseTogether(open []*part, upTo func(*part) int32) {
	low, high := math.Inf(1), 0.0
	for _, p := range open {
		low, high = min(low, p.share()), max(high, p.shareOf(upTo(p)))
	}
	if d.fitsAt(high, open, upTo) {
		low = high
	}
	for range 64 {
		level := low + (high-low)/2
		if level <= low || level >= high {
			break
		}
		if d.fitsAt(level, open, upTo) {
			low = level
		} else {
			high = level
		}
	}
	for _, p := range open {
		d.give(p, p.at(low, upTo(p)))
	}
}

func (d *division) fitsAt(level float64, open []*part, upTo func(*part) int32) bool {
	for r := range d.room {
		var sum int64
		for _, p := range open {
			sum = plus(sum, times(p.at(level, upTo(p))-p.got, p.Amounts[r].PerReplica))
		}
		if sum > max(d.room[r], 0) {
			return false
		}
	}
	return true
}

// at returns the number of replicas with which a member reaches the share level. The result is at most upTo, and at least the number of
// replicas that the member already has.
func (p *part) at(level float64, upTo int32) int32 {
	n := int32(min(math.Ceil(level/p.dominant), float64(upTo)))
	for n > p.got && p.shareOf(n-1) >= level {
		n--
	}
	for n < upTo && p.shareOf(n) < level {
		n++
	}
	return max(n, p.got)
}
