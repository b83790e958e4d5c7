package capacity

import (
	"strconv"
	"time"
)

// nudge is one field of one NodePool that we hold, or held and yielded.
type nudge struct {
	on         bool
	releasing  bool
	seen       bool  // the value was observed in force
	to         Value // what we wrote last
	before     Value // what stood there before that, which an observation may still show
	original   Value // what goes back
	owner      string
	rule       Rule
	at, since  int64 // last write, and first
	overwrites uint8
	yielded    int64 // when somebody else's edit won last
	retry      int64 // not before; 0: free
}

const (
	// tighten is the least time between two writes of a field that make less possible. Each spec write resets
	// NodeRegistrationHealthy, and a limit that followed every node would reset it for good.
	tighten = 2 * time.Minute
	// yield is how long a field is left alone after somebody else's edit, backOff after the third.
	yield   = 10 * time.Minute
	backOff = 6 * time.Hour
	// forget is how long an edit counts towards the third.
	forget        = 3 * time.Hour
	maxOverwrites = 3
)

// want is what the rules of a tick make of one field.
type want struct {
	on      bool
	value   Value
	rule    Rule
	loosens bool // it lets more nodes come than what stands there
}

// adopt takes up what the records of the NodePools say: of each NodePool that is seen for the first time, and of fields that are ours
// and that we know nothing of, because the first view was older than the last write of the leader before us.
func (t *tick) adopt() {
	for i := range t.views() {
		p, v := &t.s.pools[i], &t.o.Pools[i]
		if !v.Exists {
			continue
		}
		for j := range v.Limits {
			if l := &v.Limits[j]; l.Ours && l.Resource != "" {
				t.s.limit(l.Resource) // a limit that another version of the group set
			}
		}
		var unknown fieldSet
		for f := range numFields {
			if !p.nudges[f].on && (!p.adopted || t.view(i, f).Ours) {
				unknown |= 1 << f
			}
		}
		if unknown == 0 {
			continue
		}
		p.adopted, p.stale = true, true
		if !t.s.load(i, v.Record, unknown) {
			t.find(Finding{Kind: FindRecord, Pool: int8(i)})
		}
	}
}

// settle compares every field that we hold with what the cluster shows.
func (t *tick) settle() {
	for i := range t.views() {
		v := &t.o.Pools[i]
		if !v.Exists {
			// A NodePool that was deleted took our nudges with it.
			t.s.pools[i] = poolState{}
			continue
		}
		for f := range numFields {
			n, view := &t.s.pools[i].nudges[f], t.view(i, f)
			if n.on {
				t.settleField(i, f, n, view)
			} else if n.overwrites > 0 && t.at-n.yielded > forget.Milliseconds() && t.at >= n.retry {
				*n = nudge{}
				t.s.pools[i].stale = true
			}
		}
	}
}

func (t *tick) settleField(pool int, f Field, n *nudge, view FieldView) {
	own := view.Value
	switch {
	case n.releasing && own.same(n.original) && !view.Ours:
		*n = nudge{overwrites: n.overwrites, yielded: n.yielded, retry: n.retry}
		t.s.pools[pool].stale = true
	case n.releasing && own.same(n.original):
		// The value is back; our ownership is not gone yet.
	case own.same(n.to):
		n.seen = true
	case own.same(n.before) && (!n.seen || n.releasing):
		// Not applied yet, or the cache is behind.
	case f == FieldBudgets && t.around(n, own):
		// Somebody edited the list around our entries: theirs is the new original, ours stay.
		n.original, _ = stripped(own)
		n.to, n.seen = own, true
		t.s.pools[pool].stale = true
	case view.Ours:
		// Not what we remember, and still ours: a leader before us wrote it after the view that we started from. Its record knows.
		*n = nudge{}
		t.s.load(pool, t.o.Pools[pool].Record, 1<<f)
	default:
		t.lose(pool, f, n, view)
	}
}

// around tells whether the list still holds entries of a hold.
func (t *tick) around(n *nudge, list Value) bool {
	_, ours := stripped(list)
	return ours && !n.releasing
}

