package override

import (
	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// Adopt reads the overrides of a previous leader from the record annotation of a NodePool, when this leader observes the NodePool for the
// first time. It reads the record again if gpuscaler owns a field that is not overridden according to the state. This happens if the
// first observation was older than the previous leader's last write.
func (fs *Fields) Adopt(pool int) {
	p, v := &fs.State.Pools[pool], fs.Views[pool]
	if p.UID != "" && p.UID != v.UID {
		*p = Pool{} // the NodePool was deleted with its overrides, and created again
	}
	p.UID = v.UID
	for i := range v.Limits {
		if l := &v.Limits[i]; l.Ours {
			fs.State.Limits.Field(l.Resource) // reserves a field for a limit that gpuscaler set before the group was changed
		}
	}
	fs.examineRecord(pool)
	if p.newer != nil {
		fs.adoptNewer(pool)
		return
	}
	var unknown nodepool.FieldSet
	for f := range nodepool.NumFields {
		if !p.Overrides[f].On && (!p.Adopted || fs.view(pool, f).Ours) {
			unknown |= 1 << f
		}
	}
	if unknown == 0 {
		return
	}
	p.Adopted, p.Stale = true, true
	if !fs.load(pool, v.Record, unknown) {
		fs.Report.Find(explain.Finding{Kind: explain.FindRecord, Pool: int8(pool)})
	}
	for f := range nodepool.NumFields {
		if unknown&(1<<f) != 0 {
			fs.adopt(pool, f)
		}
	}
}

// adopt checks an override that was read from a record. gpuscaler writes the record and the value in one request. If it does not own the
// field, another manager must therefore have edited the field while no leader ran.
func (fs *Fields) adopt(pool int, f nodepool.Field) {
	o, view := &fs.State.Pools[pool].Overrides[f], fs.view(pool, f)
	switch {
	case !o.On || view.Ours:
	case view.Value.Same(o.Original):
		// The field has the owner's original value again. Either a user has set this value, or a restore has set it and has not removed the
		// record. The field is not overridden for shortYield. This does not count as an edit, because the third edit causes longYield. The
		// record contains the time until which the field is not overridden, so that the next leader waits too.
		retry := fs.At + shortYield.Milliseconds()
		*o = o.yield()
		o.Retry = retry
	default:
		o.Seen = true
	}
}

// Settle compares every override of a NodePool with the observed value of its field. It detects edits of other managers and completed
// restores.
func (fs *Fields) Settle(pool int) {
	for f := range nodepool.NumFields {
		o := &fs.State.Pools[pool].Overrides[f]
		if o.On {
			fs.settle(pool, f)
		} else if o.forgotten(fs.At) {
			*o = Override{}
			fs.State.Pools[pool].Stale = true
		}
	}
}

func (fs *Fields) settle(pool int, f nodepool.Field) {
	p, view := &fs.State.Pools[pool], fs.view(pool, f)
	o, value := &p.Overrides[f], view.Value
	if !fs.Views[pool].Writable(f) {
		fs.settleWithoutConsent(pool, f)
		return
	}
	switch {
	case o.Releasing && value.Same(o.Original) && !view.Ours:
		*o, p.Stale = o.yield(), true
	case o.Releasing && value.Same(o.Original):
		// the owner's value is restored, but gpuscaler still owns the field
	case value.Same(o.To) && (fs.wasSetBefore(pool, f) || fs.wasSetAgain(pool, f)):
		// another manager set the value of the override, so this value, and not Original, is now the owner's value
		*o, p.Stale = o.overwritten(fs.At), true
	case value.Same(o.To):
		// the override continues, even if another manager also owns the field: Argo CD applies the observed value of a field that it ignores
		o.Seen = true
	case fs.isBehind(pool, f):
	case f == nodepool.FieldBudgets && !o.Releasing && statemachine.HasFreeze(value):
		o.Original, _ = statemachine.WithoutFreeze(value)
		o.To, o.Seen, p.Stale = value, true, true
	case view.Ours:
		// a previous leader wrote this value after this leader's first observation, so the override is read from the record
		*o = Override{}
		fs.load(pool, fs.Views[pool].Record, 1<<f)
	default:
		*o, p.Stale = o.overwritten(fs.At), true
	}
}

// settleWithoutConsent does the work of Settle for an overridden field that gpuscaler.io/nudge no longer lists. The override stays until
// the owner lists the field again or changes its value. If a write failed that gpuscaler sent before the owner's edit of
// gpuscaler.io/nudge, the field still has an earlier value of the override, which gpuscaler owns. The next server-side apply must contain
// this value. Otherwise the API server removes the field.
func (fs *Fields) settleWithoutConsent(pool int, f nodepool.Field) {
	p, view := &fs.State.Pools[pool], fs.view(pool, f)
	o := &p.Overrides[f]
	switch {
	case view.Value.Same(o.To) && !fs.wasSetBefore(pool, f) && !fs.wasSetAgain(pool, f):
		o.Seen, o.Releasing = true, false
	case view.Ours && !view.Value.Same(o.Original):
		o.To, o.Seen, o.Releasing, p.Stale = view.Value, true, false, true
	default:
		*o, p.Stale = Override{}, true // the owner changed the value
	}
}

// wasSetBefore reports whether another manager set the value of an override before gpuscaler's write: gpuscaler does not own the field, and
// the record does not contain the override.
func (fs *Fields) wasSetBefore(pool int, f nodepool.Field) bool {
	o := &fs.State.Pools[pool].Overrides[f]
	return !o.Seen && !fs.view(pool, f).Ours && !fs.wasApplied(pool, f)
}

// wasSetAgain reports whether another manager owns a field that has the value of its override, although gpuscaler owns the record.
// gpuscaler writes the value and the record in one server-side apply with force, so gpuscaler owned the field after this apply. An apply
// or update of another manager with the same value does not end this ownership. The other manager therefore set another value first, or
// removed the field. If gpuscaler does not own the record, wasSetAgain returns false: managedFields was reset, or the NodePool was
// created from a copy.
//
// For a list of budgets with the entries of a freeze, the result is false: its owner edited other entries, and kept the entries of the
// freeze.
func (fs *Fields) wasSetAgain(pool int, f nodepool.Field) bool {
	o, view := &fs.State.Pools[pool].Overrides[f], fs.view(pool, f)
	if f == nodepool.FieldBudgets && !o.Releasing && statemachine.HasFreeze(view.Value) {
		return false
	}
	return fs.Views[pool].RecordOurs && !view.Ours && view.Owner != ""
}

// isBehind reports whether the observation still contains the value from before the last write. Either the write is not complete, or the
// cache is outdated.
func (fs *Fields) isBehind(pool int, f nodepool.Field) bool {
	o, view := &fs.State.Pools[pool].Overrides[f], fs.view(pool, f)
	return view.Value.Same(o.Before) && (o.Releasing || !o.Seen && !fs.wasReverted(pool, f))
}

// wasReverted reports whether another manager, such as Argo CD, reverted gpuscaler's write before the cache contained it. The NodePool
// then has the record of the write, but gpuscaler does not own the field.
func (fs *Fields) wasReverted(pool int, f nodepool.Field) bool {
	return !fs.view(pool, f).Ours && fs.wasApplied(pool, f)
}

// wasApplied reports whether the observed record contains the override. gpuscaler writes the record and the value in one request. If the
// record contains the override, the API server therefore also applied the value.
func (fs *Fields) wasApplied(pool int, f nodepool.Field) bool {
	o := &fs.State.Pools[pool].Overrides[f]
	r, _ := parseRecord(fs.Views[pool].Record)
	for i := range r.Fields {
		if at, known := fs.State.Limits.FieldAt(r.Fields[i].Path); known && at == f {
			return r.Fields[i].On && r.Fields[i].Since == o.Since && r.Fields[i].To.Same(o.To)
		}
	}
	return false
}
