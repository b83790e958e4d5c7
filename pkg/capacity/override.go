package capacity

import (
	"slices"
	"time"
)

// override is the state machine of one field of one NodePool:
//
//	state      observed value            next       action
//	free       any                       free       nothing
//	written    To                        confirmed  nothing
//	written    Before                    written    repeats the write after repeatInterval
//	confirmed  To                        confirmed  nothing
//	confirmed  Before or another         yielded    the edit stays, and is the owner's value from then on
//	written    another                   yielded    the same
//	releasing  Original, ours            releasing  repeats the restore until the ownership ends
//	releasing  Original                  free       nothing
//	releasing  Before                    releasing  repeats the restore after repeatInterval
//	releasing  another                   free       the edit stays
//	any        another, ours             as loaded  reads the record: a previous leader wrote the value
//	any        any, consent withdrawn    as it is   the value stays and is reported; an edit ends the override
//	yielded    any                       free       after shortYield, and after the third edit after longYield
//
// A list of budgets that was edited around the entries of a freeze keeps both: the rest of the list is the owner's new value.
type override struct {
	On         bool   `json:"on,omitempty"`
	Releasing  bool   `json:"releasing,omitempty"`
	Seen       bool   `json:"seen,omitempty"` // the value was observed
	To         Value  `json:"value,omitempty"`
	Before     Value  `json:"before,omitempty"` // the value before the last write, which an observation may still show
	Original   Value  `json:"original,omitempty"`
	Owner      string `json:"owner,omitempty"`
	Rule       Rule   `json:"rule,omitempty"`
	At         int64  `json:"at,omitempty"`    // of the last write
	Since      int64  `json:"since,omitempty"` // of the first write
	Overwrites uint8  `json:"overwrites,omitempty"`
	Yielded    int64  `json:"yielded,omitempty"` // when an edit of another manager was last seen
	Retry      int64  `json:"retry,omitempty"`   // not overridden before; 0: no wait
}

const (
	// tightenInterval is the least time between two writes of a field that reduce what is possible. Each write of a spec resets
	// NodeRegistrationHealthy: a limit that followed every node would keep it reset.
	tightenInterval = 2 * time.Minute
	// shortYield is how long a field is not overridden after an edit of another manager, longYield after the third edit.
	shortYield = 10 * time.Minute
	longYield  = 6 * time.Hour
	// overwriteMemory is how long an edit counts towards the third.
	overwriteMemory = 3 * time.Hour
	maxOverwrites   = 3
)

// yield returns the override without its value: it remembers the edits of other managers.
func (o *override) yield() override {
	return override{Overwrites: o.Overwrites, Yielded: o.Yielded, Retry: o.Retry}
}

// overwritten returns the override after an edit of another manager.
func (o *override) overwritten(at int64) override {
	if o.Releasing {
		return o.yield()
	}
	count, wait := min(o.Overwrites+1, maxOverwrites), shortYield
	if count >= maxOverwrites {
		wait = longYield
	}
	return override{Overwrites: count, Yielded: at, Retry: at + wait.Milliseconds()}
}

// adoptRecords reads the records of the NodePools: of each NodePool that is observed for the first time, and of fields that gpuscaler
// owns without an override in the state, because the first observation was older than the last write of the previous leader.
func (t *tick) adoptRecords() {
	for i := range t.views() {
		p, v := &t.s.Pools[i], &t.o.Pools[i]
		if !v.Exists {
			continue
		}
		for j := range v.Limits {
			if l := &v.Limits[j]; l.Ours {
				t.s.limit(l.Resource) // a limit that another version of the group set
			}
		}
		var unknown fieldSet
		for f := range numFields {
			if !p.Overrides[f].On && (!p.Adopted || t.view(i, f).Ours) {
				unknown |= 1 << f
			}
		}
		if unknown == 0 {
			continue
		}
		p.Adopted, p.Stale = true, true
		if !t.s.load(i, v.Record, unknown) {
			t.find(Finding{Kind: FindRecord, Pool: int8(i)})
		}
		for f := range numFields {
			if unknown&(1<<f) != 0 {
				t.adopt(i, f)
			}
		}
	}
}

// adopt checks an override of a record. The record and the value are written in one request: a field that gpuscaler does not own was
// edited while no leader ran.
func (t *tick) adopt(pool int, f Field) {
	o, view := &t.s.Pools[pool].Overrides[f], t.view(pool, f)
	switch {
	case !o.On || view.Ours:
	case view.Value.same(o.Original):
		// By a user, or by a restore that did not complete. The edit does not count towards the third.
		retry := t.at + shortYield.Milliseconds()
		*o = o.yield()
		o.Retry = retry
	default:
		o.Seen = true
	}
}

// settleOverrides compares every override with what the cluster shows.
func (t *tick) settleOverrides() {
	for i := range t.views() {
		if !t.o.Pools[i].Exists {
			t.s.Pools[i] = poolState{} // the overrides were deleted with the NodePool
			continue
		}
		for f := range numFields {
			o := &t.s.Pools[i].Overrides[f]
			if o.On {
				t.settle(i, f)
			} else if o.Overwrites > 0 && t.at-o.Yielded > overwriteMemory.Milliseconds() && t.at >= o.Retry {
				*o = override{}
				t.s.Pools[i].Stale = true
			}
		}
	}
}