// lose lets somebody else's edit win: it stays, it is what there is from now on, and the field is left alone for a while.
func (t *tick) lose(pool int, f Field, n *nudge, view FieldView) {
	lost := nudge{overwrites: min(n.overwrites+1, maxOverwrites), yielded: t.at, retry: t.at + yield.Milliseconds()}
	if lost.overwrites >= maxOverwrites {
		lost.retry = t.at + backOff.Milliseconds()
	}
	if n.releasing {
		lost = nudge{overwrites: n.overwrites, yielded: n.yielded, retry: n.retry}
	}
	*n = lost
	t.s.pools[pool].stale = true
}

// original is what a field is without us.
func (t *tick) original(pool int, f Field) Value {
	if n := &t.s.pools[pool].nudges[f]; n.on {
		return n.original
	}
	v := t.view(pool, f).Value
	if f == FieldBudgets {
		v, _ = stripped(v)
	}
	return v
}

// effective is what a field is with what the rules want so far.
func (t *tick) effective(pool int, f Field) Value {
	if w := &t.wants[pool][f]; w.on {
		return w.value
	}
	return t.original(pool, f)
}

// wish has a rule want a value; a later rule wins.
func (t *tick) wish(pool int, f Field, v Value, rule Rule) {
	t.wants[pool][f] = want{on: true, value: v, rule: rule}
}

// wishNumber is wish for a limit or a weight. A number that stands already keeps its text, so that a quiet tick allocates nothing.
func (t *tick) wishNumber(pool int, f Field, n int64, rule Rule) {
	if held := &t.s.pools[pool].nudges[f]; held.on {
		if stands, ok := held.to.number(); ok && stands == n {
			t.wish(pool, f, held.to, rule)
			return
		}
	}
	v := Value(strconv.FormatInt(n, 10))
	if f >= FieldLimit {
		v = `"` + v + `"` // a Quantity, as kubectl would write it
	}
	t.wish(pool, f, v, rule)
}

// write turns wants into patches, one for each NodePool that changes.
func (t *tick) write() {
	for i := range t.views() {
		v := &t.o.Pools[i]
		if !v.Exists {
			continue
		}
		patch := NodePoolPatch{Pool: t.g.Pools[i].Name}
		plan := NodePoolPatch{Pool: patch.Pool}
		for f := range numFields {
			t.writeField(i, f, &patch, &plan)
		}
		t.writeRecord(i, &patch)
		if len(plan.Changes) > 0 {
			t.d.Plan = append(t.d.Plan, plan)
		}
	}
}

func (t *tick) writeField(pool int, f Field, patch, plan *NodePoolPatch) {
	p, view, w := &t.s.pools[pool], t.view(pool, f), t.wants[pool][f]
	n := &p.nudges[f]
	if w.on && w.value.same(t.original(pool, f)) {
		w.on = false // what is wanted is what there is without us
	}
	t.yielded(pool, f, n)
	switch {
	case w.on && t.g.Advisory:
		plan.Changes = append(plan.Changes, t.change(f, view, w.value, t.original(pool, f), view.Owner, w.rule))
		t.restore(pool, f, view, patch)
	case !w.on || t.releasing:
		t.restore(pool, f, view, patch)
	case !t.allowed(pool, f, view, w):
		t.restore(pool, f, view, patch)
	case t.at < n.retry:
		// Left alone after somebody else's edit.
	case !n.on:
		*n = nudge{on: true, to: w.value, before: view.Value, original: t.original(pool, f), owner: view.Owner, rule: w.rule,
			at: t.at, since: t.at, overwrites: n.overwrites, yielded: n.yielded}
		t.emit(pool, f, view, patch)
	case !n.to.same(w.value) || n.releasing:
		if w.loosens = t.loosens(f, n.to, w.value); !w.loosens && !n.releasing && t.at-n.at < tighten.Milliseconds() {
			return
		}
		n.before, n.to, n.rule, n.at, n.seen, n.releasing = view.Value, w.value, w.rule, t.at, false, false
		t.emit(pool, f, view, patch)
	default:
		if n.rule != w.rule {
			n.rule, p.stale = w.rule, true // another rule wants the same
		}
		if !n.seen && t.at-n.at >= resend.Milliseconds() {
			n.at = t.at
			t.emit(pool, f, view, patch)
		}
	}
}

