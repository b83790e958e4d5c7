package teams

import (
	"math"
	"slices"
	"strings"
)

// Limit is the maximum amount of one resource, for example GPUs, that all workloads of a team may request in total.
type Limit struct {
	Resource string
	Max      int64
}

// Amount is how much of one resource a member requests.
type Amount struct {
	PerReplica int64 // if Known is false, the last known amount; 0: it was never known
	Known      bool  // false: the amount per replica is unknown
	Pods       int64 // sum of the requests of the member's existing pods
}

// Member is one workload of the team, with its target and the amounts that its replicas request.
type Member struct {
	Key     string   // namespace/name; if two members have equal shares, the lower key is first
	Want    int32    // target of the member without the limit
	Min     int32    // replicas that Divide gives in step 1 (minimum), limited to Want
	Running int32    // spec.replicas of the scale target
	Granted int32    // the last served target; 0 if there is none
	Trial   bool     // the member received its only replica while its amount per replica was unknown
	Amounts []Amount // requested amount of each limited resource, in the order of the limits
}

// Share is the maximum number of replicas of one member, with the limit that causes it.
type Share struct {
	Max    int32 // maximum number of replicas; Want if no limit reduces it
	Limit  int8  // index of the limit that reduces Max below Want; -1: no limit reduces it
	Others int64 // amount of this limit's resource that other members and pods use; -1: the member's amount per replica is unknown
}

// maxSum is the maximum of every sum of amounts, so that no sum overflows an int64. Limits are reduced to at most maxSum-1. A sum that is
// reduced to maxSum therefore still exceeds every limit.
const maxSum = math.MaxInt64 / 4

// part is a member with the intermediate results of Divide.
type part struct {
	*Member
	index    int
	unknown  bool
	got      int32
	dominant float64 // dominant share of one replica: the largest of its shares of the limited resources
}

// division contains the intermediate results of one call of Divide.
type division struct {
	limits []Limit
	others []int64
	parts  []part  // ordered by key
	room   []int64 // for each limit, the amount that is still available to members
	soft   []int64 // for each limit, the amount used by pods of no member and by replicas that are being removed; only for step 4 (raises)
	stop   []int8  // for each part, the limit that prevented its next replica; -1: none
}

// Divide computes the share of each member and stores it in out, which has the same order as members. The parameter others contains, in the
// order of limits, the amount of each limited resource that pods outside the members use.
func Divide(limits []Limit, others []int64, members []Member, out []Share) {
	for i := range members {
		out[i] = Share{Max: max(members[i].Want, 0), Limit: -1}
	}
	d := newDivision(limits, others, members)
	if d.fits() {
		for i := range d.parts {
			p := &d.parts[i]
			p.got = p.kept() + p.first()
			d.keepUnknown(p, out)
		}
		return
	}
	d.chargeUnknown()
	for _, step := range []func(*part) int32{
		func(p *part) int32 { return min(p.Want, p.Min) },
		func(p *part) int32 { return min(p.Want, p.running()) },
		func(p *part) int32 { return min(p.Want, max(p.running(), p.granted())) },
	} {
		d.fill(step)
	}
	d.startRaises()
	d.chargeLate()
	d.giveFirst()
	d.fill(func(p *part) int32 { return p.Want })
	d.write(out)
}

func newDivision(limits []Limit, others []int64, members []Member) *division {
	d := &division{limits: slices.Clone(limits), others: others, room: make([]int64, len(limits)), soft: make([]int64, len(limits))}
	for r := range d.limits {
		d.limits[r].Max = max(0, min(d.limits[r].Max, maxSum-1))
		d.room[r] = d.limits[r].Max
	}
	for i := range members {
		p := part{Member: &members[i], index: i}
		for r := range d.limits {
			a := &p.Amounts[r]
			p.unknown = p.unknown || !a.Known
			p.dominant = max(p.dominant, float64(a.PerReplica)/float64(max(d.limits[r].Max, 1)))
		}
		if p.unknown || p.dominant > 0 {
			d.parts = append(d.parts, p)
		}
	}
	slices.SortFunc(d.parts, func(a, b part) int { return strings.Compare(a.Key, b.Key) })
	d.stop = make([]int8, len(d.parts))
	for i := range d.stop {
		d.stop[i] = -1
	}
	return d
}

