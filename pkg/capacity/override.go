package capacity

import (
	"slices"
	"time"

	"github.com/gpuscaler/gpuscaler/pkg/capacity/explain"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/nodepool"
	"github.com/gpuscaler/gpuscaler/pkg/capacity/statemachine"
)

// override is the state machine of one field of one NodePool. To, Before and Original are values: the override, the value before the last
// write, and the owner's value. "ours" means that gpuscaler's field manager owns the field.
//
//	state      observed value            next       action
//	free       any                       free       nothing
//	written    To                        confirmed  nothing
//	written    Before                    written    repeats the write after RepeatInterval
//	confirmed  To                        confirmed  nothing
//	confirmed  Before or another         yielded    the edit stays, and is the owner's value from then on
//	written    another                   yielded    the same
//	releasing  Original, ours            releasing  repeats the restore until the ownership ends
//	releasing  Original                  free       nothing
//	releasing  Before                    releasing  repeats the restore after RepeatInterval
//	releasing  another                   free       the edit stays
//	any        another, ours             as loaded  reads the record: a previous leader wrote the value
//	any        any, consent withdrawn    as it is   the value stays and is reported; an edit ends the override
//	yielded    any                       free       after shortYield, and after the third edit after longYield
//
// If another manager edits a list of budgets and keeps the entries of a freeze, the freeze continues. The other entries are the owner's new
// value.
type override struct {
	On         bool           `json:"on,omitempty"`
	Releasing  bool           `json:"releasing,omitempty"`
	Seen       bool           `json:"seen,omitempty"` // the written value was observed
	To         nodepool.Value `json:"value,omitempty"`
	Before     nodepool.Value `json:"before,omitempty"` // the value before the last write, which an observation may still show
	Original   nodepool.Value `json:"original,omitempty"`
	Owner      string         `json:"owner,omitempty"`
	Rule       explain.Rule   `json:"rule,omitempty"`
	At         int64          `json:"at,omitempty"`    // time of the last write
	Since      int64          `json:"since,omitempty"` // time of the first write
	Overwrites uint8          `json:"overwrites,omitempty"`
	Yielded    int64          `json:"yielded,omitempty"` // when an edit of another manager was last seen
	Retry      int64          `json:"retry,omitempty"`   // the field is not overridden before this time; 0: at any time
}

const (
	// tightenInterval is the shortest time between two changes of an override. Changes that allow more nodes, and restores of the owner's
	// value, are written at once. Each write of a NodePool's spec resets Karpenter's condition NodeRegistrationHealthy. Without the interval,
	// a limit that follows the number of nodes would reset the condition again and again.
	tightenInterval = 2 * time.Minute
	// shortYield is how long a field is not overridden after another manager edited it. longYield is this time after the third edit.
	shortYield = 10 * time.Minute
	longYield  = 6 * time.Hour
	// overwriteMemory is how long an edit of another manager is counted.
	overwriteMemory = 3 * time.Hour
	maxOverwrites   = 3
)

// yield returns the override as ended. The result only contains the count and the times of edits by other managers.
func (o *override) yield() override {
	return override{Overwrites: o.Overwrites, Yielded: o.Yielded, Retry: o.Retry}
}

// remembered reports whether the field is overridden, edits of other managers are counted, or the field waits after an edit. The record
// contains the field in these cases.
func (o *override) remembered() bool { return o.On || o.Overwrites > 0 || o.Retry > 0 }

// overwritten returns the override after another manager edited the field. Unless the field was being restored, the edit is counted and the
// field is not overridden again for shortYield or longYield.
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

// adoptRecords reads the overrides of a previous leader from the record of each NodePool that is observed for the first time. It reads the
// record again for a field that gpuscaler owns without an override in the state. This happens if the first observation was older than the
// previous leader's last write.
func (t *tick) adoptRecords() {
	for i := range t.views() {
		p, v := &t.s.Pools[i], &t.o.Pools[i]
		if !v.Exists {
			continue
		}
		for j := range v.Limits {
			if l := &v.Limits[j]; l.Ours {
				t.s.limit(l.Resource) // a limit that another version of the group has set
			}
		}
		t.s.examineRecord(i, v.Record)
		if p.newer != nil {
			t.adoptNewer(i)
			continue
		}
		var unknown nodepool.FieldSet
		for f := range nodepool.NumFields {
			if !p.Overrides[f].On && (!p.Adopted || t.view(i, f).Ours) {
				unknown |= 1 << f
			}
		}
		if unknown == 0 {
			continue
		}
		p.Adopted, p.Stale = true, true
		if !t.s.load(i, v.Record, unknown) {
			t.find(explain.Finding{Kind: explain.FindRecord, Pool: int8(i)})
		}
		for f := range nodepool.NumFields {
			if unknown&(1<<f) != 0 {
				t.adopt(i, f)
			}
		}
	}
}