func (t *tick) settle(pool int, f Field) {
	p, view := &t.s.Pools[pool], t.view(pool, f)
	o, value := &p.Overrides[f], view.Value
	switch {
	case !t.writable(pool, f) && value.same(o.To):
		o.Seen, o.Releasing = true, false // it stays until its owner lists the field again
	case !t.writable(pool, f):
		*o, p.Stale = override{}, true // its owner changed it; gpuscaler cannot have written it without consent
	case o.Releasing && value.same(o.Original) && !view.Ours:
		*o, p.Stale = o.yield(), true
	case o.Releasing && value.same(o.Original):
		// The value is restored. The ownership has not ended yet.
	case value.same(o.To):
		o.Seen = true
	case t.isBehind(pool, f):
	case f == FieldBudgets && !o.Releasing && hasFreeze(value):
		o.Original, _ = withoutFreeze(value)
		o.To, o.Seen, p.Stale = value, true, true
	case view.Ours:
		// A previous leader wrote the value after the observation that this one started from.
		*o = override{}
		t.s.load(pool, t.o.Pools[pool].Record, 1<<f)
	default:
		*o, p.Stale = o.overwritten(t.at), true
	}
}

// isBehind reports whether the observation shows the value before the last write: the write is not complete, or the cache is behind.
func (t *tick) isBehind(pool int, f Field) bool {
	o, view := &t.s.Pools[pool].Overrides[f], t.view(pool, f)
	return view.Value.same(o.Before) && (o.Releasing || !o.Seen && !t.wasReverted(pool, f))
}

// wasReverted reports whether our write was applied and reverted before the cache observed it: the record was written, and the value is
// that of another manager. Argo CD can revert faster than the cache is updated.
func (t *tick) wasReverted(pool int, f Field) bool {
	o, view := &t.s.Pools[pool].Overrides[f], t.view(pool, f)
	if view.Ours {
		return false
	}
	r, _ := parseRecord(t.o.Pools[pool].Record)
	for i := range r.Fields {
		if at, known := t.s.fieldAt(r.Fields[i].Path); known && at == f {
			return r.Fields[i].On && r.Fields[i].Since == o.Since && r.Fields[i].To.same(o.To)
		}
	}
	return false
}

func hasFreeze(list Value) bool {
	_, found := withoutFreeze(list)
	return found
}

// original returns the value of a field without the override. An override that its owner does not allow us to end counts as the owner's
// own value, because it stays.
func (t *tick) original(pool int, f Field) Value {
	if o := &t.s.Pools[pool].Overrides[f]; o.On && t.writable(pool, f) {
		return o.Original
	}
	v := t.view(pool, f).Value
	if f == FieldBudgets {
		v, _ = withoutFreeze(v)
	}
	return v
}

// effective returns the value of a field with the requests of the rules so far.
func (t *tick) effective(pool int, f Field) Value {
	if r := &t.requests[pool][f]; r.on {
		return r.value
	}
	return t.original(pool, f)
}

// reportYield reports a field that another manager edited.
func (t *tick) reportYield(pool int, f Field) {
	o := &t.s.Pools[pool].Overrides[f]
	if t.at >= o.Retry {
		return
	}
	resource := t.s.resource(f)
	t.because(Reason{Rule: RuleForeignEdit, Pool: int8(pool), Name: f.Name(resource), A: float64(o.Overwrites), Until: instant(o.Retry)})
	if o.Overwrites >= maxOverwrites {
		t.find(Finding{Kind: FindContested, Pool: int8(pool), Field: f, Resource: resource, Count: int(o.Overwrites), Until: instant(o.Retry)})
	}
}

// fieldView returns what the observation shows of a field. The field of a limit without a resource is unused.
func (a *analysis) fieldView(pool int, f Field, resource string) FieldView {
	p := &a.o.Pools[pool]
	switch f {
	case FieldWeight:
		return p.Weight
	case FieldConsolidateAfter:
		return p.ConsolidateAfter
	case FieldConsolidationPolicy:
		return p.ConsolidationPolicy
	case FieldBudgets:
		return p.Budgets
	}
	if resource == "" {
		return FieldView{Unsupported: true}
	}
	i := slices.IndexFunc(p.Limits, func(l LimitView) bool { return l.Resource == resource })
	if i < 0 {
		return FieldView{}
	}
	return p.Limits[i].FieldView
}

// view returns what the observation shows of a field.
func (t *tick) view(pool int, f Field) FieldView { return t.fieldView(pool, f, t.s.resource(f)) }

// writable reports whether the API server accepts a write of the field: its word is in gpuscaler.io/nudge.
func (a *analysis) writable(pool int, f Field) bool { return a.o.Pools[pool].Consent&f.Consent() != 0 }

// consented reports whether the field may be overridden: it is writable, and its owner did not request the original values.
func (a *analysis) consented(pool int, f Field) bool {
	return a.writable(pool, f) && a.o.Pools[pool].Consent&ConsentRestore == 0
}

// mayOverride reports whether an override of the field would be written now.
func (t *tick) mayOverride(pool int, f Field) bool {
	return !t.g.Advisory && t.consented(pool, f) && !t.view(pool, f).Unsupported && t.at >= t.s.Pools[pool].Overrides[f].Retry
}