// kept returns the replicas that a member with an unknown amount per replica keeps: the replicas that exist or that were granted, but at
// most the target. Except for its first replica, the member receives neither fewer nor more.
func (p *part) kept() int32 { return max(0, min(p.Want, max(p.Running, p.Granted))) }

// charge returns the amount of the resource r that n replicas of a member request. If the amount per replica is unknown, charge estimates
// at least 1 for each replica.
func (p *part) charge(r int, n int32) int64 {
	a := &p.Amounts[r]
	if a.Known {
		return times(n, a.PerReplica)
	}
	return max(a.Pods, times(n, max(a.PerReplica, 1)))
}

// fits reports whether all limits are sufficient for the sum of three amounts: all targets, replicas that are being removed, and pods that
// belong to no member.
func (d *division) fits() bool {
	for r := range d.limits {
		sum := min(max(d.others[r], 0), maxSum)
		for i := range d.parts {
			p := &d.parts[i]
			n := p.Want
			if p.unknown {
				n = p.kept() + p.first()
			}
			sum = plus(sum, p.charge(r, max(n, p.Running, 0)))
		}
		if sum > d.limits[r].Max {
			return false
		}
	}
	return true
}

// keepUnknown stores the share of a member whose amount per replica is unknown, if this share is below its target.
func (d *division) keepUnknown(p *part, out []Share) {
	if p.unknown && p.Want > p.got {
		out[p.index] = Share{Max: p.got, Limit: d.firstUnknown(p), Others: -1}
	}
}

func (d *division) firstUnknown(p *part) int8 {
	return int8(slices.IndexFunc(p.Amounts, func(a Amount) bool { return !a.Known }))
}

func (d *division) chargeUnknown() {
	for i := range d.parts {
		p := &d.parts[i]
		if !p.unknown {
			continue
		}
		if p.got = p.kept(); p.isLate() {
			continue
		}
		for r := range d.room {
			d.room[r] -= p.charge(r, p.got)
		}
	}
}

// startRaises subtracts two amounts from the available amount of each resource: the amount that pods outside the members use, and the
// amount that replicas use while they are being removed. It omits the replicas whose amount chargeLate subtracts. startRaises is called
// before step 4 (raises), because these amounts limit only that step.
func (d *division) startRaises() {
	for r := range d.room {
		d.soft[r] = min(max(d.others[r], 0), maxSum)
		for i := range d.parts {
			if p := &d.parts[i]; !p.isLate() {
				d.soft[r] = plus(d.soft[r], p.charge(r, max(p.got, p.Running))-p.charge(r, p.got))
			}
		}
		d.room[r] -= d.soft[r]
	}
}

func (d *division) write(out []Share) {
	held := slices.Clone(d.soft)
	for i := range d.parts {
		for r := range held {
			held[r] = plus(held[r], d.parts[i].charge(r, d.parts[i].got))
		}
	}
	for i := range d.parts {
		p := &d.parts[i]
		if d.keepUnknown(p, out); p.got >= p.Want || p.unknown && (p.got > 0 || d.stop[i] < 0) {
			continue
		}
		r := max(d.stop[i], 0)
		out[p.index] = Share{Max: p.got, Limit: r, Others: held[r] - p.charge(int(r), p.got)}
	}
}

func times(n int32, amount int64) int64 {
	if n <= 0 || amount <= 0 {
		return 0
	}
	if amount > maxSum/int64(n) {
		return maxSum
	}
	return int64(n) * amount
}

func plus(a, b int64) int64 { return min(a+b, maxSum) }
