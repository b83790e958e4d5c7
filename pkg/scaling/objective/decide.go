package objective

import (
	"math"
	"time"
)

// Plan returns the plan for the evidence of the last Observe. A second call with the same arguments returns the same plan.
func (m *Model) Plan(now time.Time, o Objective, l Limits) Plan {
	s := &m.saved
	s.O, s.L = o, Limits{Min: max(l.Min, 0), Max: max(l.Max, l.Min, 0)}
	x := m.plant()
	b := &s.B
	p := Plan{Load: s.F.Level[1], Queued: s.Queued, Capacity: x.capacity, Rule: uint8(b.Best),
		ColdStart: time.Duration(float64(x.cold) * x.slot * float64(time.Second))}
	current := s.Ready + s.Starting
	switch {
	case !s.Known:
		p.Safe = EvidenceMissing
		p.add(TermSafe, max(current, s.Planned))
	case x.capacity <= 0:
		p.Safe = CapacityUnknown
		p.add(TermSafe, m.withoutCapacity(current))
	case float64(s.F.Slots) < 6*float64(x.cold) || b.Work+b.NewWork <= 0:
		p.Safe = TooLittleData
		p.add(TermSafe, max(m.safe(&x), current))
		m.addBacklog(&p, &x, s.F.Level[0])
	default:
		m.learnedPlan(&p, &x, now)
	}
	p.limit(s.L)
	s.Planned = p.Replicas
	return p
}

// withoutCapacity returns the replicas of a plan while the capacity is not known: the current replicas. If work waits or the time between
// two tokens exceeds the limit, and no replica is starting, it returns twice the current replicas.
func (m *Model) withoutCapacity(current int32) int32 {
	s := &m.saved
	if s.Queued <= 0 && s.Pending <= 0 && !s.Slow {
		return max(current, min(s.Planned, 1))
	}
	if (s.Queued > 0 || s.Slow) && s.Starting == 0 {
		return max(min(2*current, maxReplicas), 1)
	}
	return max(current, 1)
}

// safe returns the replicas of the safe policy, which serve the greatest need (features.needed) of the last four cold starts, with a margin
// (Tuning.SafeMargin). After any load, it returns at least 1. Only after several idle times is it known whether the workload can be at
// zero.
func (m *Model) safe(x *plant) int32 {
	n := x.replicas(m.t.SafeMargin * m.saved.F.Hold[0].value())
	if n == 0 && m.saved.F.Level[levels-1] > 0 {
		return 1
	}
	return n
}

func (m *Model) learnedPlan(p *Plan, x *plant, now time.Time) {
	b := &m.saved.B
	r := &rules[b.Best]
	signals := m.saved.F.signals(x, int64(m.saved.SlotAt))
	level, margin, hold := signals.want(r)
	base, whole := x.throughput(level), x.replicas(level+margin)
	p.Load = level
	p.add(TermLevel, base)
	p.add(TermMargin, whole-base)
	p.add(TermRecent, max(x.replicas(hold)-whole, 0))
	m.addBacklog(p, x, level)
	if work := b.Work + b.NewWork; work > 0 {
		p.Quantile = max(1-b.Experts[b.Best].late()/work, 0)
		p.Price = b.price(x)
		if late := b.Actual.late(); !b.Met && late > 3*x.allowed*work && late > float64(x.cold)*m.saved.F.Level[levels-1]*x.slot {
			p.Safe = FeedbackFails
			p.add(TermSafe, max(m.safe(x)-p.Replicas, 0))
		}
	}
	p.EarliestScaleDown = now.Add(time.Duration(float64(m.slotsUntilDecrease(x, r, p)) * x.slot * float64(time.Second)))
}

// slotsUntilDecrease returns after how many time slots the number of replicas in the plan can decrease if the load ends now. At this time,
// the greatest past value that the rule uses is too old and is removed.
func (m *Model) slotsUntilDecrease(x *plant, r *rule, p *Plan) int {
	f := &m.saved.F
	switch {
	case p.Added[TermBacklog] > 0:
		return int(m.saved.Back.Left)
	case p.Added[TermRecent] > 0 && r.hold == 0:
		return f.Hold[0].slotsLeft(4 * x.cold)
	case p.Added[TermRecent] > 0:
		return f.Hold[r.hold].slotsLeft(int(holdSeconds[r.hold] / x.slot))
	case r.level == trend:
		return f.Trend.slotsLeft(x.cold)
	case r.level < levels:
		return f.Recent[r.level].slotsLeft(x.cold)
	}
	return 0
}

// addBacklog adds the replicas for waiting work. If work waits, the plan then has at least one replica. level is the expected load in work
// per second.
func (m *Model) addBacklog(p *Plan, x *plant, level float64) {
	s := &m.saved
	s.Back.raise(x, min(x.forBacklog(s.Queued, float64(s.Ready), level), max(x.most, 0)))
	n := int32(s.Back.Replicas)
	if s.Queued > 0 {
		n = max(n, 1)
	}
	p.add(TermBacklog, max(n-p.Replicas, 0))
}

func (p *Plan) add(t Term, n int32) {
	p.Added[t] += n
	p.Replicas += n
}

func (p *Plan) limit(l Limits) { p.add(TermLimits, max(min(p.Replicas, l.Max), l.Min)-p.Replicas) }

// Learned returns a summary of what the model has learned.
func (m *Model) Learned() Learned {
	s := &m.saved
	out := Learned{Capacity: s.Capacity.summary(m.perInFlight()), ColdStart: s.Cold.Total.summary(),
		Node: s.Ahead.Node.summary(), Load: s.F.Level[2], Attained: 1, Budget: 1,
		LoadAge: time.Duration(s.Ages.Load * float64(time.Second)),
		IdleGap: time.Duration(s.F.Gap * float64(time.Second)), Observed: time.Duration(s.Observed * float64(time.Second))}
	for i := range s.Cold.Phase {
		out.Phase[i] = s.Cold.Phase[i].summary()
	}
	if load := s.F.Level[levels-1]; load > 0 {
		out.Burstiness = math.Sqrt(s.F.Square[levels-1] / load)
	}
	if s.Attained.Work > 0 {
		share := min(s.Attained.Late/s.Attained.Work, 1)
		out.Attained = max(1-share, 0)
		if s.O.Percentile > 0 {
			out.Budget = max(1-share/s.O.allowed(), 0)
		}
	}
	return out
}
