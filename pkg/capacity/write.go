package capacity

import (
	"cmp"
	"slices"
)

// request is the value that a rule needs for one field in this tick.
type request struct {
	on    bool
	value Value
	rule  Rule
}

// request sets the value that a rule needs for a field. A later rule wins.
func (t *tick) request(pool int, f Field, v Value, rule Rule) {
	t.requests[pool][f] = request{on: true, value: v, rule: rule}
}

// requestNumber requests a limit or a weight. A number that is in force keeps its text, so that a quiet tick allocates nothing.
func (t *tick) requestNumber(pool int, f Field, n int64, rule Rule) {
	if o := &t.s.Pools[pool].Overrides[f]; o.On {
		if current, ok := o.To.number(); ok && current == n {
			t.request(pool, f, o.To, rule)
			return
		}
	}
	t.request(pool, f, f.number(n), rule)
}

// write turns the requests into patches, one for each NodePool that changes.
func (t *tick) write() {
	for i := range t.views() {
		if !t.o.Pools[i].Exists {
			continue
		}
		patch := NodePoolPatch{Pool: t.g.Pools[i].Name}
		plan := NodePoolPatch{Pool: patch.Pool}
		for f := range numFields {
			t.writeField(i, f, &patch, &plan)
			t.reportPermanentLimit(i, f)
		}
		t.writeRecord(i, &patch)
		if len(plan.Changes) > 0 {
			t.d.Plan = append(t.d.Plan, plan)
		}
	}
}

// writeField compares the request for a field with its override, and adds what differs to the patch, or to the plan of an advisory group.
func (t *tick) writeField(pool int, f Field, patch, plan *NodePoolPatch) {
	p, view, r := &t.s.Pools[pool], t.view(pool, f), t.requests[pool][f]
	o := &p.Overrides[f]
	if r.on && r.value.same(t.original(pool, f)) {
		r.on = false // the field has the value without an override
	}
	t.reportYield(pool, f)
	switch {
	case o.On && !t.writable(pool, f):
		t.find(Finding{Kind: FindConsentWithdrawn, Pool: int8(pool), Field: f, Resource: t.s.resource(f), Rule: o.Rule,
			Name: cmp.Or(string(o.Original), "absent")})
	case !r.on || t.releasing || !t.allowed(pool, f, view, r):
		t.restore(pool, f, view, patch)
	case t.g.Advisory:
		planned := override{To: r.value, Original: t.original(pool, f), Owner: view.Owner, Rule: r.rule}
		plan.Changes = append(plan.Changes, t.change(f, view, &planned))
		t.restore(pool, f, view, patch)
	case t.at < o.Retry:
		// Not overridden after an edit of another manager.
	case !o.On:
		*o = override{On: true, To: r.value, Before: view.Value, Original: t.original(pool, f), Owner: view.Owner, Rule: r.rule,
			At: t.at, Since: t.at, Overwrites: o.Overwrites, Yielded: o.Yielded}
		t.addChange(pool, f, view, patch)
	case !o.To.same(r.value) || o.Releasing:
		if !t.loosens(f, o.To, r.value) && !o.Releasing && t.at-o.At < tightenInterval.Milliseconds() {
			return
		}
		o.Before, o.To, o.Rule, o.At, o.Seen, o.Releasing = view.Value, r.value, r.rule, t.at, false, false
		t.addChange(pool, f, view, patch)
	default:
		if o.Rule != r.rule {
			o.Rule, p.Stale = r.rule, true // another rule needs the same value
		}
		if !o.Seen && t.repeatDue(o.At) {
			o.At = t.at
			t.addChange(pool, f, view, patch)
		}
	}
}

// allowed reports whether the field may be overridden, and reports why not.
func (t *tick) allowed(pool int, f Field, view FieldView, r request) bool {
	finding := Finding{Pool: int8(pool), Field: f, Resource: t.s.resource(f), Rule: r.rule}
	switch {
	case view.Unsupported:
		finding.Kind = FindUnsupported
	case len(t.original(pool, f)) > maxOriginal:
		finding.Kind = FindUnreadable
	case !t.consented(pool, f):
		finding.Kind = FindNotConsented
	default:
		return true
	}
	t.find(finding)
	return false
}

// change returns the change that writes an override.
func (t *tick) change(f Field, view FieldView, o *override) Change {
	return Change{Field: f, Resource: t.s.resource(f), From: view.Value, To: o.To, Original: o.Original, Owner: o.Owner, Rule: o.Rule}
}