// emit adds what a nudge says to the patch.
func (t *tick) emit(pool int, f Field, view FieldView, patch *NodePoolPatch) {
	n := &t.s.pools[pool].nudges[f]
	patch.Changes = append(patch.Changes, t.change(f, view, n.to, n.original, n.owner, n.rule))
	patch.Loosens = patch.Loosens || t.loosens(f, view.Value, n.to)
	t.s.pools[pool].stale = true
}

func (t *tick) change(f Field, view FieldView, to, original Value, owner string, rule Rule) Change {
	return Change{Field: f, Resource: t.s.resource(f), From: view.Value, To: to, Original: original, Owner: owner, Rule: rule}
}

// restore puts a field back that we hold, or that a dead controller left behind without a record.
func (t *tick) restore(pool int, f Field, view FieldView, patch *NodePoolPatch) {
	p := &t.s.pools[pool]
	n := &p.nudges[f]
	switch {
	case n.on && !n.releasing:
		n.releasing, n.before, n.at = true, view.Value, t.at
	case n.on && t.at-n.at >= resend.Milliseconds():
		n.at = t.at
	case !n.on && view.Ours && !view.Unsupported:
		t.orphan(pool, f, view)
	default:
		return
	}
	c := t.change(f, view, n.original, n.original, n.owner, RuleRelease)
	c.Restore = true
	patch.Changes = append(patch.Changes, c)
	patch.Loosens = patch.Loosens || t.loosens(f, view.Value, n.original)
	p.stale = true
}

// orphan takes up a field that is ours without a record: somebody removed the annotation. Budgets lose our entries; of the others
// nobody knows what they were, and absent is what Karpenter's defaults are for.
func (t *tick) orphan(pool int, f Field, view FieldView) {
	original := Value("")
	if f == FieldBudgets {
		original, _ = stripped(view.Value)
	}
	t.s.pools[pool].nudges[f] = nudge{on: true, releasing: true, seen: true, to: view.Value, before: view.Value, original: original,
		owner: view.Owner, rule: RuleRelease, at: t.at, since: t.at}
}

// may tells whether a nudge of the field would be written now.
func (t *tick) may(pool int, f Field) bool {
	return !t.g.Advisory && t.o.Pools[pool].Consent&f.needs() != 0 && !t.view(pool, f).Unsupported && t.at >= t.s.pools[pool].nudges[f].retry
}

// allowed tells whether the field was handed over and exists, and reports it otherwise.
func (t *tick) allowed(pool int, f Field, view FieldView, w want) bool {
	finding := Finding{Pool: int8(pool), Field: f, Resource: t.s.resource(f), Rule: w.rule}
	switch {
	case view.Unsupported:
		finding.Kind = FindUnsupported
	case len(t.original(pool, f)) > maxOriginal:
		finding.Kind = FindUnreadable
	case t.o.Pools[pool].Consent&f.needs() == 0:
		finding.Kind = FindNotConsented
	default:
		return true
	}
	t.find(finding)
	return false
}

// yielded reports a field that somebody else's edit won.
func (t *tick) yielded(pool int, f Field, n *nudge) {
	if n.overwrites == 0 || t.at >= n.retry {
		return
	}
	t.because(Reason{Rule: RuleYield, Pool: int8(pool), Name: fieldName(f, t.s.resource(f)), A: float64(n.overwrites), Until: instant(n.retry)})
	if n.overwrites >= maxOverwrites {
		t.find(Finding{Kind: FindContested, Pool: int8(pool), Field: f, Resource: t.s.resource(f), Count: int(n.overwrites), Until: instant(n.retry)})
	}
}

// loosens tells whether a change lets nodes come that could not come before.
func (t *tick) loosens(f Field, from, to Value) bool {
	if f < FieldLimit || from == "" {
		return false
	}
	a, ok1 := from.number()
	b, ok2 := to.number()
	return to == "" || ok1 && ok2 && b > a
}

// writeRecord adds what we remember of the pool, where it is news.
func (t *tick) writeRecord(pool int, patch *NodePoolPatch) {
	p := &t.s.pools[pool]
	if p.stale {
		p.record = t.s.encode(pool)
		p.stale = false
	}
	patch.Record = p.record
	differs := p.record != t.o.Pools[pool].Record
	if len(patch.Changes) > 0 || differs && (p.record != p.written || t.at-p.writtenAt >= resend.Milliseconds()) {
		p.written, p.writtenAt = p.record, t.at
		t.d.Actions = append(t.d.Actions, *patch)
	}
}