// adopt checks an override that was read from a record. Record and value are written in one request. If gpuscaler does not own the field,
// another manager therefore edited it while no leader ran.
func (t *tick) adopt(pool int, f nodepool.Field) {
	o, view := &t.s.Pools[pool].Overrides[f], t.view(pool, f)
	switch {
	case !o.On || view.Ours:
	case view.Value.Same(o.Original):
		// The field has the owner's original value again, set by a user or by a restore that did not remove the record. The field is not
		// overridden for shortYield, but this is not counted as one of the three edits. The record contains the wait, so that the next leader
		// waits too.
		retry := t.at + shortYield.Milliseconds()
		*o = o.yield()
		o.Retry = retry
	default:
		o.Seen = true
	}
}

// settleOverrides compares every override with the observed value of its field, and detects edits of other managers and restores that are
// complete.
func (t *tick) settleOverrides() {
	for i := range t.views() {
		if !t.o.Pools[i].Exists {
			t.s.Pools[i] = poolState{} // the overrides were deleted with the NodePool
			continue
		}
		for f := range nodepool.NumFields {
			o := &t.s.Pools[i].Overrides[f]
			if o.On {
				t.settle(i, f)
			} else if o.forgotten(t.at) {
				*o = override{}
				t.s.Pools[i].Stale = true
			}
		}
	}
}

// forgotten reports whether the count of edits and the wait after an edit of a field that is not overridden are over.
func (o *override) forgotten(at int64) bool {
	if o.Overwrites == 0 {
		return o.Retry > 0 && at >= o.Retry
	}
	return at-o.Yielded > overwriteMemory.Milliseconds() && at >= o.Retry
}

func (t *tick) settle(pool int, f nodepool.Field) {
	p, view := &t.s.Pools[pool], t.view(pool, f)
	o, value := &p.Overrides[f], view.Value
	if !t.writable(pool, f) {
		p.settleWithoutConsent(f, value)
		return
	}
	switch {
	case o.Releasing && value.Same(o.Original) && !view.Ours:
		*o, p.Stale = o.yield(), true
	case o.Releasing && value.Same(o.Original):
		// The owner's value is restored, but gpuscaler still owns the field.
	case value.Same(o.To):
		o.Seen = true // also if another manager owns it too: Argo CD applies the values of fields that it ignores as they are
	case t.isBehind(pool, f):
	case f == nodepool.FieldBudgets && !o.Releasing && statemachine.HasFreeze(value):
		o.Original, _ = statemachine.WithoutFreeze(value)
		o.To, o.Seen, p.Stale = value, true, true
	case view.Ours:
		// A previous leader wrote this value after this leader's first observation. Read the override from the record.
		*o = override{}
		t.s.load(pool, t.o.Pools[pool].Record, 1<<f)
	default:
		*o, p.Stale = o.overwritten(t.at), true
	}
}

// settleWithoutConsent is settle for a field that the owner does not list any more. gpuscaler cannot have written another value since then.
func (p *poolState) settleWithoutConsent(f nodepool.Field, value nodepool.Value) {
	o := &p.Overrides[f]
	if value.Same(o.To) {
		o.Seen, o.Releasing = true, false // the override stays until the owner lists the field again
		return
	}
	*o, p.Stale = override{}, true // the owner changed the value
}

// isBehind reports whether the observation still shows the value from before the last write. Either the write is not complete, or the cache
// is not up to date.
func (t *tick) isBehind(pool int, f nodepool.Field) bool {
	o, view := &t.s.Pools[pool].Overrides[f], t.view(pool, f)
	return view.Value.Same(o.Before) && (o.Releasing || !o.Seen && !t.wasReverted(pool, f))
}