// restoring returns the change that restores the owner's value.
func (t *tick) restoring(pool int, f Field, view FieldView) Change {
	c := t.change(f, view, &t.s.Pools[pool].Overrides[f])
	c.To, c.Rule, c.Restore = c.Original, RuleRelease, true
	return c
}

// addChange adds an override to the patch.
func (t *tick) addChange(pool int, f Field, view FieldView, patch *NodePoolPatch) {
	o := &t.s.Pools[pool].Overrides[f]
	patch.Changes = append(patch.Changes, t.change(f, view, o))
	patch.Loosens = patch.Loosens || t.loosens(f, view.Value, o.To)
	t.s.Pools[pool].Stale = true
}

// restore restores a field that is overridden, or that a previous leader overrode without a record.
func (t *tick) restore(pool int, f Field, view FieldView, patch *NodePoolPatch) {
	p := &t.s.Pools[pool]
	o := &p.Overrides[f]
	switch {
	case o.On && !o.Releasing:
		o.Releasing, o.Before, o.At = true, view.Value, t.at
	case o.On && t.repeatDue(o.At):
		o.At = t.at
	case !o.On && view.Ours && !view.Unsupported && t.writable(pool, f):
		t.adoptWithoutRecord(pool, f, view)
	default:
		return
	}
	patch.Changes = append(patch.Changes, t.restoring(pool, f, view))
	patch.Loosens = patch.Loosens || t.loosens(f, view.Value, o.Original)
	p.Stale = true
}

// adoptWithoutRecord adopts a field that gpuscaler owns although the annotation was removed. Budgets lose the entries of a freeze. The
// original value of every other field is unknown: it is removed, so that Karpenter's default applies.
func (t *tick) adoptWithoutRecord(pool int, f Field, view FieldView) {
	original := Value("")
	if f == FieldBudgets {
		original, _ = withoutFreeze(view.Value)
	}
	t.s.Pools[pool].Overrides[f] = override{On: true, Releasing: true, Seen: true, To: view.Value, Before: view.Value, Original: original,
		Owner: view.Owner, Rule: RuleRelease, At: t.at, Since: t.at}
}

// loosens reports whether a change allows nodes that were not allowed before.
func (t *tick) loosens(f Field, from, to Value) bool {
	if f < FieldLimit || from == "" {
		return false
	}
	a, ok1 := from.number()
	b, ok2 := to.number()
	return to == "" || ok1 && ok2 && b > a
}

// writeRecord adds the record to the patch, and the patch to the actions if anything differs. Without any consent, the API server refuses
// the record.
func (t *tick) writeRecord(pool int, patch *NodePoolPatch) {
	p := &t.s.Pools[pool]
	if t.o.Pools[pool].Consent&consentAny == 0 {
		return
	}
	if p.Stale {
		p.Record = t.s.encode(pool)
		p.Stale = false
	}
	patch.Record = p.Record
	differs := p.Record != t.o.Pools[pool].Record
	if len(patch.Changes) > 0 || differs && (p.Record != p.Written || t.repeatDue(p.WrittenAt)) {
		p.Written, p.WrittenAt = p.Record, t.at
		t.completePatch(pool, patch)
		t.d.Actions = append(t.d.Actions, *patch)
	}
}

// completePatch adds the overrides that stay, and the restores that were written and not observed yet: an apply without such a field
// would remove it if the restore did not arrive.
func (t *tick) completePatch(pool int, patch *NodePoolPatch) {
	for f := range numFields {
		o := &t.s.Pools[pool].Overrides[f]
		switch {
		case o.On && !o.Releasing:
			patch.Overrides = append(patch.Overrides, t.change(f, FieldView{Value: o.To}, o))
		case o.On && !slices.ContainsFunc(patch.Changes, func(c Change) bool { return c.Field == f }):
			o.At = t.at
			patch.Changes = append(patch.Changes, t.restoring(pool, f, t.view(pool, f)))
		}
	}
}

// reportPermanentLimit reports an overridden limit. A weight only costs money and a freeze ends by itself, but a limit that nothing
// removes stops pods.
func (t *tick) reportPermanentLimit(pool int, f Field) {
	if o := &t.s.Pools[pool].Overrides[f]; f >= FieldLimit && o.On && !o.Releasing {
		t.find(Finding{Kind: FindPermanentLimit, Pool: int8(pool), Field: f, Resource: t.s.resource(f), Rule: o.Rule})
	}
}
