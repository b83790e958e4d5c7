package capacity

import (
	"slices"
	"time"
)

// landed is what became of a batch's successors, and of what they are for.
type landed struct {
	came  int32 // Ready on spot
	loads int32 // on spot, not Ready yet
	stray int32 // on demand: spot was asked, and refused
	// housed are those that found room on a node of before, which says nothing of spot: instead of one whose node was lost meanwhile.
	housed int32
	spare  int32 // ready replicas beyond what is needed
}

// advance moves a batch on, and gives it up where its ground is gone.
func (t *tick) advance() {
	m := &t.s.move
	i := t.workload(m.workload)
	if i < 0 || !t.o.Workloads[i].Known || t.o.Workloads[i].Paused {
		t.end()
		return
	}
	w := &t.o.Workloads[i]
	if t.drop(w); m.count == 0 {
		t.close() // gone: as planned, or by themselves
		return
	}
	if p := foreign(m, w); p != nil {
		t.find(Finding{Kind: FindForeignAnnotation, Pool: -1, Name: p.Namespace + "/" + p.Name, Rule: RuleMove})
		t.end()
		return
	}
	l := t.landings(w)
	late := time.Duration(t.at-m.since)*time.Millisecond > arrives+t.g.LeadTime
	over := late || l.loads == 0 && l.came+l.stray+l.housed >= m.count
	switch {
	case m.step == surging && l.stray > 0 && t.s.spot.phase == Probing:
		t.fallBack(CauseProbe, t.evidence(t.spot, m.since))
		t.giveUp()
	case m.step == surging && t.s.spot.phase == Returning && l.came > 0 && over && l.spare >= min(l.came, m.count):
		t.settleFor(w, l)
	case m.step == surging && (late || l.came == 0 && over):
		t.refuse(l.stray > 0 || late)
		t.giveUp()
	case m.step == marking && l.spare >= t.readyVictims(w) && marked(m, w):
		m.step, m.since = shrinking, t.at
	case m.step == marking && time.Duration(t.at-m.since)*time.Millisecond > arrives+t.g.LeadTime+shrinks:
		t.giveUp() // the victims cannot be marked, and a surge must not stand for ever
	case m.step == shrinking && time.Duration(t.at-m.since)*time.Millisecond > shrinks, m.step == shrinking && t.grown(w):
		t.end() // demand rose into the surge: the replicas are needed, and nothing is lost
	}
}

// drop forgets victims that are gone.
func (t *tick) drop(w *Workload) {
	m := &t.s.move
	left := m.count
	m.count = 0
	for _, uid := range m.victims[:min(left, maxBatch)] {
		if slices.ContainsFunc(w.Pods, func(p Pod) bool { return p.UID == uid }) {
			m.victims[m.count] = uid
			m.count++
		}
	}
	clear(m.victims[m.count:])
}

// landings counts a batch's successors.
func (t *tick) landings(w *Workload) (l landed) {
	l.spare = t.ready(w) - w.needs()
	for j := range w.Pods {
		p := &w.Pods[j]
		switch n := t.node(p); {
		case n == nil || !t.bornInMove(p.Since) || t.endangered(p):
		case p.Pool == t.spot && p.Ready:
			l.came++
		case p.Pool == t.spot && p.Loading:
			l.loads++
		case p.Pool == t.onDemand && t.bornInMove(n.Created):
			l.stray++
		case p.Pool == t.onDemand && p.Ready:
			l.housed++
		}
	}
	return l
}

// settleFor goes on with the successors that came. Those that landed on demand go again, instead of the victims that have none: as many
// as are missing, for demand may have risen meanwhile, and what came for that stays.
func (t *tick) settleFor(w *Workload, l landed) {
	m := &t.s.move
	m.step = marking
	if l.came >= m.count {
		return
	}
	asked := m.count
	clear(m.victims[l.came:])
	m.count = l.came
	t.refuse(l.stray > 0)
	for j := range w.Pods {
		p := &w.Pods[j]
		if n := t.node(p); m.count < asked && n != nil && p.Pool == t.onDemand && t.bornInMove(p.Since) && t.bornInMove(n.Created) {
			m.victims[m.count] = p.UID
			m.count++
		}
	}
}

// grown tells whether as many replicas are wanted by now as there are: none of a batch's victims will go.
func (t *tick) grown(w *Workload) bool {
	return time.Duration(t.at-t.s.move.since)*time.Millisecond > grows && w.Uncapped >= int32(len(w.Pods))
}

// refuse takes what spot had no room for as a full market, not as a failing one: what runs there stays, new replicas still try it
// first, and the return waits, for twice as long each time.
func (t *tick) refuse(full bool) {
	t.s.move.refused = true
	if p := &t.s.pace; full {
		p.width, p.level = 1, min(p.level+1, maxLevel)
		p.until = t.at + jittered(min(settles<<(p.level-1), maxFull), t.g.Name, p.level).Milliseconds()
	}
}

// close ends a batch whose victims are gone. One that arrived whole lets the next one be twice as wide.
func (t *tick) close() {
	if m, p := &t.s.move, &t.s.pace; m.step == shrinking && !m.refused {
		p.width, p.level = min(2*max(p.width, 1), maxBatch), 0
	}
	t.end()
}

// end ends a move; the node stays chosen.
func (t *tick) end() { t.s.move = move{node: t.s.move.node} }

// giveUp ends a move that led nowhere; the next one waits as if it were another node's.
func (t *tick) giveUp() {
	t.s.move = move{}
	t.s.spot.moved = t.at
	t.s.touch()
}

// foreign is a victim that carries somebody else's mark.
func foreign(m *move, w *Workload) *Pod {
	for j := range w.Pods {
		if p := &w.Pods[j]; m.has(p.UID) && p.DeletionCost.Value != "" && !p.DeletionCost.Ours {
			return p
		}
	}
	return nil
}

// marked tells whether every victim is seen to go first, readyVictims how many of them are Ready.
func marked(m *move, w *Workload) bool {
	return !slices.ContainsFunc(w.Pods, func(p Pod) bool { return m.has(p.UID) && p.DeletionCost.Value != lowestCost })
}

func (t *tick) readyVictims(w *Workload) (n int32) {
	for j := range w.Pods {
		if p := &w.Pods[j]; p.Ready && !t.endangered(p) && t.s.move.has(p.UID) {
			n++
		}
	}
	return n
}

// bornInMove tells what was created since the move began. The API server cuts a creation to whole seconds: a successor that comes
// within the second of the move seems older than it. What was created in the future was not: our clock stepped back.
func (t *tick) bornInMove(at time.Time) bool {
	return t.within(at, t.s.move.since-t.s.move.since%time.Second.Milliseconds()-1)
}
