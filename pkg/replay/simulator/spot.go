package simulator

import (
	"slices"
	"time"
)

// market is how many nodes a pool can have over time. A loss is known from its notice on: what is to be taken cannot be had any more.
type market struct {
	turns     []turn // one round of the trace, in order
	next      int
	round     time.Duration // start of the round that next is in
	available int
}

// turn is a change of the market.
type turn struct {
	at          time.Duration // of the notice, or of the gain; since the round's start
	lost, added int
}

func (p *pool) openMarket() {
	s := p.config.Market
	if s == nil {
		return
	}
	m := &market{available: s.Initial}
	for _, e := range s.Events {
		if e.Lost > 0 {
			m.turns = append(m.turns, turn{at: max(0, e.At-p.w.assumptions.SpotNotice).Truncate(time.Microsecond), lost: e.Lost})
		}
		if e.Added > 0 {
			m.turns = append(m.turns, turn{at: e.At.Truncate(time.Microsecond), added: e.Added})
		}
	}
	// The trace starts again with as many nodes as at first.
	last := m.available
	for _, t := range m.turns {
		last += t.added - t.lost
	}
	if over := last - s.Initial; over > 0 {
		m.turns = append(m.turns, turn{at: s.Duration.Truncate(time.Microsecond), lost: over})
	} else if over < 0 {
		m.turns = append(m.turns, turn{at: s.Duration.Truncate(time.Microsecond), added: -over})
	}
	slices.SortStableFunc(m.turns, func(a, b turn) int { return int(min(max(a.at-b.at, -1), 1)) })
	// What a trace has in its first instant is there before anybody asks: a fleet that stands at the start may stand on it.
	for ; m.next < len(m.turns) && m.turns[m.next].at == 0; m.next++ {
		m.available += m.turns[m.next].added - m.turns[m.next].lost
	}
	p.market = m
	p.nextTurn()
}

// nextTurn puts the market's next change into the queue of events.
func (p *pool) nextTurn() {
	m := p.market
	if m.next == len(m.turns) {
		m.next, m.round = 0, m.round+max(p.config.Market.Duration.Truncate(time.Microsecond), time.Minute)
	}
	if len(m.turns) > 0 {
		p.w.queue.add(event{at: max(p.w.now, m.round+m.turns[m.next].at), kind: spotTurn, a: p.index})
	}
}

// turn is a change of the market. Which nodes are lost is drawn: ours hold some of those that the market had, and each of these
// is as likely to go as any other.
func (p *pool) turn() {
	m := p.market
	t := m.turns[m.next]
	m.next++
	m.available += t.added
	ours := slices.DeleteFunc(slices.Clone(p.nodes), func(n *node) bool { return n.doomed })
	for range t.lost {
		if len(ours) > 0 && (m.available <= len(ours) || p.luck.Below(m.available) < len(ours)) {
			i := p.luck.Below(len(ours))
			ours[i].warn()
			ours = slices.Delete(ours, i, i+1)
		}
		m.available--
	}
	p.nextTurn()
}

// available tells whether the provider has a node for the pool now.
func (p *pool) available() bool {
	for _, o := range p.config.Outages {
		if o.From <= p.w.now && p.w.now < o.To {
			return false
		}
	}
	if p.market == nil {
		return true
	}
	held := 0
	for _, n := range p.nodes {
		if !n.doomed {
			held++
		}
	}
	return held < p.market.available
}

// warn is the spot notice: Karpenter drains the node at once and asks for others elsewhere; when the time is over it is gone.
func (n *node) warn() {
	p := n.pool
	w := p.w
	p.lost++
	n.isLost()
	n.doomed = true
	p.refusedUntil = max(p.refusedUntil, w.now+w.assumptions.IceCache)
	n.after(w.assumptions.SpotNotice, lose)
	switch n.state {
	case usable:
		n.drain()
	case launched, registered:
		for _, r := range slices.Clone(n.pods) {
			n.release(r)
		}
		w.provision()
	}
}

// kill takes the node away with all that is on it.
func (n *node) kill() {
	for _, r := range slices.Clone(n.pods) {
		r.end() // all that are left drain: the others were evicted at the notice
	}
	n.remove()
}
