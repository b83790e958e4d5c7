package capacity

import (
	"cmp"
	"slices"
)

// want is what the rules of a tick make of one field.
type want struct {
	on    bool
	value Value
	rule  Rule
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
	t.wish(pool, f, f.number(n), rule)
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
	defer t.outlives(pool, f)
	p, view, w := &t.s.pools[pool], t.view(pool, f), t.wants[pool][f]
	n := &p.nudges[f]
	if w.on && w.value.same(t.original(pool, f)) {
		w.on = false // what is wanted is what there is without us
	}
	t.yielded(pool, f, n)
	switch {
	case n.on && !t.writable(pool, f):
		t.find(Finding{Kind: FindConsentWithdrawn, Pool: int8(pool), Field: f, Resource: t.s.resource(f), Rule: n.rule, Name: cmp.Or(string(n.original), "absent")})
	case !w.on || t.releasing || !t.allowed(pool, f, view, w):
		t.restore(pool, f, view, patch)
	case t.g.Advisory:
		plan.Changes = append(plan.Changes, t.change(f, view, w.value, t.original(pool, f), view.Owner, w.rule))
		t.restore(pool, f, view, patch)
	case t.at < n.retry:
		// Left alone after somebody else's edit.
	case !n.on:
		*n = nudge{on: true, to: w.value, before: view.Value, original: t.original(pool, f), owner: view.Owner, rule: w.rule,
			at: t.at, since: t.at, overwrites: n.overwrites, yielded: n.yielded}
		t.emit(pool, f, view, patch)
	case !n.to.same(w.value) || n.releasing:
		if !t.loosens(f, n.to, w.value) && !n.releasing && t.at-n.at < tighten.Milliseconds() {
			return
		}
		n.before, n.to, n.rule, n.at, n.seen, n.releasing = view.Value, w.value, w.rule, t.at, false, false
		t.emit(pool, f, view, patch)
	default:
		if n.rule != w.rule {
			n.rule, p.stale = w.rule, true // another rule wants the same
		}
		if !n.seen && t.repeats(n.at) {
			n.at = t.at
			t.emit(pool, f, view, patch)
		}
	}
}

// complete adds what stays ours, and restores that were asked for and not seen yet: an apply that leaves such a field out would remove
// it where the restore never arrived.
func (t *tick) complete(pool int, patch *NodePoolPatch) {
	for f := range numFields {
		n, resource := &t.s.pools[pool].nudges[f], t.s.resource(f)
		switch {
		case n.on && !n.releasing:
			patch.Overrides = append(patch.Overrides, Change{Field: f, Resource: resource, From: n.to, To: n.to, Original: n.original, Owner: n.owner, Rule: n.rule})
		case n.on && !slices.ContainsFunc(patch.Changes, func(c Change) bool { return c.Field == f }):
			n.at = t.at
			patch.Changes = append(patch.Changes, t.goesBack(pool, f, t.view(pool, f)))
		}
	}
}

// goesBack is the change that restores a field.
func (t *tick) goesBack(pool int, f Field, view FieldView) Change {
	n := &t.s.pools[pool].nudges[f]
	c := t.change(f, view, n.original, n.original, n.owner, RuleRelease)
	c.Restore = true
	return c
}

// outlives reports a limit of ours: weights only cost money and holds end by themselves, a limit that nobody lifts stops pods.
func (t *tick) outlives(pool int, f Field) {
	if n := &t.s.pools[pool].nudges[f]; f >= FieldLimit && n.on && !n.releasing {
		t.find(Finding{Kind: FindPermanentLimit, Pool: int8(pool), Field: f, Resource: t.s.resource(f), Rule: n.rule})
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
	case n.on && t.repeats(n.at):
		n.at = t.at
	case !n.on && view.Ours && !view.Unsupported && t.writable(pool, f):
		t.orphan(pool, f, view)
	default:
		return
	}
	patch.Changes = append(patch.Changes, t.goesBack(pool, f, view))
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
	return !t.g.Advisory && t.handedOver(pool, f) && !t.view(pool, f).Unsupported && t.at >= t.s.pools[pool].nudges[f].retry
}

// allowed tells whether the field was handed over and exists, and reports it otherwise.
func (t *tick) allowed(pool int, f Field, view FieldView, w want) bool {
	finding := Finding{Pool: int8(pool), Field: f, Resource: t.s.resource(f), Rule: w.rule}
	switch {
	case view.Unsupported:
		finding.Kind = FindUnsupported
	case len(t.original(pool, f)) > maxOriginal:
		finding.Kind = FindUnreadable
	case !t.handedOver(pool, f):
		finding.Kind = FindNotConsented
	default:
		return true
	}
	t.find(finding)
	return false
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

// writeRecord adds the record where it changed. Without any consent the API server refuses it.
func (t *tick) writeRecord(pool int, patch *NodePoolPatch) {
	p := &t.s.pools[pool]
	if t.o.Pools[pool].Consent&consentAny == 0 {
		return
	}
	if p.stale {
		p.record = t.s.encode(pool)
		p.stale = false
	}
	patch.Record = p.record
	differs := p.record != t.o.Pools[pool].Record
	if len(patch.Changes) > 0 || differs && (p.record != p.written || t.repeats(p.writtenAt)) {
		p.written, p.writtenAt = p.record, t.at
		t.complete(pool, patch)
		t.d.Actions = append(t.d.Actions, *patch)
	}
}