// wasReverted reports whether gpuscaler's write was applied and another manager reverted it before the cache showed it. In this case the
// record of the write exists, but gpuscaler does not own the field. For example, Argo CD can revert a write before the cache is updated.
func (t *tick) wasReverted(pool int, f nodepool.Field) bool {
	o, view := &t.s.Pools[pool].Overrides[f], t.view(pool, f)
	if view.Ours {
		return false
	}
	r, _ := parseRecord(t.o.Pools[pool].Record)
	for i := range r.Fields {
		if at, known := t.s.fieldAt(r.Fields[i].Path); known && at == f {
			return r.Fields[i].On && r.Fields[i].Since == o.Since && r.Fields[i].To.Same(o.To)
		}
	}
	return false
}

// original returns the value that a field has without the override. If consent was withdrawn, gpuscaler cannot end the override, so the
// result is the overridden value.
func (t *tick) original(pool int, f nodepool.Field) nodepool.Value {
	if o := &t.s.Pools[pool].Overrides[f]; o.On && t.writable(pool, f) {
		return o.Original
	}
	v := t.view(pool, f).Value
	if f == nodepool.FieldBudgets {
		v, _ = statemachine.WithoutFreeze(v)
	}
	return v
}

// effective returns the value that a field has in this tick: the value that a previous rule of the tick requested, or else the original
// value.
func (t *tick) effective(pool int, f nodepool.Field) nodepool.Value {
	if r := &t.requests[pool][f]; r.on {
		return r.value
	}
	return t.original(pool, f)
}

// reportYield adds a reason, and after the third edit a finding, for a field that is not overridden because another manager edited it.
func (t *tick) reportYield(pool int, f nodepool.Field) {
	o := &t.s.Pools[pool].Overrides[f]
	if t.at >= o.Retry {
		return
	}
	resource := t.s.resource(f)
	t.because(explain.Reason{Rule: explain.RuleForeignEdit, Pool: int8(pool), Name: f.Name(resource), A: float64(o.Overwrites),
		Until: statemachine.Instant(o.Retry)})
	if o.Overwrites >= maxOverwrites {
		t.find(explain.Finding{Kind: explain.FindContested, Pool: int8(pool), Field: f, Resource: resource, Count: int(o.Overwrites),
			Until: statemachine.Instant(o.Retry)})
	}
}

// fieldView returns the observed state of a field. For a limit, resource is its resource. A limit field without a resource is not in use;
// the result is then Unsupported.
func (a *analysis) fieldView(pool int, f nodepool.Field, resource string) nodepool.FieldView {
	p := &a.o.Pools[pool]
	switch f {
	case nodepool.FieldWeight:
		return p.Weight
	case nodepool.FieldConsolidateAfter:
		return p.ConsolidateAfter
	case nodepool.FieldConsolidationPolicy:
		return p.ConsolidationPolicy
	case nodepool.FieldBudgets:
		return p.Budgets
	}
	if resource == "" {
		return nodepool.FieldView{Unsupported: true}
	}
	i := slices.IndexFunc(p.Limits, func(l nodepool.LimitView) bool { return l.Resource == resource })
	if i < 0 {
		return nodepool.FieldView{}
	}
	return p.Limits[i].FieldView
}

// view returns the observed state of a field.
func (t *tick) view(pool int, f nodepool.Field) nodepool.FieldView {
	return t.fieldView(pool, f, t.s.resource(f))
}

// writable reports whether gpuscaler.io/nudge lists the field. Otherwise the chart's admission policy rejects a write of it.
func (a *analysis) writable(pool int, f nodepool.Field) bool {
	return a.o.Pools[pool].Consent&f.Consent() != 0
}

// consented reports whether the owner allows an override of the field: the field is writable, and gpuscaler.io/nudge does not contain
// restore.
func (a *analysis) consented(pool int, f nodepool.Field) bool {
	return a.writable(pool, f) && a.o.Pools[pool].Consent&nodepool.ConsentRestore == 0
}

// mayOverride reports whether an override of the field would be written in this tick if a rule requests one.
func (t *tick) mayOverride(pool int, f nodepool.Field) bool {
	p := &t.s.Pools[pool]
	return !t.g.Advisory && t.consented(pool, f) && !t.view(pool, f).Unsupported && t.at >= p.Overrides[f].Retry && p.newer == nil
}
