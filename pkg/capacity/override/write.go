package override

import (
	"cmp"
	"slices"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// Write compares the requested values for a NodePool with its overrides and returns the patch. due is false if there is nothing to write.
// plan contains the changes that would be written if the group were not advisory.
func (fs *Fields) Write(pool int) (patch, plan Patch, due bool) {
	newer := fs.State.Pools[pool].newer != nil
	if newer {
		fs.requests[pool] = [nodepool.NumFields]request{}
	}
	for f := range nodepool.NumFields {
		fs.writeField(pool, f, &patch, &plan)
		fs.reportPermanentLimit(pool, f)
	}
	if newer {
		return patch, plan, fs.writeNewer(pool, &patch)
	}
	return patch, plan, fs.writeRecord(pool, &patch)
}

// writeField compares the requested value of a field with its override and adds the necessary change to the patch. In an advisory group it
// adds the change to the plan instead.
func (fs *Fields) writeField(pool int, f nodepool.Field, patch, plan *Patch) {
	p, view, r := &fs.State.Pools[pool], fs.view(pool, f), fs.requests[pool][f]
	o := &p.Overrides[f]
	if r.on && r.value.Same(fs.Original(pool, f)) {
		r.on = false // no override is needed, because the field already has this value
	}
	fs.reportYield(pool, f)
	switch {
	case o.On && !fs.Views[pool].Writable(f):
		fs.Report.Find(explain.Finding{Kind: explain.FindConsentWithdrawn, Pool: int8(pool), Field: f, Resource: fs.State.Limits.Resource(f),
			Rule: o.Rule, Name: cmp.Or(string(o.Original), "absent")})
	case !r.on || fs.Releasing || !fs.allowed(pool, f, view, r):
		fs.restore(pool, f, view, patch)
	case fs.Advisory:
		planned := Override{To: r.value, Original: fs.Original(pool, f), Owner: view.Owner, Rule: r.rule}
		plan.Changes = append(plan.Changes, fs.change(f, view, &planned))
		fs.restore(pool, f, view, patch)
	case fs.At < o.Retry:
		// another manager edited the field, and the time without overrides after the edit has not ended
	case !o.On:
		*o = Override{On: true, To: r.value, Before: view.Value, Original: fs.Original(pool, f), Owner: view.Owner, Rule: r.rule,
			At: fs.At, Since: fs.At, Overwrites: o.Overwrites, Yielded: o.Yielded}
		fs.addChange(pool, f, view, patch)
	case !o.To.Same(r.value) || o.Releasing:
		if !loosens(f, o.To, r.value) && !o.Releasing && fs.At-o.At < tightenInterval.Milliseconds() {
			return
		}
		o.Before, o.To, o.Rule, o.At, o.Seen, o.Releasing = view.Value, r.value, r.rule, fs.At, false, false
		fs.addChange(pool, f, view, patch)
	default:
		if o.Rule != r.rule {
			o.Rule, p.Stale = r.rule, true // another rule needs the same value
		}
		if !o.Seen && fs.repeatDue(o.At) {
			o.At = fs.At
			fs.addChange(pool, f, view, patch)
		}
	}
}

// allowed reports whether the field may be overridden. If it may not, allowed adds a finding with the reason.
func (fs *Fields) allowed(pool int, f nodepool.Field, view nodepool.FieldView, r request) bool {
	finding := explain.Finding{Pool: int8(pool), Field: f, Resource: fs.State.Limits.Resource(f), Rule: r.rule}
	switch {
	case view.Unsupported:
		finding.Kind = explain.FindUnsupported
	case len(fs.Original(pool, f)) > maxOriginal:
		finding.Kind = explain.FindUnreadable
	case !fs.Views[pool].Consented(f):
		finding.Kind = explain.FindNotConsented
	default:
		return true
	}
	fs.Report.Find(finding)
	return false
}

// change returns the change that writes an override.
func (fs *Fields) change(f nodepool.Field, view nodepool.FieldView, o *Override) Change {
	return Change{Field: f, Resource: fs.State.Limits.Resource(f), From: view.Value, To: o.To, Original: o.Original, Owner: o.Owner,
		Rule: o.Rule}
}

// restoring returns the change that restores the owner's value.
func (fs *Fields) restoring(pool int, f nodepool.Field, view nodepool.FieldView) Change {
	c := fs.change(f, view, &fs.State.Pools[pool].Overrides[f])
	c.To, c.Rule, c.Restore = c.Original, explain.RuleRelease, true
	return c
}

// addChange adds an override to the patch.
func (fs *Fields) addChange(pool int, f nodepool.Field, view nodepool.FieldView, patch *Patch) {
	o := &fs.State.Pools[pool].Overrides[f]
	patch.Changes = append(patch.Changes, fs.change(f, view, o))
	patch.Loosens = patch.Loosens || loosens(f, view.Value, o.To)
	fs.State.Pools[pool].Stale = true
}

// restore adds to the patch the change that restores the owner's value of a field. Either the field is overridden, or gpuscaler has owned
// the field since a previous leader but has no record of the override.
func (fs *Fields) restore(pool int, f nodepool.Field, view nodepool.FieldView, patch *Patch) {
	p := &fs.State.Pools[pool]
	o := &p.Overrides[f]
	switch {
	case o.On && !o.Releasing:
		o.Releasing, o.Before, o.At = true, view.Value, fs.At
	case o.On && fs.repeatDue(o.At):
		o.At = fs.At
	case !o.On && view.Ours && !view.Unsupported && fs.Views[pool].Writable(f) && p.newer == nil:
		fs.adoptWithoutRecord(pool, f, view)
	default:
		return
	}
	patch.Changes = append(patch.Changes, fs.restoring(pool, f, view))
	patch.Loosens = patch.Loosens || loosens(f, view.Value, o.Original)
	p.Stale = true
}

// adoptWithoutRecord creates an override for a field that gpuscaler owns although the record was removed, so that the field can be
// restored. If another manager also owns the value, the value is not changed. Otherwise, the original value of budgets is the list
// without the entries of a freeze, and the original value of every other field is unknown. A field with an unknown original value is
// removed, so that Karpenter's default applies.
func (fs *Fields) adoptWithoutRecord(pool int, f nodepool.Field, view nodepool.FieldView) {
	original := nodepool.Value("")
	switch {
	case view.Owner != "":
		original = view.Value
	case f == nodepool.FieldBudgets:
		original, _ = statemachine.WithoutFreeze(view.Value)
	}
	fs.State.Pools[pool].Overrides[f] = Override{On: true, Releasing: true, Seen: true, To: view.Value, Before: view.Value, Original: original,
		Owner: view.Owner, Rule: explain.RuleRelease, At: fs.At, Since: fs.At}
}

// loosens reports whether a change of a limit allows more nodes. It is false for every other field.
func loosens(f nodepool.Field, from, to nodepool.Value) bool {
	if f < nodepool.FieldLimit || from == "" {
		return false
	}
	a, ok1 := from.Number()
	b, ok2 := to.Number()
	return to == "" || ok1 && ok2 && b > a
}

// writeRecord sets the record annotation of the patch, and reports whether a field or the record must be written. If gpuscaler.io/nudge
// lists no field, writeRecord does nothing and returns false, because the chart's admission policy rejects a write of the record.
func (fs *Fields) writeRecord(pool int, patch *Patch) (due bool) {
	p := &fs.State.Pools[pool]
	if fs.Views[pool].Consent&nodepool.ConsentAny == 0 {
		return false
	}
	if p.Stale {
		p.Record = fs.encode(pool)
		p.Stale = false
	}
	patch.Record = p.Record
	differs := p.Record != fs.Views[pool].Record
	if len(patch.Changes) == 0 && (!differs || p.Record == p.Written && !fs.repeatDue(p.WrittenAt)) {
		return false
	}
	p.Written, p.WrittenAt = p.Record, fs.At
	fs.completePatch(pool, patch)
	return true
}

// completePatch adds the unchanged overrides to the patch. Without them, the server-side apply would give up the ownership of these
// fields, and the API server would remove the fields. For the same reason completePatch repeats each restore until an observation
// contains it.
func (fs *Fields) completePatch(pool int, patch *Patch) {
	for f := range nodepool.NumFields {
		o := &fs.State.Pools[pool].Overrides[f]
		switch {
		case o.InForce():
			patch.Overrides = append(patch.Overrides, fs.change(f, nodepool.FieldView{Value: o.To}, o))
		case o.On && !slices.ContainsFunc(patch.Changes, func(c Change) bool { return c.Field == f }):
			o.At = fs.At
			patch.Changes = append(patch.Changes, fs.restoring(pool, f, fs.view(pool, f)))
		}
	}
}

// reportYield adds a reason, and after the third edit a finding, for a field that is not overridden because another manager edited it.
func (fs *Fields) reportYield(pool int, f nodepool.Field) {
	o := &fs.State.Pools[pool].Overrides[f]
	if fs.At >= o.Retry {
		return
	}
	resource := fs.State.Limits.Resource(f)
	fs.Report.Because(explain.Reason{Rule: explain.RuleForeignEdit, Pool: int8(pool), Name: f.Name(resource), A: float64(o.Overwrites),
		Until: statemachine.Instant(o.Retry)})
	if o.Overwrites >= maxOverwrites {
		fs.Report.Find(explain.Finding{Kind: explain.FindContested, Pool: int8(pool), Field: f, Resource: resource, Count: int(o.Overwrites),
			Until: statemachine.Instant(o.Retry)})
	}
}

// reportPermanentLimit adds a finding for an overridden limit. If gpuscaler is killed and does not start again, the limit stays and pods
// cannot get nodes. A weight that stays only increases the cost, and a consolidation freeze ends by itself.
func (fs *Fields) reportPermanentLimit(pool int, f nodepool.Field) {
	if o := &fs.State.Pools[pool].Overrides[f]; f >= nodepool.FieldLimit && o.InForce() {
		fs.Report.Find(explain.Finding{Kind: explain.FindPermanentLimit, Pool: int8(pool), Field: f, Resource: fs.State.Limits.Resource(f),
			Rule: o.Rule})
	}
}

// repeatDue reports whether a write must be repeated, because no observation contains it yet. The parameter at is the time of the write.
func (fs *Fields) repeatDue(at int64) bool {
	interval := statemachine.RepeatInterval
	if fs.Leaving {
		interval = shutdownRepeatInterval
	}
	return fs.At-at >= interval.Milliseconds()
}
