package capacity

import "time"

const (
	// holdEarly is how long before known demand consolidation stops, on top of the lead time: Karpenter judges a command for 15
	// seconds and then carries it out whatever we write, so a minute is the least.
	holdEarly = 2 * time.Minute
	// holdEmpty is how long after the start empty nodes are held, at most: until the demand has arrived.
	holdEmpty = 15 * time.Minute
	// holdUnder is how long after the start replicas are not moved. The second step of the release: everything is consolidatable
	// at once after a quiet time, and the first step shows what is left.
	holdUnder = time.Hour
	// holdMost bounds an entry: if we die it ends by then.
	holdMost = 2 * time.Hour
	// renewed is how long before its end an entry is written anew.
	renewed = 5 * time.Minute
)

// hold stops consolidation while known demand arrives, and on the on-demand pool while replicas return. Drift and repair go on.
func (t *tick) hold() {
	empty, under := t.span()
	for i := range t.views() {
		if !t.o.Pools[i].Exists {
			continue
		}
		e, u := empty, under
		if phase := t.s.spot.phase; t.paired() && i == t.onDemand && (phase == Probing || phase == Returning) && !t.g.Advisory {
			u = max(u, t.at+holdUnder.Milliseconds())
		}
		t.holdPool(i, e, u)
		if last := &t.d.Reasons[len(t.d.Reasons)-1]; under == 0 && last.Rule == RuleConsolidationFreeze {
			last.B = 1 // for the return alone
		}
	}
}

// span is until when empty nodes and underutilized nodes are to be held for what is known ahead; 0: not at all.
func (t *tick) span() (empty, under int64) {
	if !t.g.ConsolidationFreeze {
		return 0, 0
	}
	for i := range t.o.Ahead {
		s := &t.o.Ahead[i]
		from, until := stamp(s.From), stamp(s.Until)
		if s.GPUs <= 0 || t.at < from-(t.g.LeadTime+holdEarly).Milliseconds() || t.at >= until {
			continue
		}
		if end := min(from+holdEmpty.Milliseconds(), until); t.at < end && !(t.at >= from && t.arrived(s)) {
			empty = max(empty, end)
		}
		if end := min(from+holdUnder.Milliseconds(), until); t.at < end {
			under = max(under, end)
		}
	}
	return empty, under
}

// arrived tells whether what a span asks for is ready.
func (t *tick) arrived(s *Span) bool {
	var ready int64
	for i := range t.o.Workloads {
		w := &t.o.Workloads[i]
		if s.Workload != "" && s.Workload != w.Key {
			continue
		}
		ready += int64(t.ready(w)) * units(w.GPUs)
	}
	return ready >= s.GPUs
}

// peaks tells whether known demand is arriving; nothing is tried out meanwhile.
func (t *tick) peaks() bool {
	_, under := t.span()
	return under > 0
}

// holdPool keeps the entries of one NodePool in step with what is wanted. An entry that stands is left to end by itself as long as
// anything is to be held; it is renewed shortly before its end.
func (t *tick) holdPool(pool int, empty, under int64) {
	h := &t.s.pools[pool].hold
	if empty == 0 && under == 0 {
		*h = hold{}
		return
	}
	most := t.at + holdMost.Milliseconds()
	empty, under = upToMinute(min(empty, most)), upToMinute(min(under, most))
	soon := t.at + renewed.Milliseconds()
	if empty > h.empty && h.empty < soon || under > h.under && h.under < soon {
		minute := time.Minute.Milliseconds()
		*h = hold{start: t.at - (t.at%minute+minute)%minute, empty: max(empty, h.empty), under: max(under, h.under)}
	}
	list, ok := t.held(pool)
	if !ok {
		t.find(Finding{Kind: FindUnreadable, Pool: int8(pool), Field: FieldBudgets, Rule: RuleConsolidationFreeze})
		return
	}
	t.wish(pool, FieldBudgets, list, RuleConsolidationFreeze)
	r := Reason{Rule: RuleConsolidationFreeze, Pool: int8(pool), Until: instant(max(h.empty, h.under))}
	if h.empty > t.at {
		r.A = float64(h.empty / 1000)
	}
	t.because(r)
}

// held is the list of budgets with the hold's entries.
func (t *tick) held(pool int) (list Value, ok bool) {
	p, list := &t.s.pools[pool], t.original(pool, FieldBudgets)
	if p.held.of == p.hold && p.held.list == list && p.held.with != "" {
		return p.held.with, true
	}
	with, ok := p.hold.with(list)
	p.held.of, p.held.list, p.held.with = p.hold, list, with
	return with, ok
}

func upToMinute(at int64) int64 {
	minute := time.Minute.Milliseconds()
	if at <= 0 {
		return at
	}
	return (at + minute - 1) / minute * minute
}
