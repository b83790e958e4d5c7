package capacity

import (
	"cmp"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// request is the value that a rule needs for one field in this tick.
type request struct {
	on    bool
	value nodepool.Value
	rule  explain.Rule
}

// request requests a value for a field on behalf of a rule. If several rules request a value for the same field, the last request is used.
// A limit for devices of a DeviceClass is not requested, because it would have no effect.
func (t *tick) request(pool int, f nodepool.Field, v nodepool.Value, rule explain.Rule) {
	if f == nodepool.FieldLimit && t.g.countsDevices() {
		return
	}
	t.requests[pool][f] = request{on: true, value: v, rule: rule}
}

// requestNumber requests a number for a limit or a weight. If the override already has this number, its text is reused, so that a tick
// without changes allocates no memory.
func (t *tick) requestNumber(pool int, f nodepool.Field, n int64, rule explain.Rule) {
	if o := &t.s.Pools[pool].Overrides[f]; o.On {
		if current, ok := o.To.Number(); ok && current == n {
			t.request(pool, f, o.To, rule)
			return
		}
	}
	t.request(pool, f, f.Number(n), rule)
}

// write turns the requests into patches, one for each NodePool that changes.
func (t *tick) write() {
	for i := range t.views() {
		if !t.o.Pools[i].Exists {
			continue
		}
		patch := NodePoolPatch{Pool: t.g.Pools[i].Name}
		plan := NodePoolPatch{Pool: patch.Pool}
		newer := t.s.Pools[i].newer != nil
		if newer {
			t.requests[i] = [nodepool.NumFields]request{}
		}
		for f := range nodepool.NumFields {
			t.writeField(i, f, &patch, &plan)
			t.reportPermanentLimit(i, f)
		}
		if newer {
			t.writeNewer(i, &patch)
		} else {
			t.writeRecord(i, &patch)
		}
		if len(plan.Changes) > 0 {
			t.d.Plan = append(t.d.Plan, plan)
		}
	}
}

// writeField compares the requested value of a field with its override and adds the necessary change to the patch. In an advisory group it
// adds the change to the plan instead.
func (t *tick) writeField(pool int, f nodepool.Field, patch, plan *NodePoolPatch) {
	p, view, r := &t.s.Pools[pool], t.view(pool, f), t.requests[pool][f]
	o := &p.Overrides[f]
	if r.on && r.value.Same(t.original(pool, f)) {
		r.on = false // the field already has this value without an override
	}
	t.reportYield(pool, f)
	switch {
	case o.On && !t.writable(pool, f):
		t.find(explain.Finding{Kind: explain.FindConsentWithdrawn, Pool: int8(pool), Field: f, Resource: t.s.resource(f), Rule: o.Rule,
			Name: cmp.Or(string(o.Original), "absent")})
	case !r.on || t.releasing || !t.allowed(pool, f, view, r):
		t.restore(pool, f, view, patch)
	case t.g.Advisory:
		planned := override{To: r.value, Original: t.original(pool, f), Owner: view.Owner, Rule: r.rule}
		plan.Changes = append(plan.Changes, t.change(f, view, &planned))
		t.restore(pool, f, view, patch)
	case t.at < o.Retry:
		// Another manager edited the field, and the wait after the edit is not over: do not override it.
	case !o.On:
		*o = override{On: true, To: r.value, Before: view.Value, Original: t.original(pool, f), Owner: view.Owner, Rule: r.rule,
			At: t.at, Since: t.at, Overwrites: o.Overwrites, Yielded: o.Yielded}
		t.addChange(pool, f, view, patch)
	case !o.To.Same(r.value) || o.Releasing:
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

// allowed reports whether the field may be overridden. If not, it adds a finding with the reason.
func (t *tick) allowed(pool int, f nodepool.Field, view nodepool.FieldView, r request) bool {
	finding := explain.Finding{Pool: int8(pool), Field: f, Resource: t.s.resource(f), Rule: r.rule}
	switch {
	case view.Unsupported:
		finding.Kind = explain.FindUnsupported
	case len(t.original(pool, f)) > maxOriginal:
		finding.Kind = explain.FindUnreadable
	case !t.consented(pool, f):
		finding.Kind = explain.FindNotConsented
	default:
		return true
	}
	t.find(finding)
	return false
}

// change returns the change that writes an override.
func (t *tick) change(f nodepool.Field, view nodepool.FieldView, o *override) Change {
	return Change{Field: f, Resource: t.s.resource(f), From: view.Value, To: o.To, Original: o.Original, Owner: o.Owner, Rule: o.Rule}
}

// restoring returns the change that restores the owner's value.
func (t *tick) restoring(pool int, f nodepool.Field, view nodepool.FieldView) Change {
	c := t.change(f, view, &t.s.Pools[pool].Overrides[f])
	c.To, c.Rule, c.Restore = c.Original, explain.RuleRelease, true
	return c
}

// addChange adds an override to the patch.
func (t *tick) addChange(pool int, f nodepool.Field, view nodepool.FieldView, patch *NodePoolPatch) {
	o := &t.s.Pools[pool].Overrides[f]
	patch.Changes = append(patch.Changes, t.change(f, view, o))
	patch.Loosens = patch.Loosens || t.loosens(f, view.Value, o.To)
	t.s.Pools[pool].Stale = true
}

// restore adds the change that restores the owner's value of a field to the patch. The field is overridden, or gpuscaler owns it without a
// record because of a previous leader.
func (t *tick) restore(pool int, f nodepool.Field, view nodepool.FieldView, patch *NodePoolPatch) {
	p := &t.s.Pools[pool]
	o := &p.Overrides[f]
	switch {
	case o.On && !o.Releasing:
		o.Releasing, o.Before, o.At = true, view.Value, t.at
	case o.On && t.repeatDue(o.At):
		o.At = t.at
	case !o.On && view.Ours && !view.Unsupported && t.writable(pool, f) && p.newer == nil:
		t.adoptWithoutRecord(pool, f, view)
	default:
		return
	}
	patch.Changes = append(patch.Changes, t.restoring(pool, f, view))
	patch.Loosens = patch.Loosens || t.loosens(f, view.Value, o.Original)
	p.Stale = true
}

// adoptWithoutRecord creates an override for a field that gpuscaler owns although the record was removed, so that the field can be
// restored. A value that another manager owns too is kept. Otherwise, for budgets, the original value is the list without the entries of
// a freeze. For every other field, the original value is unknown. The field is then removed, so that Karpenter's default applies.
func (t *tick) adoptWithoutRecord(pool int, f nodepool.Field, view nodepool.FieldView) {
	original := nodepool.Value("")
	switch {
	case view.Owner != "":
		original = view.Value
	case f == nodepool.FieldBudgets:
		original, _ = statemachine.WithoutFreeze(view.Value)
	}
	t.s.Pools[pool].Overrides[f] = override{On: true, Releasing: true, Seen: true, To: view.Value, Before: view.Value, Original: original,
		Owner: view.Owner, Rule: explain.RuleRelease, At: t.at, Since: t.at}
}

// loosens reports whether a change of a limit allows more nodes. It is false for every other field.
func (t *tick) loosens(f nodepool.Field, from, to nodepool.Value) bool {
	if f < nodepool.FieldLimit || from == "" {
		return false
	}
	a, ok1 := from.Number()
	b, ok2 := to.Number()
	return to == "" || ok1 && ok2 && b > a
}

// writeRecord sets the record of the patch. It adds the patch to the actions if a field or the record must be written. If
// gpuscaler.io/nudge lists no field, it does nothing, because the chart's admission policy rejects a write of the record.
func (t *tick) writeRecord(pool int, patch *NodePoolPatch) {
	p := &t.s.Pools[pool]
	if t.o.Pools[pool].Consent&nodepool.ConsentAny == 0 {
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

// completePatch adds the unchanged overrides to the patch. Without them, the server-side apply would give up the ownership of these fields
// and the API server would remove them. For the same reason it repeats each restore until an observation shows it.
func (t *tick) completePatch(pool int, patch *NodePoolPatch) {
	for f := range nodepool.NumFields {
		o := &t.s.Pools[pool].Overrides[f]
		switch {
		case o.On && !o.Releasing:
			patch.Overrides = append(patch.Overrides, t.change(f, nodepool.FieldView{Value: o.To}, o))
		case o.On && !slices.ContainsFunc(patch.Changes, func(c Change) bool { return c.Field == f }):
			o.At = t.at
			patch.Changes = append(patch.Changes, t.restoring(pool, f, t.view(pool, f)))
		}
	}
}

// reportPermanentLimit adds a finding for an overridden limit. If gpuscaler is killed and does not start again, the limit stays and pods
// cannot get nodes. A weight that stays only costs money, and a consolidation freeze ends by itself.
func (t *tick) reportPermanentLimit(pool int, f nodepool.Field) {
	if o := &t.s.Pools[pool].Overrides[f]; f >= nodepool.FieldLimit && o.On && !o.Releasing {
		t.find(explain.Finding{Kind: explain.FindPermanentLimit, Pool: int8(pool), Field: f, Resource: t.s.resource(f), Rule: o.Rule})
	}
}
