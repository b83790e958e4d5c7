package karpenter

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/replay/simulator/events"
)

// market contains the number of nodes that are available to a pool over time. The number decreases at the time of the interruption notice:
// after the notice, a new node cannot use the lost capacity.
type market struct {
	changes   []marketChange // changes of one repetition of the trace, in order of time
	next      int
	round     time.Duration // start of the repetition of the trace that contains the next change
	available int
}

// marketChange is a change of the market.
type marketChange struct {
	at          time.Duration // time of the notice or of the added capacity, since the start of the repetition
	lost, added int
}

func (p *Pool) openMarket() {
	s := p.config.Market
	if s == nil {
		return
	}
	m := &market{available: s.Initial}
	for _, e := range s.Events {
		if e.Lost > 0 {
			notice := max(0, e.At-p.cluster.assumptions.SpotNotice)
			m.changes = append(m.changes, marketChange{at: notice.Truncate(time.Microsecond), lost: e.Lost})
		}
		if e.Added > 0 {
			m.changes = append(m.changes, marketChange{at: e.At.Truncate(time.Microsecond), added: e.Added})
		}
	}
	// The trace is repeated. A change at its end restores the initial number of nodes for the next repetition.
	last := m.available
	for _, t := range m.changes {
		last += t.added - t.lost
	}
	if over := last - s.Initial; over > 0 {
		m.changes = append(m.changes, marketChange{at: s.Duration.Truncate(time.Microsecond), lost: over})
	} else if over < 0 {
		m.changes = append(m.changes, marketChange{at: s.Duration.Truncate(time.Microsecond), added: -over})
	}
	slices.SortStableFunc(m.changes, func(a, b marketChange) int { return int(min(max(a.at-b.at, -1), 1)) })
	// Capacity at time 0 of the trace is available to the initial pods.
	for ; m.next < len(m.changes) && m.changes[m.next].at == 0; m.next++ {
		m.available += m.changes[m.next].added - m.changes[m.next].lost
	}
	p.market = m
	p.nextMarketUpdate()
}

// nextMarketUpdate adds the next change of the market to the event queue.
func (p *Pool) nextMarketUpdate() {
	m := p.market
	if m.next == len(m.changes) {
		m.next, m.round = 0, m.round+max(p.config.Market.Duration.Truncate(time.Microsecond), time.Minute)
	}
	if len(m.changes) > 0 {
		p.cluster.queue.Add(events.Event{At: max(p.cluster.queue.Now, m.round+m.changes[m.next].at), Kind: marketUpdate, A: p.index})
	}
}

// updateMarket applies a change of the market. Each lost node is chosen at random from all nodes of the market, including the nodes that
// this pool does not use. The pool can therefore lose fewer nodes than the market.
func (p *Pool) updateMarket() {
	m := p.market
	t := m.changes[m.next]
	m.next++
	m.available += t.added
	ours := slices.DeleteFunc(slices.Clone(p.nodes), func(n *Node) bool { return n.hasNotice })
	for range t.lost {
		if len(ours) > 0 && (m.available <= len(ours) || p.spotDraws.Below(m.available) < len(ours)) {
			i := p.spotDraws.Below(len(ours))
			ours[i].warn()
			ours = slices.Delete(ours, i, i+1)
		}
		m.available--
	}
	p.nextMarketUpdate()
}

// available reports whether the provider has a node for the pool now.
func (p *Pool) available() bool {
	for _, o := range p.config.Outages {
		if o.From <= p.cluster.queue.Now && p.cluster.queue.Now < o.To {
			return false
		}
	}
	if p.market == nil {
		return true
	}
	held := 0
	for _, n := range p.nodes {
		if !n.hasNotice {
			held++
		}
	}
	return held < p.market.available
}

// warn simulates the interruption notice of a spot node. Karpenter drains the node at once, and its pods need other nodes. The node is
// lost at the end of the notice period.
func (n *Node) warn() {
	p := n.pool
	c := p.cluster
	p.bill.Lost++
	n.isLost()
	n.hasNotice = true
	p.refusedUntil = max(p.refusedUntil, c.queue.Now+c.assumptions.IceCache)
	n.after(c.assumptions.SpotNotice, lose)
	switch n.state {
	case Usable:
		n.drain()
	case Launched, Registered:
		for _, pod := range slices.Clone(n.pods) {
			n.release(pod)
		}
		c.Provision()
	}
}

// kill removes the node with all its pods. It is called at the end of the notice period.
func (n *Node) kill() {
	for _, pod := range slices.Clone(n.pods) {
		pod.replica.Kill() // the interruption notice evicted all pods, so the remaining pods are terminating
	}
	n.remove()
}
